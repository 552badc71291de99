#include "base/loaded_library.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>

#include "base/memory_file.h"
#include "base/open_failure.h"

namespace edgepipe {

void CloseLibrary::operator()(void* library) const { ::dlclose(library); }

Result<LoadedLibrary> load_library(const std::string& path, Code code, const std::string& what) {
  LoadedLibrary library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library != nullptr) return library;
  // dlopen() gives its cause only as text, so look whether a file could be opened at all.
  const FileDescriptor another(::open("/", O_PATH | O_CLOEXEC));
  if (!another.valid() && is_too_many_files(errno)) return open_failure(code, what, errno);
  const char* const reason = ::dlerror();
  return Status(code, what + ": " + (reason == nullptr ? "no reason given" : reason));
}

Result<LoadedLibrary> load_library_file(const std::filesystem::path& file,
                                        const std::string& what) {
  // dlopen() would search for a name without a slash in the system's folders.
  const std::filesystem::path path = file.has_parent_path() ? file : "." / file;
  return load_library(path.string(), Code::kNotFound, what)
      .advised("check its path, and that it is built for this machine");
}

Result<MemoryLibrary> load_library(std::span<const std::byte> content, const std::string& name) {
  Result<FileDescriptor> file = memory_file(name, content);
  if (!file.ok()) return file.status();
  const std::string path = "/proc/self/fd/" + std::to_string(file->number());
  Result<LoadedLibrary> library = load_library(path, Code::kCorrupt, name + ": cannot be loaded");
  if (!library.ok()) return library.status();
  return MemoryLibrary{.file = *std::move(file), .library = *std::move(library)};
}

}  // namespace edgepipe
