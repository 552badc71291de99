#include "media/sinks/stream_destination.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file_descriptor.h"
#include "base/open_failure.h"
#include "base/url_text.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlaylist = ".m3u8";
constexpr const char* kSegment = ".ts";
constexpr const char* kFolderAdvice =
    "choose a folder that this program may write to, such as one below /dev/shm, which is in "
    "memory";

/// Whether `name` is `stem`, a hyphen, a number and .ts.
bool is_segment(const std::string& name, const std::string& stem) {
  const std::size_t first = stem.size() + 1;
  const std::size_t suffix = name.size() - std::min(name.size(), std::string_view(kSegment).size());
  return suffix > first && name.starts_with(stem + "-") && name.ends_with(kSegment) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(first),
                     name.begin() + static_cast<std::ptrdiff_t>(suffix),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<StreamDestination> StreamDestination::parse(const std::string& text) {
  StreamDestination destination;
  const std::size_t scheme = text.find("://");
  if (scheme != std::string::npos) {
    destination.name_ = without_password(text);
    destination.address_ = text;
    if (text.starts_with("rtsp://")) return destination;
    return Status(
        Code::kUnsupported,
        "stream to " + destination.name_ + ": found an address of " + text.substr(0, scheme) +
            ", expected rtsp, a folder, or a playlist",
        "give the address of an RTSP server, as in rtsp://host/path, or a folder for HLS");
  }
  fs::path path = text;
  if (path.extension() != kPlaylist) path /= std::string("stream") + kPlaylist;
  std::error_code error;
  destination.playlist_ = fs::absolute(path, error).lexically_normal();
  destination.name_ = path.string();
  if (destination.playlist_.string().find('%') != std::string::npos) {
    return Status(Code::kInvalidArgument,
                  "stream to " + destination.name_ +
                      ": found a %, which ffmpeg takes for a number's place in a name",
                  "choose a folder and a name without it");
  }
  return destination;
}

Status StreamDestination::prepare() const {
  if (playlist_.empty()) return {};
  const fs::path folder = playlist_.parent_path();
  const std::string stem = playlist_.stem().string();
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path trial = folder / (stem + ".trial");
  const FileDescriptor file(
      error ? -1 : ::open(trial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.valid()) {
    return open_failure(Code::kNotFound,
                        "stream to " + name_ + ": cannot write to " + folder.string(),
                        error ? error.value() : errno, kFolderAdvice);
  }
  ::unlink(trial.c_str());
  ::unlink(playlist_.c_str());
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_segment(entry->path().filename().string(), stem)) ::unlink(entry->path().c_str());
  }
  return {};
}

std::vector<std::string> StreamDestination::output() const {
  if (playlist_.empty()) return {"-f", "rtsp", "-rtsp_transport", "tcp", address_};
  // Six segments of a second each: players begin three seconds behind. Two more are kept for those
  // that are about to read them.
  const fs::path segments =
      playlist_.parent_path() / (playlist_.stem().string() + "-%d" + kSegment);
  return {"-f",
          "hls",
          "-hls_time",
          "1",
          "-hls_list_size",
          "6",
          "-hls_delete_threshold",
          "2",
          "-hls_flags",
          "delete_segments+temp_file+independent_segments",
          "-hls_start_number_source",
          "epoch",
          "-hls_segment_filename",
          segments.string(),
          playlist_.string()};
}

}  // namespace edgepipe
