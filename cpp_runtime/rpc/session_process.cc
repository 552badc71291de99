#include "session_process.h"

#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "base/console.h"
#include "base/out_of_memory.h"
#include "session_functions.h"
#include "socket.h"

namespace edgepipe::rpc {

namespace {

/// Prints an exception, if there is memory for that.
void report(const char* what, const std::exception& error) {
  static_cast<void>(or_out_of_memory([&] {
    print_lines(stderr, std::string("edgepipe-rpcd: ") + what + ": " + error.what() + "\n");
    return Status();
  }));
}

}  // namespace

// TVM's C++ code throws; its exceptions end here.
bool serve_session(int descriptor, const std::filesystem::path& folder,
                   std::chrono::seconds idle) noexcept {
  try {
    // TVM's loop blocks in read() while the client is idle, and ends when read() fails.
    if (!set_patience(descriptor, idle).ok() || ::chdir(folder.c_str()) != 0) return false;
    register_functions(folder);
    tvm::ffi::Function::GetGlobalRequired("rpc.ServerLoop")(descriptor);
    return true;
  } catch (const std::exception& error) {
    report("session", error);
    return false;
  }
}

void return_error(int descriptor, const std::string& text) noexcept {
  try {
    tvm::ffi::Function::GetGlobalRequired("rpc.ReturnException")(descriptor, text);
  } catch (const std::exception& error) {
    report("could not report to the client", error);
  }
}

}  // namespace edgepipe::rpc
