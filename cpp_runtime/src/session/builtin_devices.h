// The kinds of device that every program has: simulator, timed, uio, model, rtl, driver.
#pragma once

#include <vector>

#include "device/uio_device.h"
#include "edgepipe/device_registry.h"

namespace edgepipe {

std::vector<DeviceKind> builtin_devices();

/// What `uio` opens: the accelerators of `request.indices`, and the u-dma-buf with the first one's
/// number, found as `board` says. The devices' least time limit is 1 s, but the default one (10 s)
/// if they are the virtual board's. Returns the errors of open_uio_memory and open_uio_device.
Result<DeviceGroup> open_board(const DeviceRequest& request, UioOptions board);

}  // namespace edgepipe
