// LoadedLibrary: a shared library that is open as long as this lives.
//
//   Result<LoadedLibrary> library =
//       load_library("/opt/vta/libvta.so", Code::kNotFound, "driver libvta.so: cannot be loaded");
//   void* function = ::dlsym(library->get(), "VTADeviceRun");
#pragma once

#include <memory>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

struct CloseLibrary {
  void operator()(void* library) const;
};
using LoadedLibrary = std::unique_ptr<void, CloseLibrary>;

/// Loads a library, whose symbols stay its own. `path` without a slash is searched for in the
/// system's folders. `code` with "WHAT: the loader's reason" if it cannot be loaded, as
/// open_failure() if there are too many open files. May block; runs the library's initialisers.
Result<LoadedLibrary> load_library(const std::string& path, Code code, const std::string& what);

}  // namespace edgepipe
