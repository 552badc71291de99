// What edgepipe-cam does: a bundle on a camera, with a live page, JSON lines and recording.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/board_readings.h"
#include "base/console.h"
#include "base/service_manager.h"
#include "edgepipe/programs.h"
#include "edgepipe/session.h"
#include "media/sources/v4l2_camera.h"
#include "pipeline/frame_loop.h"
#include "pipeline/live_statistics.h"
#include "programs/device_account.h"
#include "programs/interruption.h"
#include "programs/metrics.h"
#include "programs/mqtt_reports.h"
#include "programs/option_table.h"
#include "programs/output_file.h"
#include "programs/session_options.h"
#include "programs/session_program.h"
#include "programs/stream_output.h"
#include "web/live_page.h"

namespace edgepipe::programs {
namespace {

using Count = unsigned long long;  // printf's type for a std::uint64_t

constexpr const char* kProgram = "edgepipe-cam";
constexpr int kMostReaders = 10000;
constexpr std::uint64_t kPagePixels = std::uint64_t{1} << 20;  // of a picture on the page
// How many copies the page asks for at a time, as it is asked up to 60 times a second.
constexpr std::uint64_t kPageCopies = 4;

struct Options : SessionOptions {
  std::optional<std::string> camera;
  std::optional<std::string> source;
  std::optional<PixelFormat> format;
  int width = 0;  // pixels; 0: the default
  int height = 0;
  Pace pace{.pictures_per_second = -1, .loop = false};  // -1: the source's default
  HttpServer::Options http;
  PageAccess::Options access{.advice =
                                 "To allow a name, start edgepipe-cam with --allow-host NAME.\n"};
  std::optional<std::filesystem::path> token_file;
  bool headless = false;
  std::optional<std::string> jsonl;
  std::optional<std::filesystem::path> record;
  std::uint64_t frames = UINT64_MAX;
  double source_timeout_s = -1;  // -1: the source's default
  double give_up_s = 0;
  MqttReports::Options mqtt;
  VideoStream::Options stream;
};

// ---- arguments

std::string set_format(const std::string& value, Options& options) {
  options.format = parse_pixel_format(value);
  if (options.format) return "";
  return one_of(value, {"rgb", "bgr", "gray", "yuyv", "nv12", "jpeg"});
}

std::string set_resolution(std::string_view value, Options& options) {
  constexpr int kMost = 16384;
  const std::size_t by = std::min(value.find('x'), value.size());
  const std::string_view height = value.substr(std::min(by + 1, value.size()));
  const bool read = parse_number(value.substr(0, by), options.width) &&
                    parse_number(height, options.height) && options.width >= 2 &&
                    options.height >= 2 && options.width <= kMost && options.height <= kMost;
  return read ? "" : "e.g. 640x480";
}

std::string set_http(std::string_view value, Options& options) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string_view::npos ||
      !parse_number(value.substr(colon + 1), options.http.port) || options.http.port < 0 ||
      options.http.port > 65535) {
    return "e.g. 127.0.0.1:8080";
  }
  if (colon > 0) options.http.address = value.substr(0, colon);
  return "";
}

std::string set_broker(std::string_view value, Options& options) {
  const std::size_t colon = value.rfind(':');
  const bool has_port = colon != std::string_view::npos;
  const bool is_port = !has_port || (parse_number(value.substr(colon + 1), options.mqtt.port) &&
                                     options.mqtt.port >= 1 && options.mqtt.port <= 65535);
  options.mqtt.host = value.substr(0, colon);
  return is_port && !options.mqtt.host.empty() ? "" : "e.g. broker.local or 192.168.7.2:1883";
}

OptionTable option_table(Options& options) {
  OptionTable table(kProgram, "BUNDLE (--camera DEVICE | --source SOURCE) [options]",
                    "Runs a bundle on live pictures and shows them on a page for the browser, with "
                    "the results and the frame rate. Ctrl-C stops it and prints a summary.");
  table.section("where pictures come from")
      .value("--camera", "DEVICE",
             "a V4L2 camera, e.g. /dev/video0. It may be unplugged and plugged in again. Older "
             "pictures are dropped in favour of the newest one, and counted",
             to_text(options.camera))
      .value("--source", "SOURCE",
             "synthetic, a video file (decoded by ffmpeg), a folder of BMP, JPEG, PNG, PPM "
             "or PGM pictures or one of them, a FIFO of raw pictures, or - for raw pictures from "
             "standard input. All of these wait for the pipeline and drop nothing. Or a camera on "
             "the network, e.g. rtsp://door/stream or http://door/video.mjpg (decoded by ffmpeg), "
             "which is treated like --camera",
             to_text(options.source))
      .value("--format", "F",
             "rgb, bgr, gray, yuyv, nv12 or jpeg (default: the camera's first format; for "
             "--source - the network's own order)",
             [&options](const std::string& value) { return set_format(value, options); })
      .value("--resolution", "WxH",
             "in pixels (default: 640x480; for --source - the network's input size)",
             [&options](const std::string& value) { return set_resolution(value, options); })
      .value("--rate", "N",
             "pictures per second of a synthetic source (default: 30), a video or a folder "
             "(default: as fast as the pipeline takes them)",
             to_number(options.pace.pictures_per_second, 0.01, 1e6, "pictures per second"))
      .value("--max-pixels", "N",
             "refuse pictures of more than N pixels before they are decoded (default: " +
                 std::to_string(kMostPixels) + ", enough for 7680x4320)",
             to_number<std::uint64_t>(options.session.most_pixels, 1, std::uint64_t{16384} * 16384,
                                      "a number from 1 to 268435456"))
      .flag("--loop", "start a video or folder again at its end", to_true(options.pace.loop))
      .value("--source-timeout", "S",
             "a source that delivers no picture for S seconds has failed. A camera or a FIFO "
             "(default: 5; on the network 10) is then closed and opened again; with standard input "
             "or ffmpeg "
             "(default: 30) the run ends. 0: no limit",
             to_number(options.source_timeout_s, 0.0, 1e6, "seconds, or 0"))
      .value(
          "--give-up", "S",
          "end the run when a camera or a FIFO has delivered no picture for S seconds, even after "
          "it was opened again (default: 0, never)",
          to_number(options.give_up_s, 0.0, 1e6, "seconds, or 0"));
  table.section("where results go");
  add_selection_options(table, options);
  table
      .value("--http", "ADDR:PORT",
             "address of the page (default: 127.0.0.1:8080; port 0: any free one). 0.0.0.0 shows "
             "it to the whole network: give it a password with --http-token-file",
             [&options](const std::string& value) { return set_http(value, options); })
      .value("--http-readers", "N",
             "maximum number of readers of the page at the same time (default: 100); further ones "
             "are told to try again later",
             to_number(options.http.readers, 1, kMostReaders, "1 to 10000 readers"))
      .value("--http-token-file", "FILE",
             "the page's password is the first line of FILE: 16 to 256 letters and digits. Without "
             "it, anyone who can reach the page may read it",
             to_text(options.token_file))
      .value("--allow-host", "NAME",
             "serve the page under this host name too, e.g. that of a reverse proxy (repeatable). "
             "IP addresses, localhost and this machine's own name are always allowed",
             [&options](const std::string& value) {
               options.access.names.push_back(value);
               return std::string();
             })
      .flag("--headless", "no page; lines of JSON go to standard output", to_true(options.headless))
      .value("--jsonl", "FILE", "write one line of JSON per frame; - is standard output",
             to_text(options.jsonl))
      .value("--record", "DIR",
             "write results.jsonl and every frame as the network saw it (PPM or PGM)",
             to_text(options.record));
  add_trace_option(table, options);
  table.value("--frames", "N", "stop after N frames",
              to_number<std::uint64_t>(options.frames, 1, UINT64_MAX, "a number from 1 up"));
  table.section("reports over MQTT")
      .value("--mqtt", "HOST[:PORT]",
             "report results, figures and state to this broker (port: 1883, or 8883 with "
             "--mqtt-tls); needs libmosquitto1. While the broker is away, nothing is reported",
             [&options](const std::string& value) { return set_broker(value, options); })
      .value("--mqtt-topic", "TOPIC",
             "the topic above state, result and statistics (default: edgepipe/ and this machine's "
             "name)",
             [&options](const std::string& value) {
               options.mqtt.topic = value;
               return MqttClient::is_topic(value) ? "" : "a topic without + and #";
             })
      .value("--mqtt-login", "FILE", "FILE has the user's name and the password, in two lines",
             to_text(options.mqtt.login_file))
      .value("--mqtt-tls", "FILE",
             "encrypt the connection, and check the broker by the certificates in FILE (PEM)",
             to_text(options.mqtt.authorities))
      .value("--mqtt-rate", "N", "report at most N results per second, the newest (default: 10)",
             to_number(options.mqtt.results_per_second, 0.01, 1e3, "results per second"))
      .flag("--home-assistant",
            "describe the figures, results and each class of --labels as sensors to Home Assistant",
            to_true(options.mqtt.home_assistant));
  add_stream_options(table, options.stream);
  table.section("how to run it");
  add_session_options(table, options);
  table.epilogue("example\n  edgepipe-cam nanodet.edgepipe --camera /dev/video0\n");
  return table;
}

/// Completes the options. Returns an error text, or "".
std::string check(Options& options) {
  if (options.camera.has_value() == options.source.has_value()) {
    return "give either --camera or --source";
  }
  const MqttReports::Options unused;
  const MqttReports::Options& mqtt = options.mqtt;
  if (mqtt.host.empty() &&
      (mqtt.home_assistant || mqtt.topic != unused.topic || mqtt.login_file != unused.login_file ||
       mqtt.authorities != unused.authorities ||
       mqtt.results_per_second != unused.results_per_second)) {
    return "--mqtt-topic, --mqtt-login, --mqtt-tls, --mqtt-rate and --home-assistant need --mqtt";
  }
  if (std::string error = check_stream_options(options.stream); !error.empty()) return error;
  if (options.headless && !options.jsonl) options.jsonl = "-";
  options.session.takes_pictures = true;
  options.session.live = options.camera || (options.source && is_network_address(*options.source));
  return "";
}

// ---- sources and results

PixelFormat own_format(const Preprocess& preprocess) {
  return preprocess.order == "GRAY"  ? PixelFormat::kGray
         : preprocess.order == "BGR" ? PixelFormat::kBgr
                                     : PixelFormat::kRgb;
}

void report(const std::string& text) { print_line(stderr, std::string(kProgram) + ": " + text); }

/// `default_s` is the time limit of a source for which the user gave none.
SilencePolicy silence_policy(const Options& options, double default_s) {
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
  };
  return {
      .limit = milliseconds(options.source_timeout_s < 0 ? default_s : options.source_timeout_s),
      .give_up = milliseconds(options.give_up_s),
      .on_fault = report};
}

Result<std::unique_ptr<PictureSource>> open_source(const Options& options,
                                                   const Preprocess& preprocess) {
  constexpr double kReopenedAfter_s = 5;
  constexpr double kNetworkReopenedAfter_s = 10;  // some send a whole picture only so often
  constexpr double kEndedAfter_s = 30;
  std::error_code error;
  if (options.source && is_network_address(*options.source)) {
    return open_network_camera(*options.source, interrupted,
                               silence_policy(options, kNetworkReopenedAfter_s),
                               options.session.most_pixels);
  }
  const bool fifo = options.source && std::filesystem::is_fifo(*options.source, error);
  const bool pipe = fifo || options.source == "-";
  const int width = options.width > 0 ? options.width : pipe ? preprocess.width : 640;
  const int height = options.height > 0 ? options.height : pipe ? preprocess.height : 480;
  const std::uint64_t most_pixels = options.session.most_pixels;
  if (options.camera || pipe || options.source == "synthetic") {
    Status status = check_size(width, height, most_pixels);
    if (!status.ok()) return status.with_context("the source");
  }
  if (options.camera) {
    const V4l2Stream::Options stream{
        .format = options.format, .width = width, .height = height, .most_pixels = most_pixels};
    return V4l2Camera::open({.path = *options.camera,
                             .stream = stream,
                             .silence = silence_policy(options, kReopenedAfter_s)});
  }
  if (pipe) {
    return open_picture_pipe(*options.source, options.format.value_or(own_format(preprocess)),
                             width, height,
                             silence_policy(options, fifo ? kReopenedAfter_s : kEndedAfter_s));
  }
  Pace pace = options.pace;
  if (options.source == "synthetic") {
    if (pace.pictures_per_second < 0) pace.pictures_per_second = 30;
    return make_synthetic_pictures(width, height, pace);
  }
  const std::filesystem::path path = *options.source;
  if (std::filesystem::is_regular_file(path, error) && !is_picture_path(path)) {
    return open_video_file(path, pace, interrupted, silence_policy(options, kEndedAfter_s),
                           most_pixels);
  }
  return open_picture_folder(path, pace, most_pixels);
}

/// Writes one frame, uint8[height, width, channels], as PPM or PGM.
Status write_frame(const std::filesystem::path& path, const Preprocess& preprocess,
                   std::span<const std::byte> pixels) {
  std::string content = (preprocess.channels() == 1 ? "P5 " : "P6 ") +
                        std::to_string(preprocess.width) + " " + std::to_string(preprocess.height) +
                        " 255\n";
  const std::size_t head = content.size();
  content.append(reinterpret_cast<const char*>(pixels.data()), pixels.size());
  if (preprocess.order == "BGR") {
    for (std::size_t at = head; at + 2 < content.size(); at += 3) {
      std::swap(content[at], content[at + 2]);
    }
  }
  return write_file(path, content);
}

/// Where finished frames go: lines, recording, page, stream.
class Results {
 public:
  Results(Session& session, const Options& options) : session_(session), options_(options) {}

  Status open() {
    if (options_.jsonl) {
      Result<FileDescriptor> file = create_file(*options_.jsonl);
      if (!file.ok()) return file.status();
      lines_ = std::move(*file);
    }
    if (!options_.record) return {};
    std::error_code error;
    std::filesystem::create_directories(*options_.record, error);
    Result<FileDescriptor> file = create_file(*options_.record / "results.jsonl");
    if (!file.ok()) return file.status();
    recorded_lines_ = std::move(*file);
    return {};
  }

  void show_on(LivePage* page, const PictureInput::Copies* copies) {
    page_ = page;
    copies_ = copies;
  }
  void report_to(MqttReports* reports) { reports_ = reports; }
  void stream_to(StreamOutput* stream) { stream_ = stream; }

  /// Frames whose picture could not be decoded.
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }

  Status take(const OutputFrame& frame) {
    if (session_.pictures().damaged(frame)) {
      ++damaged_;
      return {};
    }
    Postprocessor& postprocessor = session_.postprocessor();
    Result<FrameResult> seen = postprocessor.run(frame);
    if (!seen.ok()) return seen.status();
    const std::string source = session_.pictures().source().picture_name(frame.id());
    const PictureInput::Copy* copy = page_ == nullptr ? nullptr : copies_->of(frame);
    const bool no_line =
        copy == nullptr && reports_ == nullptr && !lines_.valid() && !options_.record;
    if (no_line && stream_ == nullptr) return {};
    const FrameResult in_picture =
        postprocessor.in_picture(*seen, session_.pictures().placement(frame));
    if (stream_ != nullptr) stream_->take(frame, in_picture);
    if (no_line) return {};
    const std::string line = postprocessor.json_line(frame, in_picture, source);
    if (copy != nullptr) page_->publish(frame.id(), copy->picture, copy->reduction, line);
    if (reports_ != nullptr) reports_->result(line);
    Status status;
    if (lines_.valid()) status = write_all(lines_, line + "\n", *options_.jsonl);
    if (status.ok() && options_.record) {
      status =
          write_all(recorded_lines_, line + "\n", (*options_.record / "results.jsonl").string());
    }
    if (!status.ok() || !options_.record) return status;
    const Preprocess& preprocess = session_.bundle().manifest().preprocess;
    char name[32];
    std::snprintf(name, sizeof(name), "%08llu.%s", static_cast<Count>(frame.id()),
                  preprocess.channels() == 1 ? "pgm" : "ppm");
    return write_frame(*options_.record / name, preprocess, session_.seen(frame));
  }

 private:
  Session& session_;
  const Options& options_;
  FileDescriptor lines_;
  FileDescriptor recorded_lines_;
  LivePage* page_ = nullptr;
  const PictureInput::Copies* copies_ = nullptr;  // for the page
  MqttReports* reports_ = nullptr;
  StreamOutput* stream_ = nullptr;
  std::atomic<std::uint64_t> damaged_{0};  // the page's thread reads it
};

/// What the page's "statistics" event and `edgepipe top` show.
std::string statistics_json(Session& session, const PictureSource& source, BoardReadings& board,
                            const StreamOutput* stream) {
  const SourceCounters counters = source.counters();
  auto all = nlohmann::ordered_json::parse(
      live_figures(session.bundle().manifest().name, session.device_name(),
                   session.pipeline().statistics(), board.read()));
  all["source"] = {{"description", source.description()},
                   {"captured", counters.captured},
                   {"taken", counters.taken},
                   {"dropped", counters.dropped},
                   {"missed", counters.missed},
                   {"silences", counters.silences},
                   {"reconnects", counters.reconnects},
                   {"outage_s", static_cast<double>(counters.outage.count()) / 1e3},
                   {"fault", source.fault()}};
  if (stream != nullptr) all["stream"] = stream->json();
  return all.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

Result<std::unique_ptr<LivePage>> start_page(const Options& options, LivePage::Figures figures) {
  PageAccess::Options access_options = options.access;
  if (options.token_file) {
    Result<std::string> token = read_token_file(*options.token_file);
    if (!token.ok()) return token.status();
    access_options.token = *std::move(token);
  }
  Result<PageAccess> access = PageAccess::create(std::move(access_options));
  if (!access.ok()) return access.status();
  Result<std::unique_ptr<LivePage>> page =
      LivePage::start(options.http, *std::move(access), std::move(figures));
  if (!page.ok()) return page.status();
  const bool is_open = !options.token_file && !options.http.address.starts_with("127.");
  constexpr const char* kOpen = " without a password: anyone who can reach it may read it";
  print_line(stderr, "page: " + (*page)->url() + (is_open ? kOpen : ""));
  return page;
}

int run(const Options& options) {
  // Comes first: a service that cannot report must not start.
  Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
  if (!manager.ok()) return report_failure(kProgram, manager.status());
  Result<std::unique_ptr<Session>> opened = Session::open(options.bundle, options.session);
  if (!opened.ok()) return report_failure(kProgram, opened.status());
  Session& session = **opened;
  const Preprocess& preprocess = session.bundle().manifest().preprocess;
  Result<std::unique_ptr<PictureSource>> opened_source = open_source(options, preprocess);
  if (!opened_source.ok()) return report_failure(kProgram, opened_source.status());
  PictureInput& pictures = session.pictures();
  pictures.connect(*std::move(opened_source));
  const PictureSource& source = pictures.source();
  Results results(session, options);
  if (Status status = results.open(); !status.ok()) return report_failure(kProgram, status);

  std::unique_ptr<StreamOutput> stream;
  if (!options.stream.destination.empty()) {
    VideoStream::Options stream_options = options.stream;
    stream_options.on_fault = report;
    Result<std::unique_ptr<StreamOutput>> started = StreamOutput::open(stream_options, session);
    if (!started.ok()) return report_failure(kProgram, started.status());
    stream = *std::move(started);
    results.stream_to(stream.get());
  }

  BoardReadings board;
  const auto figures = [&] { return statistics_json(session, source, board, stream.get()); };
  const auto live = LiveStatistics::start(figures, {});
  std::unique_ptr<LivePage> page;
  if (!options.headless) {
    const auto metrics = [&] {
      return metrics_text({.network = session.bundle().manifest().name,
                           .device = std::string(session.device_name()),
                           .pipeline = session.pipeline().statistics(),
                           .source = source.counters(),
                           .damaged = results.damaged(),
                           .stream = stream ? std::optional(stream->counters()) : std::nullopt,
                           .temperatures = board.read().temperatures});
    };
    PictureInput::Copies& copies = pictures.add_copies(kPagePixels);
    const auto watched = [&copies] { copies.ask(kPageCopies); };
    Result<std::unique_ptr<LivePage>> started =
        start_page(options, {.statistics = figures, .metrics = metrics, .watched = watched});
    if (!started.ok()) return report_failure(kProgram, started.status());
    page = *std::move(started);
    results.show_on(page.get(), &copies);
  }
  std::unique_ptr<MqttReports> reports;
  if (!options.mqtt.host.empty()) {
    Result<std::unique_ptr<MqttReports>> started =
        MqttReports::start(options.mqtt,
                           {.network = session.bundle().manifest().name,
                            .labels = options.session.results.selection.labels},
                           figures);
    if (!started.ok()) return report_failure(kProgram, started.status());
    reports = *std::move(started);
    results.report_to(reports.get());
  }
  print_line(stderr, "source: " + source.description());

  FrameLoop loop;
  loop.frames = options.frames;
  loop.fill = [&](const InputFrame& frame) { return pictures.lend(frame, interrupted); };
  loop.take = [&](const OutputFrame& frame) { return results.take(frame); };
  loop.alive = [&](std::uint64_t taken) {
    manager->alive(taken + source.counters().steps, [&] { return session.status_line(); });
  };
  manager->ready(session.status_line());
  Status status = run_frames(session.pipeline(), loop, interrupted);
  pictures.release_waiting();
  manager->stopping();
  page.reset();
  reports.reset();
  if (stream) stream->finish();
  status = write_trace(status, session, options);

  const PipelineStatistics statistics = session.pipeline().statistics();
  print_lines(stderr, statistics.table());
  print_line(stderr, device_line(session.device_name(), statistics));
  SourceCounters counters = source.counters();
  counters.dropped += counters.waiting;  // it will not be taken any more
  print_line(stderr,
             "source: " + std::to_string(counters.captured) + " captured, " +
                 std::to_string(counters.taken) + " taken (" + std::to_string(results.damaged()) +
                 " of them damaged), " + std::to_string(counters.dropped) + " dropped, " +
                 std::to_string(counters.missed) + " missed, " + std::to_string(counters.silences) +
                 " silences, " + std::to_string(counters.reconnects) + " reconnects");
  if (stream) print_line(stderr, stream->account());
  return status.ok() ? kOk : report_failure(kProgram, status);
}

}  // namespace

int cam_main(int argc, char** argv) {
  return guarded_session_main(kProgram, [&] {
    Options options;
    return run_session_program(
        option_table(options), options, argc, argv, [&] { return check(options); },
        [&] { return run(options); });
  });
}

}  // namespace edgepipe::programs
