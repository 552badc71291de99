#include "session_functions.h"

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

namespace edgepipe::rpc {
namespace {

namespace ffi = tvm::ffi;
using Path = std::filesystem::path;

/// A client can name only files of its own session; their folders are created.
Path session_path(const Path& folder, const std::string& name) {
  const Path path(name);
  bool inside = !name.empty() && path.is_relative();
  for (const Path& part : path) inside = inside && part != "..";
  if (!inside) TVM_FFI_THROW(ValueError) << "file '" << name << "' is not inside the session";
  std::error_code error;
  std::filesystem::create_directories((folder / path).parent_path(), error);
  return folder / path;
}

/// Unlike TVM's own function, fails if not all of `content` could be written.
void write_file(const Path& path, const std::string& name, const ffi::Bytes& content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file) return;
  const std::string cause = errno != 0 ? std::strerror(errno) : "unknown error";
  std::error_code error;
  std::filesystem::remove(path, error);
  TVM_FFI_THROW(RuntimeError) << "file '" << name << "' cannot be written: " << cause;
}

}  // namespace

void register_functions(const Path& folder) {
  const bool replace = true;  // TVM registers its own functions for these names
  ffi::Function::SetGlobal("tvm.rpc.server.workpath",
                           ffi::Function::FromTyped([folder](const ffi::String& name) {
                             return ffi::String(session_path(folder, std::string(name)).string());
                           }),
                           replace);
  ffi::Function::SetGlobal(
      "tvm.rpc.server.upload",
      ffi::Function::FromTyped([folder](const ffi::String& name, const ffi::Bytes& content) {
        write_file(session_path(folder, std::string(name)), std::string(name), content);
      }),
      replace);
  ffi::Function::SetGlobal(
      "tvm.rpc.server.load_module", ffi::Function::FromTyped([folder](const ffi::String& name) {
        return ffi::Module::LoadFromFile(session_path(folder, std::string(name)).string());
      }),
      replace);
}

}  // namespace edgepipe::rpc
