// StreamDestination: where a stream goes: a folder or playlist for HLS, or an RTSP server.
//
//   Result<StreamDestination> destination = StreamDestination::parse("/dev/shm/live");
//   Status status = destination->prepare();       // before each start of ffmpeg
//   ... ffmpeg ... destination->output() ...
//
// A folder gets the playlist stream.m3u8. Segments are beside the playlist and have its name and a
// number. They are numbered by the clock, so a player that keeps reading the playlist goes on after
// the program has been started again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

class StreamDestination {
 public:
  /// kUnsupported for an address other than rtsp, kInvalidArgument for a name that ffmpeg would
  /// read as a pattern.
  static Result<StreamDestination> parse(const std::string& text);

  /// For HLS: makes the folder if it is missing, checks that files can be written to it, and
  /// removes what an earlier stream has left there. kNotFound if that fails.
  [[nodiscard]] Status prepare() const;

  /// ffmpeg's arguments for its output.
  [[nodiscard]] std::vector<std::string> output() const;

  /// For people: the playlist, or the address without a password.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// What must be replaced by name() in texts; empty for HLS.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Empty for RTSP.
  [[nodiscard]] const std::filesystem::path& playlist() const { return playlist_; }

 private:
  StreamDestination() = default;

  std::string name_;
  std::string address_;             // of a server; empty: HLS
  std::filesystem::path playlist_;  // absolute
};

}  // namespace edgepipe
