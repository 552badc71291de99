// LivePage: the page of edgepipe-cam, with live pictures, results and statistics.
//
//   Result<std::unique_ptr<LivePage>> page =
//       LivePage::start(shape, http, *std::move(access), {.statistics = ..., .metrics = ...});
//   page->publish(frame.id(), frame.tensor(input), json_line);  // for every finished frame
//
//   GET /            the page, with /page.css and /page.js
//   GET /events      server-sent events: "result" with a frame's JSON line, "statistics" 4 per
//                    second
//   GET /metrics     the same figures for Prometheus
//   GET /picture/N   frame N as JPEG, or as BMP if libturbojpeg is missing
//
// The frames that events announced last are kept unencoded. Each is encoded at most once, on
// request, on the server's thread. Slow readers skip frames; they never delay the pipeline.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/picture.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "media/pictures/jpeg_codec.h"
#include "web/http_server.h"

namespace edgepipe {

class LivePage : private HttpContent {
 public:
  /// The frames' shape; without bytes.
  using Shape = Picture;

  /// What the page shows besides frames; called on the server's thread.
  struct Figures {
    std::function<std::string()> statistics;  // one JSON object
    std::function<std::string()> metrics;     // in Prometheus's text format, version 0.0.4
  };

  /// Errors as HttpServer::start.
  static Result<std::unique_ptr<LivePage>> start(const Shape& shape,
                                                 const HttpServer::Options& http, PageAccess access,
                                                 Figures figures);

  /// Shows a finished frame. Copies; does not wait for any reader. One thread at a time.
  void publish(std::uint64_t frame, std::span<const std::byte> pixels, std::string_view json)
      EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] int port() const { return server_->port(); }

  /// Pictures encoded so far. Any thread.
  [[nodiscard]] std::uint64_t encoded() const { return encoded_; }

 private:
  struct Shown {
    std::uint64_t frame = 0;
    std::vector<std::byte> pixels;
    std::string json;
  };
  struct Announced {
    bool is_set = false;
    Shown shown;
    SharedText encoded;  // null: not yet requested
  };

  LivePage(const Shape& shape, Figures figures);
  HttpReply answer(const std::string& path) override;
  const std::vector<SharedText>& newest_events() override EDGEPIPE_EXCLUDES(mutex_);
  HttpReply picture(std::uint64_t frame);
  SharedText encode(const Shown& shown);

  const Shape shape_;
  const Figures figures_;
  Mutex mutex_;
  Shown newest_ EDGEPIPE_GUARDED_BY(mutex_);
  bool is_new_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // newest_ is not announced yet
  std::atomic<std::uint64_t> encoded_{0};

  // Only the server's thread uses these.
  std::array<Announced, 8> announced_;
  std::size_t next_announced_ = 0;
  std::vector<SharedText> events_;
  Clock::time_point statistics_due_{};
  std::optional<JpegCodec> jpeg_;

  std::unique_ptr<HttpServer> server_;  // destroyed first
};

}  // namespace edgepipe
