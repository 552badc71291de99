// The process of one session, and the final answer to a client whose process was ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace edgepipe::rpc {

/// Serves the client at `descriptor` until it ends the session, disconnects, or is idle for `idle`.
/// Uploaded files are in `folder`, which becomes the working folder. False after an error.
bool serve_session(int descriptor, const std::filesystem::path& folder,
                   std::chrono::seconds idle) noexcept;

/// Answers the client's pending call with an error.
void return_error(int descriptor, const std::string& text) noexcept;

}  // namespace edgepipe::rpc
