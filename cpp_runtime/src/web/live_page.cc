#include "web/live_page.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "media/pictures/bitmap.h"
#include "web/page_files.h"

namespace edgepipe {
namespace {

constexpr int kJpegQuality = 85;
constexpr std::chrono::milliseconds kStatisticsPeriod{250};
constexpr std::chrono::milliseconds kForgotten{1000};  // without a reader

enum Topic : std::size_t { kResult, kStatistics, kTopics };

SharedText event(std::string_view name, std::string_view data) {
  std::string text = "event: ";
  text.append(name).append("\ndata: ").append(data).append("\n\n");
  return std::make_shared<const std::string>(std::move(text));
}

SharedText shared(std::span<const std::byte> bytes) {
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()),
                                             bytes.size());
}

}  // namespace

LivePage::LivePage(Figures figures) : figures_(std::move(figures)), events_(kTopics) {
  Result<JpegCodec> codec = JpegCodec::create();
  if (codec.ok()) jpeg_ = *std::move(codec);
}

Result<std::unique_ptr<LivePage>> LivePage::start(const HttpServer::Options& http,
                                                  PageAccess access, Figures figures) {
  std::unique_ptr<LivePage> page(new LivePage(std::move(figures)));
  Result<std::unique_ptr<HttpServer>> server = HttpServer::start(http, std::move(access), *page);
  if (!server.ok()) return server.status();
  page->server_ = *std::move(server);
  return page;
}

void LivePage::publish(std::uint64_t frame, const Picture& picture, int reduction,
                       std::string_view json) {
  char size[96];
  std::snprintf(size, sizeof(size), R"(,"picture":{"width":%d,"height":%d,"reduction":%d}})",
                picture.width, picture.height, reduction);
  json.remove_suffix(1);  // the object continues
  {
    MutexLock lock(mutex_);
    newest_.frame = frame;
    newest_.shape = picture;
    newest_.shape.bytes = {};
    newest_.pixels.assign(picture.bytes.begin(), picture.bytes.end());
    newest_.json.assign(json).append(size);
    newest_.at = Clock::now();
    is_new_ = true;
  }
  server_->wake();
}

HttpReply LivePage::answer(const std::string& path) {
  constexpr std::string_view kPicture = "/picture/";
  if (path == "/events") {
    HttpReply stream;
    stream.type = "text/event-stream";
    stream.is_stream = true;
    return stream;
  }
  if (path == "/metrics") {
    HttpReply reply = text_reply(200, figures_.metrics());
    reply.type = "text/plain; version=0.0.4; charset=utf-8";
    return reply;
  }
  if (const PageFile* file = page_file(path); file != nullptr) {
    HttpReply reply = text_reply(200, std::string(file->content));
    reply.type = file->type;
    return reply;
  }
  if (path.starts_with(kPicture)) {
    std::uint64_t frame = 0;
    const char* end = path.data() + path.size();
    const auto [read, error] = std::from_chars(path.data() + kPicture.size(), end, frame);
    if (read == end && error == std::errc()) return picture(frame);
  }
  return text_reply(404, "there is no " + path + "\n");
}

const std::vector<SharedText>& LivePage::newest_events() {
  const Clock::time_point round = Clock::now();
  if (round - std::exchange(last_round_, round) > kForgotten) forget_frames();
  figures_.watched();
  Announced& next = announced_[next_announced_];
  bool is_new = false;
  {
    // Only exchanges the buffers: publish() hardly ever waits.
    MutexLock lock(mutex_);
    is_new = std::exchange(is_new_, false);
    if (is_new) std::swap(newest_, next.shown);
  }
  if (is_new) {
    next.is_set = true;
    next.encoded.reset();
    next_announced_ = (next_announced_ + 1) % announced_.size();
    events_[kResult] = event("result", next.shown.json);
  }
  if (const Clock::time_point now = Clock::now(); now >= statistics_due_) {
    statistics_due_ = std::max(statistics_due_ + kStatisticsPeriod, now);
    events_[kStatistics] = event("statistics", figures_.statistics());
  }
  return events_;
}

/// Nobody has watched for a while: what was shown then is not what the camera sees now.
void LivePage::forget_frames() {
  events_[kResult].reset();
  for (Announced& announced : announced_) announced.is_set = false;
  MutexLock lock(mutex_);
  if (last_round_ - newest_.at > kForgotten) is_new_ = false;
}

HttpReply LivePage::picture(std::uint64_t frame) {
  const auto found = std::ranges::find_if(announced_, [frame](const Announced& announced) {
    return announced.is_set && announced.shown.frame == frame;
  });
  if (found == announced_.end()) {
    return text_reply(404, "frame " + std::to_string(frame) + " is no longer available\n");
  }
  if (!found->encoded) found->encoded = encode(found->shown);
  HttpReply reply;
  reply.type = found->encoded->starts_with("BM") ? "image/bmp" : "image/jpeg";
  reply.body = found->encoded;
  return reply;
}

SharedText LivePage::encode(const Shown& shown) {
  ++encoded_;
  Picture picture = shown.shape;
  picture.bytes = shown.pixels;
  if (jpeg_) {
    const Result<std::span<const std::byte>> bytes = jpeg_->encode(picture, kJpegQuality);
    if (bytes.ok()) return shared(*bytes);
  }
  return shared(encode_bitmap(picture));
}

}  // namespace edgepipe
