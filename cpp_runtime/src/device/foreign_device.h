// A device behind a third-party driver: a shared library with the functions of vta/driver.h.
//
//   Result<std::unique_ptr<Device>> device = open_foreign_device(accelerator, "libvta_driver.so");
//
// Upstream's drivers and simulators have this interface, so they can run edgepipe's programs. The
// interface does not report the accelerator's configuration or encoding revision. A bundle for
// another accelerator computes wrong results, which only its golden input detects. Time limits are
// up to the library: VTADeviceRun gets upstream's number of polls, and a call that never returns
// cannot be ended.
#pragma once

#include <filesystem>
#include <memory>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Loads the library and allocates its device. kNotFound if it cannot be loaded, kUnsupported
/// if functions are missing (all are named), kDevice if it returns no device.
Result<std::unique_ptr<Device>> open_foreign_device(const Accelerator& accelerator,
                                                    const std::filesystem::path& library);

}  // namespace edgepipe
