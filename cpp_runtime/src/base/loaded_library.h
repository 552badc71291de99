// LoadedLibrary: a shared library that is open as long as this lives.
//
//   Result<LoadedLibrary> library =
//       load_library_file("libvta.so", "driver libvta.so: cannot be loaded");
//   decltype(&::VTADeviceRun) run = nullptr;
//   if (!find_function(library->get(), "VTADeviceRun", run)) ...
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/file_descriptor.h"
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

/// Loads the library that a user named; without a slash, it is in the current folder. kNotFound
/// with "WHAT: the loader's reason" and a hint if it cannot be loaded, otherwise as load_library().
Result<LoadedLibrary> load_library_file(const std::filesystem::path& file, const std::string& what);

/// Sets `function` to a library's function of that name, or to null; whether there is one.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// A library that was loaded from memory. Each one is a copy of its own.
struct MemoryLibrary {
  // Open as long as the library is loaded: dlopen() treats libraries with equal paths as the same
  // one, and the path is /proc/self/fd/<number>.
  FileDescriptor file;
  LoadedLibrary library;
};

/// Loads a library's bytes. kCorrupt with "NAME: cannot be loaded: the loader's reason",
/// kOutOfMemory as memory_file() and load_library(). May block; runs the library's initialisers.
Result<MemoryLibrary> load_library(std::span<const std::byte> content, const std::string& name);

}  // namespace edgepipe
