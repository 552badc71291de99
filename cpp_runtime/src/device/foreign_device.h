// A device behind a third-party driver: a shared library with the functions of vta/driver.h.
//
//   Result<std::unique_ptr<Device>> device = open_foreign_device(accelerator, "libvta_driver.so");
//
// Upstream's drivers and simulators have this interface, so they can run edgepipe's programs. The
// interface does not report the accelerator's configuration or encoding revision, so the revision
// is given with the library's name, see NamedLibrary. A bundle for another configuration computes
// wrong results, which only a run of its golden input detects.
//
// VTADeviceRun takes a number of polls, not a time limit. A run that exceeds its time limit is
// still kDeadline (foreign_runner.h); the next run waits for it, as it waits for its turn.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "edgepipe/accelerator.h"
#include "edgepipe/device.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// A library and the encoding revision that it was built for, written as "PATH@0.0.1".
struct NamedLibrary {
  std::filesystem::path path;
  Revision revision = Revision::k0_0_1;
};

/// Reads "PATH@0.0.1". kInvalidArgument if no known revision is named.
Result<NamedLibrary> parse_library(const std::string& text);

/// Loads the library and allocates its device. kNotFound if it cannot be loaded, kUnsupported
/// if functions are missing (all are named), kDevice if it returns no device, kOtherRevision if the
/// accelerator that programs are compiled for has another revision: a program of another revision
/// would write to other addresses than it should.
Result<std::unique_ptr<Device>> open_foreign_device(const Accelerator& accelerator,
                                                    const NamedLibrary& library);

}  // namespace edgepipe
