#include "edgepipe/frame_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace edgepipe {
namespace {

constexpr int kPollMs = 100;

}  // namespace

Result<FrameSource> FrameSource::open(const std::filesystem::path& path, Format format,
                                      const Preprocess& preprocess) {
  if (path == "-") {
    return FrameSource(FileDescriptor(::dup(STDIN_FILENO)), "standard input", format, preprocess);
  }
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return Status(Code::kNotFound,
                  path.string() + ": cannot be opened: " + std::generic_category().message(errno));
  }
  return FrameSource(std::move(file), path.string(), format, preprocess);
}

FrameSource::FrameSource(FileDescriptor file, std::string name, Format format,
                         const Preprocess& preprocess)
    : file_(std::move(file)), name_(std::move(name)), format_(format), preprocess_(preprocess) {}

Status FrameSource::corrupt(const std::string& text) const {
  return Status(Code::kCorrupt, name_ + ": frame " + std::to_string(frames_) + ": " + text);
}

Result<bool> FrameSource::read(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  Result<bool> more =
      format_ == Format::kRaw ? read_exactly(bytes, stop) : read_picture(bytes, stop);
  if (more.ok() && *more) ++frames_;
  return more;
}

/// Bytes read, 0 at the end of the input or on `stop`.
Result<std::size_t> FrameSource::read_some(std::span<std::byte> bytes,
                                           const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd events{.fd = file_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&events, 1, kPollMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(file_.number(), bytes.data(), bytes.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EINTR || errno == EAGAIN) continue;
    return corrupt("cannot be read: " + std::generic_category().message(errno));
  }
  return std::size_t{0};
}

Result<bool> FrameSource::read_exactly(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    Result<std::size_t> count = read_some(bytes.subspan(filled), stop);
    if (!count.ok()) return count.status();
    if (*count == 0) {
      if (filled == 0 || stop) return false;
      return corrupt("the input ends after " + std::to_string(filled) + " of " +
                     std::to_string(bytes.size()) + " bytes");
    }
    filled += *count;
  }
  return true;
}

Result<bool> FrameSource::read_picture(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  const bool gray = preprocess_.order == "GRAY";
  const std::string magic = gray ? "P5" : "P6";
  std::byte start[2];
  Result<bool> more = read_exactly(start, stop);
  if (!more.ok() || !*more) return more;
  if (static_cast<char>(start[0]) != magic[0] || static_cast<char>(start[1]) != magic[1]) {
    return corrupt("not a binary " + std::string(gray ? "PGM (P5)" : "PPM (P6)") + " picture");
  }
  int numbers[3];
  for (int& number : numbers) {
    Result<int> found = read_header_number(stop);
    if (!found.ok()) return found.status();
    number = *found;
  }
  const auto [width, height, largest] = numbers;
  if (width != preprocess_.width || height != preprocess_.height) {
    return corrupt("the picture is " + std::to_string(width) + "x" + std::to_string(height) +
                   ", the network takes " + std::to_string(preprocess_.width) + "x" +
                   std::to_string(preprocess_.height));
  }
  if (largest != 255) {
    return corrupt("the largest value is " + std::to_string(largest) + ", expected 255");
  }
  more = read_exactly(bytes, stop);
  if (!more.ok()) return more;
  if (!*more) return stop ? more : corrupt("the input ends after the picture's header");
  if (preprocess_.order == "BGR") {  // PPM is RGB
    for (std::size_t pixel = 0; pixel + 2 < bytes.size(); pixel += 3) {
      std::swap(bytes[pixel], bytes[pixel + 2]);
    }
  }
  return true;
}

/// A decimal number after white space and comments; takes the one white space behind it along.
Result<int> FrameSource::read_header_number(const std::atomic<bool>& stop) {
  int value = 0;
  int digits = 0;
  bool comment = false;
  for (;;) {
    std::byte byte{};
    Result<bool> more = read_exactly(std::span(&byte, 1), stop);
    if (!more.ok()) return more.status();
    if (!*more) return corrupt("the input ends inside the picture's header");
    const char letter = static_cast<char>(byte);
    if (comment) {
      comment = letter != '\n';
    } else if (letter >= '0' && letter <= '9' && digits < 6) {
      value = value * 10 + (letter - '0');
      ++digits;
    } else if (letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r') {
      if (digits > 0) return value;
    } else if (letter == '#' && digits == 0) {
      comment = true;
    } else {
      return corrupt("the picture's header is damaged");
    }
  }
}

}  // namespace edgepipe
