#include <utility>

#include "edgepipe/picture_source.h"
#include "media/sources/frame_source.h"
#include "media/sources/picture_pool.h"

namespace edgepipe {
namespace {

class PicturePipe final : public PictureSource {
 public:
  PicturePipe(FrameSource bytes, const Picture& shape, std::string name)
      : bytes_(std::move(bytes)), shape_(shape), name_(std::move(name)) {}

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    lease.release();
    PictureLease next = pool_->lend(shape_);
    Result<bool> more = bytes_.read(PicturePool::writable(next), stop);
    if (!more.ok() || !*more) return more;
    ++taken_;
    lease = std::move(next);
    return true;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = taken_, .taken = taken_};
  }

  [[nodiscard]] std::string description() const override {
    return "raw " + std::string(name_of(shape_.format)) + " pictures, " +
           std::to_string(shape_.width) + "x" + std::to_string(shape_.height) + ", from " + name_;
  }

 private:
  FrameSource bytes_;
  Picture shape_;
  std::string name_;
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace

Result<std::unique_ptr<PictureSource>> open_picture_pipe(const std::filesystem::path& path,
                                                         PixelFormat format, int width,
                                                         int height) {
  if (format == PixelFormat::kJpeg) {
    return Status(Code::kUnsupported,
                  "a raw pipe of jpeg pictures: expected a format of known "
                  "size, rgb, bgr, gray, yuyv or nv12");
  }
  Result<FrameSource> bytes = FrameSource::open(path, FrameSource::Format::kRaw, {});
  if (!bytes.ok()) return bytes.status();
  const Picture shape{.format = format,
                      .width = width,
                      .height = height,
                      .row_bytes = packed_row_bytes(format, width)};
  return std::unique_ptr<PictureSource>(std::make_unique<PicturePipe>(
      std::move(*bytes), shape, path == "-" ? "standard input" : path.string()));
}

}  // namespace edgepipe
