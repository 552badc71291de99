// LivePage: the page of edgepipe-cam, with live pictures, results and statistics.
//
//   Result<std::unique_ptr<LivePage>> page =
//       LivePage::start(http, *std::move(access), {.statistics = ..., .metrics = ..., ...});
//   // For every finished frame with a copy:
//   page->publish(frame.id(), copy->picture, copy->reduction, json_line);
//
//   GET /            the page, with /page.css and /page.js
//   GET /events      server-sent events: "result" with a frame's JSON line and the size of its
//                    picture, "statistics" 4 per second
//   GET /metrics     the same figures for Prometheus
//   GET /picture/N   frame N as JPEG, or as BMP if libturbojpeg is missing
//
// Frames show the camera's picture, of which a copy is made only while somebody watches. Those that
// events announced last are kept unencoded. Each is encoded at most once, on request, on the
// server's thread. Slow readers skip frames; they never delay the pipeline.
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
  /// What the page shows besides frames; called on the server's thread.
  struct Figures {
    std::function<std::string()> statistics;  // one JSON object
    std::function<std::string()> metrics;     // in Prometheus's text format, version 0.0.4

    /// Called at least 8 times a second while there are readers: the next frames are to be
    /// published.
    std::function<void()> watched;
  };

  /// Errors as HttpServer::start.
  static Result<std::unique_ptr<LivePage>> start(const HttpServer::Options& http, PageAccess access,
                                                 Figures figures);

  /// Shows a finished frame. A pixel of `picture` is `reduction` of those along each side that
  /// `json` refers to, an object with at least one key. Copies; does not wait for any reader. One
  /// thread at a time.
  void publish(std::uint64_t frame, const Picture& picture, int reduction, std::string_view json)
      EDGEPIPE_EXCLUDES(mutex_);

  [[nodiscard]] std::string url() const { return server_->url(); }
  [[nodiscard]] int port() const { return server_->port(); }

  /// Pictures encoded so far. Any thread.
  [[nodiscard]] std::uint64_t encoded() const { return encoded_; }

 private:
  struct Shown {
    std::uint64_t frame = 0;
    Picture shape;  // without bytes
    std::vector<std::byte> pixels;
    std::string json;
    Clock::time_point at{};  // when it was published
  };
  struct Announced {
    bool is_set = false;
    Shown shown;
    SharedText encoded;  // null: not yet requested
  };

  explicit LivePage(Figures figures);
  HttpReply answer(const std::string& path) override;
  const std::vector<SharedText>& newest_events() override EDGEPIPE_EXCLUDES(mutex_);
  void forget_frames() EDGEPIPE_EXCLUDES(mutex_);
  HttpReply picture(std::uint64_t frame);
  SharedText encode(const Shown& shown);

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
  Clock::time_point last_round_{};  // when readers were last there
  std::optional<JpegCodec> jpeg_;

  std::unique_ptr<HttpServer> server_;  // destroyed first
};

}  // namespace edgepipe
