// The kinds of device that every program has: simulator, timed, uio, model, driver.
#pragma once

#include <vector>

#include "edgepipe/device_registry.h"

namespace edgepipe {

std::vector<DeviceKind> builtin_devices();

}  // namespace edgepipe
