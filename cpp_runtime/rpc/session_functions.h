// register_functions: what a session of edgepipe-rpcd answers besides TVM's own functions and those
// of ffi/functions.cc: where the files are that a client uploads.
#pragma once

#include <filesystem>

namespace edgepipe::rpc {

/// Registers TVM's file functions for this process; files are those in `folder`.
void register_functions(const std::filesystem::path& folder);

}  // namespace edgepipe::rpc
