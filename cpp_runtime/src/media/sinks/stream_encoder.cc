#include "media/sinks/stream_encoder.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/open_failure.h"
#include "base/url_text.h"

namespace edgepipe {
namespace {

constexpr std::chrono::seconds kTakesNothing{10};
constexpr std::chrono::seconds kEnds{3};
constexpr std::chrono::seconds kChecked{20};  // a slow board loads ffmpeg from its card
constexpr int kPoll_ms = 100;
constexpr int kPipeBytes = 1 << 20;  // the most that an ordinary user may have
constexpr const char* kInstall =
    "install a complete ffmpeg (Debian: apt-get install ffmpeg), or leave out the stream";

/// Why ffmpeg failed: a part of what it prints, and what its user reads instead.
struct Cause {
  std::string_view printed;
  const char* found;
  const char* hint;
  Code code = Code::kDevice;
};

constexpr std::array<Cause, 8> kCauses = {
    {{"Unknown encoder", "found no encoder libx264 in ffmpeg, expected one that has it", kInstall,
      Code::kUnsupported},
     {"Connection refused", "the server refuses the connection",
      "start the RTSP server, or check the host and the port in the address"},
     {"resolve hostname", "found no machine of that name", "check the host in the address"},
     {"401 Unauthorized", "the server refuses the name and password",
      "check the name and the password in the address"},
     {"404 Not Found", "the server knows no such path", "check the path in the address"},
     {"Broken pipe", "the server has closed the connection", "see what the server says about it"},
     {"Connection reset", "the server has closed the connection",
      "see what the server says about it"},
     {"No space left on device", "found no space left", "free some, or choose another folder"}}};

/// Lines that only say that something failed.
constexpr std::array<std::string_view, 4> kUseless = {"Error initializing output",
                                                      "Conversion failed", "Error opening output",
                                                      "Nothing was written"};

/// The last line of ffmpeg's messages that says something, without "[tcp @ 0x55d0]" before it.
std::string last_reason(std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = words.find_last_not_of("\r\n");
    if (end == std::string_view::npos) return {};
    words = words.substr(0, end + 1);
    const std::size_t before = words.rfind('\n');
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    std::string_view line = words.substr(first);
    words = words.substr(0, first);
    if (std::ranges::any_of(kUseless, [&](std::string_view u) { return line.starts_with(u); })) {
      continue;
    }
    const std::size_t bracket = line.starts_with('[') ? line.find("] ") : std::string_view::npos;
    if (bracket != std::string_view::npos) line.remove_prefix(bracket + 2);
    return std::string(line);
  }
  return {};
}

std::string decimal(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.6g", value);
  return digits.data();
}

std::vector<std::string> command(const StreamEncoder::Shape& shape) {
  const std::string bits = std::to_string(shape.kilobits_per_second) + "k";
  const int key = std::max(1, static_cast<int>(std::lround(shape.frames_per_second)));
  return {"ffmpeg", "-hide_banner", "-loglevel", "error", "-progress", "pipe:1",
          // Input: what write() gets.
          "-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size",
          std::to_string(shape.width) + "x" + std::to_string(shape.height), "-framerate",
          decimal(shape.frames_per_second), "-i", "pipe:0",
          // Frames are encoded while the pipeline runs, on the same cores. A key frame each second,
          // where a segment may begin.
          "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-crf", "23",
          "-maxrate", bits, "-bufsize", bits, "-g", std::to_string(key),
          // Colours as in the videos of `edgepipe run`: those that every player expects.
          "-vf", "scale=out_color_matrix=bt709:out_range=tv,format=yuv420p", "-colorspace", "bt709",
          "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"};
}

}  // namespace

StreamEncoder::StreamEncoder(StreamDestination destination, ChildProcess process,
                             FileDescriptor input)
    : destination_(std::move(destination)),
      process_(std::move(process)),
      input_(std::move(input)),
      progress_(process_.take_output()) {}

Result<std::unique_ptr<StreamEncoder>> StreamEncoder::start(const StreamDestination& destination,
                                                            const Shape& shape) {
  return start(destination, shape, destination.output());
}

Result<std::unique_ptr<StreamEncoder>> StreamEncoder::start(
    const StreamDestination& destination, const Shape& shape,
    const std::vector<std::string>& output) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return open_failure(Code::kInternal, "stream to " + destination.name() + ": pipe", errno);
  }
  const FileDescriptor reader(ends[0]);
  FileDescriptor input(ends[1]);
  ::fcntl(input.number(), F_SETFL, O_NONBLOCK);
  ::fcntl(input.number(), F_SETPIPE_SZ, kPipeBytes);  // a smaller one is only slower
  std::vector<std::string> arguments = command(shape);
  arguments.insert(arguments.end(), output.begin(), output.end());
  // A playlist is completed also if this process is killed. A server may never take the rest.
  Result<ChildProcess> process = ChildProcess::start(
      arguments, {.standard_input = reader.number(), .outlives = !destination.playlist().empty()});
  if (!process.ok()) {
    if (process.status().code() != Code::kNotFound) return process.status();
    return Status(Code::kUnsupported,
                  "stream to " + destination.name() +
                      ": encoding it needs ffmpeg, which is not installed here",
                  kInstall);
  }
  std::unique_ptr<StreamEncoder> encoder(
      new StreamEncoder(destination, *std::move(process), std::move(input)));
  ::fcntl(encoder->progress_.number(), F_SETFL, O_NONBLOCK);
  return encoder;
}

Status StreamEncoder::check(const StreamDestination& destination) {
  constexpr int kSide = 32;  // pixels
  const Shape shape{.width = kSide, .height = kSide};
  Result<std::unique_ptr<StreamEncoder>> encoder = start(destination, shape, {"-f", "null", "-"});
  if (!encoder.ok()) return encoder.status();
  const std::vector<std::byte> black(std::size_t{3} * kSide * kSide);
  const std::atomic<bool> never{false};
  const Result<bool> written = (*encoder)->write(black, never);
  return written.ok() ? (*encoder)->finish(kChecked) : written.status();
}

Result<bool> StreamEncoder::write(std::span<const std::byte> pixels,
                                  const std::atomic<bool>& stop) {
  Clock::time_point deadline = Clock::now() + kTakesNothing;
  while (!pixels.empty()) {
    const ssize_t count = ::write(input_.number(), pixels.data(), pixels.size());
    if (count > 0) {
      pixels = pixels.subspan(static_cast<std::size_t>(count));
      deadline = Clock::now() + kTakesNothing;
      continue;
    }
    if (errno == EPIPE) return failure(Clock::now() + kEnds);
    if (errno != EAGAIN && errno != EINTR) {
      return open_failure(Code::kInternal, "stream to " + destination_.name(), errno);
    }
    if (stop) return false;
    if (Clock::now() >= deadline) {
      return Status(Code::kDeadline,
                    "stream to " + destination_.name() + ": no frame was taken for 10 s",
                    "check that the server answers, or choose a smaller picture or a lower rate");
    }
    pollfd events{.fd = input_.number(), .events = POLLOUT, .revents = 0};
    ::poll(&events, 1, kPoll_ms);
  }
  return true;
}

/// Reads ffmpeg's progress; the number of frames that it has sent.
std::uint64_t StreamEncoder::frames_sent() {
  std::array<char, 1024> piece{};
  for (;;) {
    const ssize_t count = ::read(progress_.number(), piece.data(), piece.size());
    if (count <= 0) return sent_;
    for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(count))) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      constexpr std::string_view kFrame = "frame=";
      if (line_.starts_with(kFrame)) {
        std::from_chars(line_.data() + kFrame.size(), line_.data() + line_.size(), sent_);
      }
      line_.clear();
    }
  }
}

bool StreamEncoder::delivers() {
  const std::uint64_t before = sent_;
  const bool sends = frames_sent() > before;
  if (destination_.playlist().empty()) return sends;
  // ffmpeg goes on if it cannot write a segment.
  std::error_code error;
  const auto written = std::filesystem::last_write_time(destination_.playlist(), error);
  return !error && std::exchange(written_, written) != written;
}

Status StreamEncoder::finish() { return finish(kEnds); }

Status StreamEncoder::finish(Clock::duration limit) {
  input_ = FileDescriptor();
  return failure(Clock::now() + limit);
}

/// Waits for ffmpeg's end; why it failed, if it did.
Status StreamEncoder::failure(Clock::time_point deadline) {
  const std::string name = "stream to " + destination_.name() + ": ";
  // Its progress must not fill the pipe meanwhile.
  Status ended;
  do {
    frames_sent();
    ended = process_.wait(std::min(deadline, Clock::now() + std::chrono::milliseconds(kPoll_ms)));
  } while (ended.code() == Code::kDeadline && Clock::now() < deadline);
  if (ended.ok()) return {};
  if (ended.code() == Code::kDeadline) {
    return Status(Code::kDeadline, name + "ffmpeg has not ended");
  }
  const std::string words = replaced(process_.words(), destination_.address(), destination_.name());
  for (const Cause& cause : kCauses) {
    if (words.find(cause.printed) != std::string::npos) {
      return Status(cause.code, name + cause.found, cause.hint);
    }
  }
  const std::string reason = last_reason(words);
  return Status(Code::kDevice, name + (reason.empty() ? ended.message() : "ffmpeg: " + reason),
                destination_.playlist().empty()
                    ? "check that an RTSP server takes streams at this address"
                    : "check the folder, and with `ffmpeg -version` that ffmpeg runs");
}

}  // namespace edgepipe
