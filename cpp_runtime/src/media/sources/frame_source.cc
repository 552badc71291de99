#include "media/sources/frame_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/open_failure.h"
#include "media/pictures/pnm_header.h"
#include "media/sources/compressed_file.h"

namespace edgepipe {

Result<FrameSource> FrameSource::open(const std::filesystem::path& path, Format format,
                                      const Preprocess& preprocess,
                                      const ByteStream::Waiting& waiting) {
  if (path == "-") {
    FileDescriptor input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!input.valid()) {
      return open_failure(Code::kNotFound, "standard input: cannot be opened", errno,
                          "start the program with an open standard input");
    }
    return FrameSource(ByteStream(std::move(input), waiting), "standard input", format, preprocess);
  }
  // O_NONBLOCK: a FIFO without a writer is silent, instead of blocking open(2).
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return open_failure(Code::kNotFound, path.string() + ": cannot be opened", errno,
                        "check the name and the permissions");
  }
  return FrameSource(ByteStream(std::move(file), waiting), path.string(), format, preprocess);
}

FrameSource::FrameSource(ByteStream stream, std::string name, Format format,
                         const Preprocess& preprocess)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      format_(format),
      preprocess_(preprocess) {}

Result<bool> FrameSource::read(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  Result<bool> more = format_ == Format::kRaw ? read_raw(bytes, stop) : read_picture(bytes, stop);
  if (!more.ok()) return more.status().with_context(name_ + ": frame " + std::to_string(frames_));
  if (*more) ++frames_;
  return more;
}

Result<bool> FrameSource::read_raw(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  const bool first = frames_ == 0;
  if (first) std::ranges::fill(bytes, std::byte{0});  // in case the input ends inside it
  Result<bool> more = stream_.read(bytes, stop);
  const std::string_view compressed = first ? compressed_format(bytes) : "";
  if (compressed.empty()) return more;
  return Status(Code::kCorrupt,
                "the input is " + std::string(compressed) + ", expected raw frames of " +
                    std::to_string(bytes.size()) + " bytes",
                "decode it first, or name its file instead of passing its bytes");
}

Result<bool> FrameSource::read_picture(std::span<std::byte> bytes, const std::atomic<bool>& stop) {
  const bool gray = preprocess_.order == "GRAY";
  Result<std::optional<PnmHeader>> header = read_pnm_header(stream_, stop);
  if (!header.ok()) return header.status();
  if (!*header) return false;
  if ((*header)->gray != gray) {
    return Status(Code::kCorrupt,
                  "not a binary " + std::string(gray ? "PGM (P5)" : "PPM (P6)") + " picture");
  }
  const auto [is_gray, width, height] = **header;
  if (width != preprocess_.width || height != preprocess_.height) {
    return Status(Code::kCorrupt, "the picture is " + std::to_string(width) + "x" +
                                      std::to_string(height) + ", the network takes " +
                                      std::to_string(preprocess_.width) + "x" +
                                      std::to_string(preprocess_.height));
  }
  Result<bool> more = stream_.read(bytes, stop);
  if (!more.ok()) return more;
  if (!*more) {
    return stop ? more : Status(Code::kCorrupt, "the input ends after the picture's header");
  }
  if (preprocess_.order == "BGR") {  // PPM is RGB
    for (std::size_t pixel = 0; pixel + 2 < bytes.size(); pixel += 3) {
      std::swap(bytes[pixel], bytes[pixel + 2]);
    }
  }
  return true;
}

}  // namespace edgepipe
