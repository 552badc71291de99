#include "media/sources/v4l2_stream.h"

#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/open_failure.h"

namespace edgepipe {
namespace {

struct Format {
  std::uint32_t fourcc;
  PixelFormat format;
};

// In order of preference: the cheapest for the camera and the CPU first.
constexpr std::array<Format, 7> kFormats{{
    {V4L2_PIX_FMT_YUYV, PixelFormat::kYuyv},
    {V4L2_PIX_FMT_NV12, PixelFormat::kNv12},
    {V4L2_PIX_FMT_RGB24, PixelFormat::kRgb},
    {V4L2_PIX_FMT_BGR24, PixelFormat::kBgr},
    {V4L2_PIX_FMT_GREY, PixelFormat::kGray},
    {V4L2_PIX_FMT_MJPEG, PixelFormat::kJpeg},
    {V4L2_PIX_FMT_JPEG, PixelFormat::kJpeg},
}};

constexpr std::uint32_t kMostFormats = 256;
constexpr const char* kConnect =
    "connect a camera; `v4l2-ctl --list-devices` shows which there are";

v4l2_buffer buffer_argument(std::size_t index) {
  v4l2_buffer buffer{};
  buffer.index = static_cast<std::uint32_t>(index);
  buffer.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  buffer.memory = V4L2_MEMORY_MMAP;
  return buffer;
}

}  // namespace

Status V4l2Stream::failed(const std::string& what) const {
  const int error = errno;
  return Status(Code::kDevice, path_ + ": " + what + ": " + std::generic_category().message(error),
                error == EBUSY ? "stop the program that uses the camera" : "");
}

Result<std::shared_ptr<V4l2Stream>> V4l2Stream::open(const std::string& path,
                                                     const Options& options, V4l2Calls& calls) {
  const int file = calls.open(path.c_str());
  if (file < 0) {
    return open_failure(Code::kNotFound, path + ": cannot be opened", errno, kConnect);
  }
  std::shared_ptr<V4l2Stream> stream(new V4l2Stream(path, file, calls));
  Status status = stream->check_device();
  if (status.ok()) status = stream->set_format(options);
  if (status.ok()) status = stream->map_buffers(options.buffers);
  if (status.ok()) status = stream->start();
  if (!status.ok()) return status;
  return stream;
}

V4l2Stream::~V4l2Stream() {
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  calls_.ioctl(file_, VIDIOC_STREAMOFF, &type);
  for (const Buffer& buffer : buffers_) {
    if (buffer.dma_buf >= 0) calls_.close(buffer.dma_buf);
    calls_.unmap(buffer.address, buffer.bytes);
  }
  calls_.close(file_);
}

Status V4l2Stream::check_device() {
  v4l2_capability capability{};
  if (calls_.ioctl(file_, VIDIOC_QUERYCAP, &capability) < 0) {
    return Status(Code::kUnsupported, path_ + ": not a V4L2 device", kConnect);
  }
  const std::uint32_t can = (capability.capabilities & V4L2_CAP_DEVICE_CAPS) != 0
                                ? capability.device_caps
                                : capability.capabilities;
  if ((can & V4L2_CAP_VIDEO_CAPTURE) == 0 || (can & V4L2_CAP_STREAMING) == 0) {
    return Status(Code::kUnsupported,
                  path_ + ": not a single-planar camera that captures into mapped buffers",
                  "a camera may have several devices: `v4l2-ctl --list-devices` shows them");
  }
  const auto* name = reinterpret_cast<const char*>(capability.card);
  device_name_ = std::string(name, ::strnlen(name, sizeof(capability.card)));
  return {};
}

Status V4l2Stream::set_format(const Options& options) {
  std::vector<std::uint32_t> offered;
  for (std::uint32_t index = 0; index < kMostFormats; ++index) {
    v4l2_fmtdesc description{};
    description.index = index;
    description.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (calls_.ioctl(file_, VIDIOC_ENUM_FMT, &description) != 0) break;
    offered.push_back(description.pixelformat);
  }
  const auto chosen = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    return (!options.format || *options.format == format.format) &&
           std::find(offered.begin(), offered.end(), format.fourcc) != offered.end();
  });
  if (chosen == kFormats.end()) {
    return Status(Code::kUnsupported,
                  path_ + ": none of its " + std::to_string(offered.size()) + " formats is " +
                      (options.format ? std::string(name_of(*options.format))
                                      : "yuyv, nv12, rgb, bgr, gray or jpeg"),
                  "`v4l2-ctl --list-formats --device " + path_ + "` shows them");
  }
  v4l2_format format{};
  format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  format.fmt.pix.width = static_cast<std::uint32_t>(options.width);
  format.fmt.pix.height = static_cast<std::uint32_t>(options.height);
  format.fmt.pix.pixelformat = chosen->fourcc;
  format.fmt.pix.field = V4L2_FIELD_NONE;
  if (calls_.ioctl(file_, VIDIOC_S_FMT, &format) < 0) return failed("refuses its own format");
  if (format.fmt.pix.pixelformat != chosen->fourcc) {
    return Status(Code::kUnsupported, path_ + ": offers " + std::string(name_of(chosen->format)) +
                                          " but sets another format");
  }
  shape_ = {.format = chosen->format,
            .width = static_cast<int>(format.fmt.pix.width),
            .height = static_cast<int>(format.fmt.pix.height),
            .row_bytes = format.fmt.pix.bytesperline};
  if (Status status = check_size(shape_.width, shape_.height, options.most_pixels); !status.ok()) {
    return status.with_context(path_);
  }
  if (shape_.row_bytes == 0) shape_.row_bytes = packed_row_bytes(shape_.format, shape_.width);
  description_ = std::string(name_of(shape_.format)) + " " + std::to_string(shape_.width) + "x" +
                 std::to_string(shape_.height) + " from " + device_name_;
  return {};
}

Status V4l2Stream::map_buffers(unsigned count) {
  v4l2_requestbuffers request{};
  request.count = count;
  request.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  request.memory = V4L2_MEMORY_MMAP;
  if (calls_.ioctl(file_, VIDIOC_REQBUFS, &request) < 0) return failed("allocates no buffers");
  // One buffer is needed for the newest picture, one for the driver to fill, and one for the
  // reader, or two while a stage still reads its picture. With only three buffers, the driver then
  // has none to fill and misses a picture.
  if (request.count < 3 || request.count > kMostBuffers) {
    return Status(Code::kDevice, path_ + ": gives " + std::to_string(request.count) +
                                     " buffers, expected 3 to " + std::to_string(kMostBuffers));
  }
  for (std::uint32_t index = 0; index < request.count; ++index) {
    v4l2_buffer buffer = buffer_argument(index);
    if (calls_.ioctl(file_, VIDIOC_QUERYBUF, &buffer) < 0)
      return failed("does not describe a buffer");
    void* address = calls_.map(file_, buffer.length, buffer.m.offset);
    if (address == MAP_FAILED) return failed("a buffer cannot be mapped");
    v4l2_exportbuffer exported{};
    exported.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    exported.index = index;
    exported.flags = O_CLOEXEC | O_RDONLY;
    const bool good = calls_.ioctl(file_, VIDIOC_EXPBUF, &exported) == 0;
    buffers_.push_back({.address = address,
                        .bytes = buffer.length,
                        .used = buffer.length,
                        .dma_buf = good ? exported.fd : -1});
  }
  return {};
}

Status V4l2Stream::start() {
  for (std::size_t index = 0; index < buffers_.size(); ++index) {
    if (shape_.format != PixelFormat::kJpeg) {
      if (Status status = check(picture(index)); !status.ok()) return status.with_context(path_);
    }
    v4l2_buffer buffer = buffer_argument(index);
    if (calls_.ioctl(file_, VIDIOC_QBUF, &buffer) < 0) return failed("refuses a buffer");
    is_queued_[index] = true;
    ++queued_;
  }
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  if (calls_.ioctl(file_, VIDIOC_STREAMON, &type) < 0) return failed("does not start");
  return {};
}

Result<V4l2Stream::Capture> V4l2Stream::dequeue(int timeout_ms) {
  const int ready = calls_.wait(file_, timeout_ms);
  if (ready < 0) return failed("is gone");
  v4l2_buffer buffer = buffer_argument(0);
  if (ready == 0 || calls_.ioctl(file_, VIDIOC_DQBUF, &buffer) < 0) {
    if (ready != 0 && errno != EAGAIN) return failed("delivers no picture");
    return Status(Code::kDeadline,
                  path_ + ": no picture within " + std::to_string(timeout_ms) + " ms");
  }
  if (buffer.index >= buffers_.size()) {
    return Status(Code::kDevice, path_ + ": delivers buffer " + std::to_string(buffer.index) +
                                     " of " + std::to_string(buffers_.size()));
  }
  if (!is_queued_[buffer.index].exchange(false)) {
    return Status(Code::kDevice, path_ + ": delivers buffer " + std::to_string(buffer.index) +
                                     " again while it is being read");
  }
  --queued_;
  Buffer& filled = buffers_[buffer.index];
  filled.used = std::min<std::size_t>(buffer.bytesused, filled.bytes);
  bool damaged = (buffer.flags & V4L2_BUF_FLAG_ERROR) != 0;
  damaged = damaged || !check(picture(buffer.index)).ok();  // a short picture
  return Capture{.buffer = buffer.index, .sequence = buffer.sequence, .damaged = damaged};
}

void V4l2Stream::give_back(std::size_t index) {
  v4l2_buffer buffer = buffer_argument(index);
  is_queued_[index] = true;  // first: the driver may fill it immediately
  ++queued_;
  calls_.ioctl(file_, VIDIOC_QBUF, &buffer);
}

Picture V4l2Stream::picture(std::size_t index) const {
  const Buffer& buffer = buffers_[index];
  Picture picture = shape_;
  picture.bytes = {static_cast<const std::byte*>(buffer.address), buffer.used};
  picture.dma_buf = buffer.dma_buf;
  return picture;
}

}  // namespace edgepipe
