// What the process of one session does, and the last word to a client whose process was ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace edgepipe::rpc {

/// Serves the client at `descriptor` until it ends the session, goes, or asks nothing for `idle`.
/// Uploaded files are in `folder`, which becomes the working folder. False when it ended badly.
bool serve_session(int descriptor, const std::filesystem::path& folder, std::chrono::seconds idle);

/// Answers the client's call under way with an error.
void return_error(int descriptor, const std::string& text);

}  // namespace edgepipe::rpc
