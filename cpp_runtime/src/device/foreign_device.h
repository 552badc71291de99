// A device behind somebody else's driver: a shared library with the functions of vta/driver.h.
//
//   Result<std::unique_ptr<Device>> device = open_foreign_device(accelerator, "libvta_driver.so");
//
// Upstream's drivers and simulators have this interface, so that they run edgepipe's programs. The
// library decides what the accelerator is; nothing in the interface tells its configuration or
// encoding revision, so a bundle for another one gives wrong results that only its golden input
// shows. Deadlines are the library's: VTADeviceRun gets upstream's limit of polls, and a call that
// never returns cannot be ended.
#pragma once

#include <filesystem>
#include <memory>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Loads the library and allocates its device. kNotFound when it cannot be loaded, kUnsupported
/// when it lacks functions (all are named), kDevice when it gives no device.
Result<std::unique_ptr<Device>> open_foreign_device(const Accelerator& accelerator,
                                                    const std::filesystem::path& library);

}  // namespace edgepipe
