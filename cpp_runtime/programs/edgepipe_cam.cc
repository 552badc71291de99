// edgepipe-cam: runs a bundle on a camera, with a live page, JSON lines and recording.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/remedy.h"
#include "base/service_manager.h"
#include "bundle/fingerprint.h"
#include "command_line.h"
#include "edgepipe/session.h"
#include "media/sources/v4l2_camera.h"
#include "pipeline/frame_loop.h"
#include "pipeline/live_statistics.h"
#include "session_options.h"
#include "session_program.h"
#include "web/live_page.h"

namespace {

using edgepipe::Code;
using edgepipe::InputFrame;
using edgepipe::LivePage;
using edgepipe::OutputFrame;
using edgepipe::PictureSource;
using edgepipe::PixelFormat;
using edgepipe::Result;
using edgepipe::ServiceManager;
using edgepipe::Session;
using edgepipe::SourceCounters;
using edgepipe::Status;
using edgepipe::programs::create_file;
using edgepipe::programs::interrupted;
using edgepipe::programs::kOk;
using edgepipe::programs::OutputFile;
using edgepipe::programs::parse_arguments;
using edgepipe::programs::parse_number;
using edgepipe::programs::write_all;
using Count = unsigned long long;  // printf's type for a std::uint64_t

constexpr const char* kHelp =
    R"(usage: edgepipe-cam BUNDLE (--camera DEVICE | --source SOURCE) [options]

Runs a bundle on live pictures and shows them, with what was found and how fast, on
a page for the browser. Ctrl-C ends it in order and prints the account.

where pictures come from
  --camera DEVICE   e.g. /dev/video0 (V4L2); may be unplugged and plugged in again.
                    The newest picture counts: older ones are dropped and counted
  --source SOURCE   synthetic, a video file (decoded by ffmpeg), a folder of .ppm .pgm
                    .jpg pictures or one of them, or - for raw pictures from standard
                    input. All of these wait for the pipeline and drop nothing
  --format F        rgb, bgr, gray, yuyv, nv12 or jpeg; for --source - the default is
                    the network's own order, for a camera the first that it has
  --resolution WxH  in pixels; the default is 640x480, for --source - the network's
  --rate N          pictures a second of synthetic (default: 30), video and folder
                    sources (default: as fast as they are taken)
  --loop            start a video or folder again at its end

where results go
  --http ADDR:PORT  the page's address (default: 127.0.0.1:8080; port 0: any free
                    one). It has no password: 0.0.0.0 shows it to the whole network
  --headless        no page; JSON lines go to standard output
  --jsonl FILE      one line of JSON per frame; - is standard output
  --record DIR      results.jsonl and every frame as the network saw it (PPM or PGM)
  --trace FILE      write when each stage ran on each frame, for https://ui.perfetto.dev
                    or chrome://tracing; of a long run the last 32768 events
  --frames N        end after N frames

how to run it
)";

constexpr const char* kHelpEnd = R"(
example
  edgepipe-cam nanodet.edgepipe --camera /dev/video0
)";

struct Options : edgepipe::programs::SharedOptions {
  std::optional<std::string> camera;
  std::optional<std::string> source;
  std::optional<PixelFormat> format;
  int width = 0;  // pixels; 0: the default
  int height = 0;
  edgepipe::Pace pace{.pictures_per_second = -1, .loop = false};  // -1: the source's default
  edgepipe::HttpServer::Options http;
  bool headless = false;
  std::optional<std::string> jsonl;
  std::optional<std::filesystem::path> record;
  std::uint64_t frames = UINT64_MAX;
};

// ---- arguments

/// Sets one option that takes a value; an error text if the value or the option is wrong.
std::string set_option(std::string_view name, const std::string& value, Options& options) {
  const auto refuse = [&](const char* expected) {
    return std::string(name) + ": found '" + value + "', expected " + expected;
  };
  if (name == "--camera") {
    options.camera = value;
  } else if (name == "--source") {
    options.source = value;
  } else if (name == "--format") {
    options.format = edgepipe::parse_pixel_format(value);
    if (!options.format) return refuse("rgb, bgr, gray, yuyv, nv12 or jpeg");
  } else if (name == "--resolution") {
    const std::size_t by = std::min(value.find('x'), value.size() - 1);
    const std::string_view text = value;
    if (!parse_number(text.substr(0, by), options.width) ||
        !parse_number(text.substr(by + 1), options.height) || options.width < 2 ||
        options.height < 2 || options.width > 16384 || options.height > 16384) {
      return refuse("e.g. 640x480");
    }
  } else if (name == "--rate") {
    double& rate = options.pace.pictures_per_second;
    if (!parse_number(value, rate) || !(rate >= 0.01) || rate > 1e6) {
      return refuse("pictures a second");
    }
  } else if (name == "--http") {
    const std::size_t colon = value.rfind(':');
    const std::string_view text = value;
    if (colon == std::string::npos || !parse_number(text.substr(colon + 1), options.http.port) ||
        options.http.port < 0 || options.http.port > 65535) {
      return refuse("e.g. 127.0.0.1:8080");
    }
    if (colon > 0) options.http.address = value.substr(0, colon);
  } else if (name == "--jsonl") {
    options.jsonl = value;
  } else if (name == "--record") {
    options.record = value;
  } else if (name == "--frames") {
    if (!parse_number(value, options.frames) || options.frames == 0) {
      return refuse("a number from 1 up");
    }
  } else {
    return edgepipe::programs::set_shared_option(name, value, options);
  }
  return {};
}

bool set_flag(std::string_view name, Options& options) {
  if (name == "--headless") {
    options.headless = true;
  } else if (name == "--loop") {
    options.pace.loop = true;
  } else {
    return edgepipe::programs::set_shared_flag(name, options);
  }
  return true;
}

/// An error text, empty when the arguments make sense.
std::string parse(const std::vector<std::string>& arguments, Options& options) {
  std::string error = parse_arguments(arguments, options, set_flag, set_option);
  if (!error.empty()) return error;
  if (options.camera.has_value() == options.source.has_value()) {
    return "give either --camera or --source";
  }
  if (options.headless && !options.jsonl) options.jsonl = "-";
  options.session.takes_pictures = true;
  return edgepipe::programs::check_shared_options(options);
}

// ---- sources and results

PixelFormat own_format(const edgepipe::Preprocess& preprocess) {
  return preprocess.order == "GRAY"  ? PixelFormat::kGray
         : preprocess.order == "BGR" ? PixelFormat::kBgr
                                     : PixelFormat::kRgb;
}

Result<std::unique_ptr<PictureSource>> open_source(const Options& options,
                                                   const edgepipe::Preprocess& preprocess) {
  const bool pipe = options.source == "-";
  const int width = options.width > 0 ? options.width : pipe ? preprocess.width : 640;
  const int height = options.height > 0 ? options.height : pipe ? preprocess.height : 480;
  if (options.camera) {
    return edgepipe::V4l2Camera::open(
        {.path = *options.camera,
         .stream = {.format = options.format, .width = width, .height = height}});
  }
  if (pipe) {
    return edgepipe::open_picture_pipe("-", options.format.value_or(own_format(preprocess)), width,
                                       height);
  }
  edgepipe::Pace pace = options.pace;
  if (options.source == "synthetic") {
    if (pace.pictures_per_second < 0) pace.pictures_per_second = 30;
    return edgepipe::make_synthetic_pictures(width, height, pace);
  }
  const std::filesystem::path path = *options.source;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) && !edgepipe::is_picture_path(path)) {
    return edgepipe::open_video_file(path, pace, interrupted);
  }
  return edgepipe::open_picture_folder(path, pace);
}

/// Writes one frame, uint8[height, width, channels], as PPM or PGM.
Status write_frame(const std::filesystem::path& path, const edgepipe::Preprocess& preprocess,
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
  return edgepipe::programs::write_file(path, content);
}

/// Where finished frames go: lines, recording, page.
class Results {
 public:
  Results(Session& session, const Options& options) : session_(session), options_(options) {}

  Status open() {
    if (options_.jsonl) {
      Result<OutputFile> file = create_file(*options_.jsonl);
      if (!file.ok()) return file.status();
      lines_ = std::move(*file);
    }
    if (!options_.record) return {};
    std::error_code error;
    std::filesystem::create_directories(*options_.record, error);
    Result<OutputFile> file = create_file(*options_.record / "results.jsonl");
    if (!file.ok()) return file.status();
    recorded_lines_ = std::move(*file);
    return {};
  }

  void show_on(LivePage* page) { page_ = page; }

  /// Frames whose picture could not be decoded.
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }

  Status take(const OutputFrame& frame) {
    if (session_.pictures().damaged(frame)) {
      ++damaged_;
      return {};
    }
    edgepipe::Postprocessor& postprocessor = session_.postprocessor();
    const std::string line = postprocessor.json_line(frame, postprocessor.run(frame));
    const auto pixels = session_.seen(frame);
    if (page_ != nullptr) page_->publish(frame.id(), pixels, line);
    Status status;
    if (lines_) status = write_all(lines_.get(), line + "\n", *options_.jsonl);
    if (status.ok() && options_.record) {
      status = write_all(recorded_lines_.get(), line + "\n",
                         (*options_.record / "results.jsonl").string());
    }
    if (!status.ok() || !options_.record) return status;
    const edgepipe::Preprocess& preprocess = session_.bundle().manifest().preprocess;
    char name[32];
    std::snprintf(name, sizeof(name), "%08llu.%s", static_cast<Count>(frame.id()),
                  preprocess.channels() == 1 ? "pgm" : "ppm");
    return write_frame(*options_.record / name, preprocess, pixels);
  }

 private:
  Session& session_;
  const Options& options_;
  OutputFile lines_;
  OutputFile recorded_lines_;
  LivePage* page_ = nullptr;
  std::uint64_t damaged_ = 0;
};

/// What the page's "statistics" event and `edgepipe top` show.
std::string statistics_json(Session& session, const PictureSource& source) {
  const SourceCounters counters = source.counters();
  auto all = nlohmann::ordered_json::parse(edgepipe::live_figures(
      session.bundle().manifest().name, session.device_name(), session.pipeline().statistics()));
  all["source"] = {{"description", source.description()},
                   {"captured", counters.captured},
                   {"taken", counters.taken},
                   {"dropped", counters.dropped},
                   {"missed", counters.missed},
                   {"reconnects", counters.reconnects}};
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

int failed(const Status& status) {
  edgepipe::print_failure("edgepipe-cam", status);
  return edgepipe::exit_code(status.code());
}

int run(const Options& options) {
  // Before all else: a service that cannot report is not worth starting.
  Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
  if (!manager.ok()) return failed(manager.status());
  Result<std::unique_ptr<Session>> opened = Session::open(options.bundle, options.session);
  if (!opened.ok()) return failed(opened.status());
  Session& session = **opened;
  const edgepipe::Preprocess& preprocess = session.bundle().manifest().preprocess;
  Result<std::unique_ptr<PictureSource>> opened_source = open_source(options, preprocess);
  if (!opened_source.ok()) return failed(opened_source.status());
  edgepipe::PictureInput& pictures = session.pictures();
  pictures.connect(*std::move(opened_source));
  const PictureSource& source = pictures.source();
  Results results(session, options);
  if (Status status = results.open(); !status.ok()) return failed(status);

  const auto figures = [&] { return statistics_json(session, source); };
  const auto live = edgepipe::LiveStatistics::start(figures, {});
  std::unique_ptr<LivePage> page;
  if (!options.headless) {
    const PixelFormat format = own_format(preprocess);
    const LivePage::Shape shape{.format = format,
                                .width = preprocess.width,
                                .height = preprocess.height,
                                .row_bytes = edgepipe::packed_row_bytes(format, preprocess.width)};
    Result<std::unique_ptr<LivePage>> started = LivePage::start(shape, options.http, figures);
    if (!started.ok()) return failed(started.status());
    page = std::move(*started);
    results.show_on(page.get());
    std::fprintf(stderr, "page: %s\n", page->url().c_str());
  }
  std::fprintf(stderr, "source: %s\n", source.description().c_str());

  edgepipe::FrameLoop loop;
  loop.frames = options.frames;
  loop.fill = [&](const InputFrame& frame) { return pictures.lend(frame, interrupted); };
  loop.take = [&](const OutputFrame& frame) { return results.take(frame); };
  loop.alive = [&] { manager->alive([&] { return session.status_line(); }); };
  manager->ready(session.status_line());
  Status status = run_frames(session.pipeline(), loop, interrupted);
  pictures.release_waiting();
  manager->stopping();
  page.reset();
  status = edgepipe::programs::write_trace(status, session, options);

  std::fputs(session.pipeline().statistics().table().c_str(), stderr);
  const SourceCounters counters = source.counters();
  std::fprintf(stderr,
               "source: %llu captured, %llu taken (%llu of them damaged), %llu dropped, "
               "%llu missed, %llu reconnects\n",
               static_cast<Count>(counters.captured), static_cast<Count>(counters.taken),
               static_cast<Count>(results.damaged()), static_cast<Count>(counters.dropped),
               static_cast<Count>(counters.missed), static_cast<Count>(counters.reconnects));
  return status.ok() ? kOk : failed(status);
}

}  // namespace

int main(int argc, char** argv) {
  return edgepipe::programs::SessionProgram<Options>{
      .name = "edgepipe-cam", .help = kHelp, .help_end = kHelpEnd, .parse = parse, .run = run}
      .main(argc, argv);
}
