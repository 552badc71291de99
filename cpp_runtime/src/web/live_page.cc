#include "web/live_page.h"

#include <charconv>
#include <chrono>
#include <utility>

#include "media/pictures/bitmap.h"
#include "web/page_files.h"

namespace edgepipe {
namespace {

constexpr int kJpegQuality = 85;
constexpr std::chrono::milliseconds kStatisticsPeriod{250};

}  // namespace

LivePage::LivePage(const Shape& shape, Statistics statistics)
    : shape_(shape), statistics_(std::move(statistics)) {
  Result<JpegCodec> codec = JpegCodec::create();
  if (codec.ok()) jpeg_ = std::move(*codec);
  for (Shown& shown : kept_) {
    shown.pixels.resize(packed_bytes(shape.format, shape.width, shape.height));
  }
}

Result<std::unique_ptr<LivePage>> LivePage::start(const Shape& shape,
                                                  const HttpServer::Options& http,
                                                  Statistics statistics) {
  std::unique_ptr<LivePage> page(new LivePage(shape, std::move(statistics)));
  Result<std::unique_ptr<HttpServer>> server = HttpServer::start(
      http,
      [raw = page.get()](const std::string& path, HttpReply& reply) { raw->answer(path, reply); });
  if (!server.ok()) return server.status();
  page->server_ = std::move(*server);
  return page;
}

void LivePage::publish(std::uint64_t frame, std::span<const std::byte> pixels,
                       std::string_view json) {
  MutexLock lock(mutex_);
  Shown& shown = kept_[place_of(frame)];
  shown.frame = frame;
  shown.pixels.assign(pixels.begin(), pixels.end());
  shown.json = json;
  published_ = frame + 1;
  changed_.notify();
}

void LivePage::answer(const std::string& path, HttpReply& reply) {
  constexpr std::string_view kPicture = "/picture/";
  std::uint64_t frame = 0;
  if (path == "/events") {
    send_events(reply);
  } else if (const PageFile* file = page_file(path); file != nullptr) {
    reply.send(200, file->type, file->content);
  } else if (path.starts_with(kPicture) &&
             std::from_chars(path.data() + kPicture.size(), path.data() + path.size(), frame).ptr ==
                 path.data() + path.size()) {
    send_picture(frame, reply);
  } else {
    reply.send(404, "text/plain", "there is no " + path + "\n");
  }
}

void LivePage::send_picture(std::uint64_t frame, HttpReply& reply) {
  std::vector<std::byte> pixels;
  {
    MutexLock lock(mutex_);
    const Shown& shown = kept_[place_of(frame)];
    if (frame < published_ && shown.frame == frame) pixels = shown.pixels;
  }
  if (pixels.empty()) {
    reply.send(404, "text/plain", "frame " + std::to_string(frame) + " is no longer available\n");
    return;
  }
  Picture picture = shape_;
  picture.bytes = pixels;
  std::vector<std::byte> encoded;
  bool is_jpeg = false;
  {
    MutexLock lock(jpeg_mutex_);
    if (jpeg_) {
      Result<std::span<const std::byte>> bytes = jpeg_->encode(picture, kJpegQuality);
      is_jpeg = bytes.ok();
      if (is_jpeg) encoded.assign(bytes->begin(), bytes->end());
    }
  }
  if (!is_jpeg) encoded = encode_bitmap(picture);
  reply.send(200, is_jpeg ? "image/jpeg" : "image/bmp", encoded);
}

void LivePage::send_events(HttpReply& reply) {
  if (!reply.start_stream("text/event-stream")) return;
  std::uint64_t sent = 0;  // number of the frame after the last one sent
  Clock::time_point due{};
  for (;;) {
    std::string event;
    {
      MutexLock lock(mutex_);
      if (published_ == sent) changed_.wait_until(lock, Clock::now() + kStatisticsPeriod);
      if (published_ > sent) {
        sent = published_;
        event = "event: result\ndata: " + kept_[place_of(sent - 1)].json + "\n\n";
      }
    }
    if (Clock::now() >= due) {
      event += "event: statistics\ndata: " + statistics_() + "\n\n";
      due = Clock::now() + kStatisticsPeriod;
    }
    if (!reply.write(event)) return;
  }
}

}  // namespace edgepipe
