#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "edgepipe/picture_source.h"
#include "media/sources/frame_source.h"
#include "media/sources/outage.h"
#include "media/sources/picture_pool.h"
#include "media/sources/stop_interval.h"

namespace edgepipe {
namespace {

Status open_raw(const std::filesystem::path& path, ByteStream::Waiting waiting,
                std::optional<FrameSource>& bytes) {
  Result<FrameSource> opened = FrameSource::open(path, FrameSource::Format::kRaw, {}, waiting);
  if (!opened.ok()) return opened.status();
  bytes.emplace(*std::move(opened));
  return {};
}

std::string name_of(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

std::string picture_name_of(const std::filesystem::path& path, std::uint64_t number) {
  return (path == "-" ? "stdin" : path.filename().string()) + "#" + std::to_string(number);
}

std::string description_of(const Picture& shape, const std::string& name) {
  return "raw " + std::string(name_of(shape.format)) + " pictures, " + std::to_string(shape.width) +
         "x" + std::to_string(shape.height) + ", from " + name;
}

/// Ends with its file, or with the writer of its pipe.
class PicturePipe final : public PictureSource {
 public:
  PicturePipe(std::filesystem::path path, const Picture& shape)
      : path_(std::move(path)), shape_(shape) {}

  Status open(const SilencePolicy& policy) {
    return open_raw(path_, {.limit = policy.limit, .steps = &steps_}, bytes_);
  }

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    lease.release();
    PictureLease next = pool_->lend(shape_);
    Result<bool> more = bytes_->read(PicturePool::writable(next), stop);
    if (!more.ok() || !*more) return more;
    ++taken_;
    lease = std::move(next);
    return true;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = taken_, .taken = taken_, .steps = steps_};
  }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return picture_name_of(path_, number);
  }

  [[nodiscard]] std::string description() const override {
    return description_of(shape_, name_of(path_));
  }

 private:
  std::filesystem::path path_;
  Picture shape_;
  std::atomic<std::uint64_t> steps_{0};
  std::optional<FrameSource> bytes_;
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::atomic<std::uint64_t> taken_{0};
};

/// Continues after its writer: when one ends or falls silent, it waits for the next.
class PictureFifo final : public PictureSource {
 public:
  PictureFifo(std::filesystem::path path, const Picture& shape, const SilencePolicy& policy)
      : path_(std::move(path)), shape_(shape), policy_(policy), outage_(path_.string(), policy) {}

  /// Does not wait for a writer.
  Status open() { return open_raw(path_, {.limit = policy_.limit, .steps = &waits_}, bytes_); }

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    lease.release();
    PictureLease next = pool_->lend(shape_);
    while (!stop) {
      // The end whose writer has gone stays open until there is another one: without any, the pipe
      // would drop what the next writer may have written by then.
      std::optional<FrameSource> ended;
      if (bytes_) {
        Result<bool> more = bytes_->read(PicturePool::writable(next), stop);
        if (stop) break;
        if (more.ok() && *more) {
          ++taken_;
          outage_.delivered();
          lease = std::move(next);
          return true;
        }
        if (bytes_->ended()) ended = std::move(bytes_);
        close(more.ok() ? Status() : more.status());
      } else {
        std::this_thread::sleep_for(kStopInterval);
      }
      if (Status status = outage_.given_up(); !status.ok()) return status;
      outage_.attempted(open().ok());
    }
    return false;
  }

  [[nodiscard]] SourceCounters counters() const override {
    SourceCounters counters{.captured = taken_, .taken = taken_};
    outage_.count_in(counters);
    // The writer is silent but within its time limit, or its picture is not complete yet.
    if (policy_.limit.count() == 0) counters.steps += waits_;
    return counters;
  }

  [[nodiscard]] std::string fault() const override { return outage_.fault(); }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return picture_name_of(path_, number);
  }

  [[nodiscard]] std::string description() const override {
    return description_of(shape_, path_.string());
  }

 private:
  void close(const Status& why) {
    bytes_.reset();
    if (why.code() == Code::kDeadline) {
      outage_.failed_silently();
    } else {
      outage_.failed(why.ok() ? path_.string() + ": its writer has ended" : why.message());
    }
  }

  std::filesystem::path path_;
  Picture shape_;
  SilencePolicy policy_;
  Outage outage_;
  std::atomic<std::uint64_t> waits_{0};
  std::optional<FrameSource> bytes_;
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace

Result<std::unique_ptr<PictureSource>> open_picture_pipe(const std::filesystem::path& path,
                                                         PixelFormat format, int width, int height,
                                                         const SilencePolicy& policy) {
  if (format == PixelFormat::kJpeg) {
    return Status(Code::kUnsupported,
                  "a raw pipe of jpeg pictures: expected a format of known "
                  "size, rgb, bgr, gray, yuyv or nv12");
  }
  const Picture shape{.format = format,
                      .width = width,
                      .height = height,
                      .row_bytes = packed_row_bytes(format, width)};
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    auto fifo = std::make_unique<PictureFifo>(path, shape, policy);
    if (Status status = fifo->open(); !status.ok()) return status;
    return std::unique_ptr<PictureSource>(std::move(fifo));
  }
  auto pipe = std::make_unique<PicturePipe>(path, shape);
  if (Status status = pipe->open(policy); !status.ok()) return status;
  return std::unique_ptr<PictureSource>(std::move(pipe));
}

}  // namespace edgepipe
