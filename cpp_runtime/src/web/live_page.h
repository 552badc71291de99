// LivePage: the page of edgepipe-cam, with live pictures, results and statistics.
//
//   Result<std::unique_ptr<LivePage>> page = LivePage::start({.frame = ...}, http, statistics);
//   page->publish(frame.id(), frame.tensor(input), json_line);  // for every finished frame
//
//   GET /            the page, with /page.css and /page.js
//   GET /events      server-sent events: "result" with a frame's JSON line, "statistics" 4 per
//   second GET /picture/N   frame N as JPEG, or as BMP if libturbojpeg is missing
//
// The last frames are kept unencoded and are encoded on request. A slow browser skips frames; it
// never delays the pipeline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "media/pictures/jpeg_codec.h"
#include "web/http_server.h"

namespace edgepipe {

class LivePage {
 public:
  /// The frames' shape; without bytes.
  using Shape = Picture;

  /// Returns one JSON object; called on the server's threads.
  using Statistics = std::function<std::string()>;

  static Result<std::unique_ptr<LivePage>> start(const Shape& shape,
                                                 const HttpServer::Options& http,
                                                 Statistics statistics);

  /// Shows a finished frame. Copies; does not wait for any browser. One thread at a time.
  void publish(std::uint64_t frame, std::span<const std::byte> pixels, std::string_view json)
      EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] int port() const { return server_->port(); }

 private:
  struct Shown {
    std::uint64_t frame = 0;
    std::vector<std::byte> pixels;
    std::string json;
  };

  LivePage(const Shape& shape, Statistics statistics);
  void answer(const std::string& path, HttpReply& reply);
  void send_picture(std::uint64_t frame, HttpReply& reply);
  void send_events(HttpReply& reply);

  Shape shape_;
  Statistics statistics_;
  Mutex mutex_;
  CondVar changed_;
  static constexpr std::size_t kKept = 8;
  static std::size_t place_of(std::uint64_t frame) {
    return static_cast<std::size_t>(frame % kKept);
  }

  std::array<Shown, kKept> kept_ EDGEPIPE_GUARDED_BY(mutex_);  // each frame at its place_of
  std::uint64_t published_ EDGEPIPE_GUARDED_BY(mutex_) = 0;    // number of the next frame
  Mutex jpeg_mutex_;
  std::optional<JpegCodec> jpeg_ EDGEPIPE_GUARDED_BY(jpeg_mutex_);
  std::unique_ptr<HttpServer> server_;  // destroyed first
};

}  // namespace edgepipe
