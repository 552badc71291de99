// register_functions: the file functions of an edgepipe-rpcd session, in addition to TVM's own
// functions and those of ffi/functions.cc.
#pragma once

#include <filesystem>

namespace edgepipe::rpc {

/// Registers TVM's file functions for this process; they access files in `folder`.
void register_functions(const std::filesystem::path& folder);

}  // namespace edgepipe::rpc
