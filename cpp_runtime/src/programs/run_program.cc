// What edgepipe-run does: a bundle on frames from a file or standard input.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/board_readings.h"
#include "base/console.h"
#include "base/service_manager.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/programs.h"
#include "edgepipe/session.h"
#include "media/sources/frame_source.h"
#include "pipeline/frame_loop.h"
#include "pipeline/live_statistics.h"
#include "programs/device_account.h"
#include "programs/interruption.h"
#include "programs/option_table.h"
#include "programs/output_file.h"
#include "programs/session_options.h"
#include "programs/session_program.h"
#include "session/golden.h"

namespace edgepipe::programs {
namespace {

constexpr const char* kProgram = "edgepipe-run";

constexpr const char* kEpilogue =
    R"(Ctrl-C stops the input, finishes the frames in flight and prints the totals.
Exit codes: 0 success, 1 failure or outputs that are not bit-equal, 2 wrong use. If
the bundle was built for another board: 10 configuration, 11 encoding revision,
12 clock, 13 bitstream, 14 version. If this machine's policy refuses it: 15 not signed,
16 signer not allowed, 17 altered, 18 older than one that ran here, 19 not verifiable.

  edgepipe-run nanodet.edgepipe --golden --frames 100
  ffmpeg -i clip.mp4 -f rawvideo -pix_fmt bgr24 -s 416x416 - | \
    edgepipe-run nanodet.edgepipe --input - > boxes.jsonl
)";

struct Options : SessionOptions {
  std::optional<std::string> input;
  std::optional<FrameSource::Format> format;
  std::string output = "-";
  std::optional<std::filesystem::path> tensors;
  std::optional<std::uint64_t> frames;
  double timeout_s = 30;
  double input_timeout_s = 30;
  bool golden = false;
  bool verify = false;
  bool json = false;
  bool quiet = false;
};

// ---- arguments

std::string set_format(const std::string& value, Options& options) {
  if (value != "raw" && value != "ppm") return one_of(value, {"raw", "ppm"});
  options.format = value == "raw" ? FrameSource::Format::kRaw : FrameSource::Format::kPictures;
  return "";
}

OptionTable option_table(Options& options) {
  Pipeline::Options& pipeline = options.session.pipeline;
  OptionTable table(kProgram, "BUNDLE (--input FILE | --golden | --verify) [options]",
                    "Runs a bundle (a folder or a .edgepipe archive) on frames, each stage on its "
                    "own thread. Results go to standard output, one line of JSON per frame. "
                    "Progress and a table of stage times go to standard error.");
  table.section("what to run")
      .value(
          "--input", "FILE",
          "run on FILE: a BMP, JPEG, PNG, PPM or PGM picture, a folder of pictures, a video "
          "(decoded by ffmpeg), or raw frames: the bytes of the bundle's input, one frame after "
          "another. - is standard input. A file whose name ends in .ppm or .pgm may hold several "
          "pictures, of exactly the network's size",
          to_text(options.input))
      .value("--format", "F", "raw or ppm (default: from the file's name)",
             [&options](const std::string& value) { return set_format(value, options); })
      .flag("--golden",
            "run the input recorded in the bundle and compare the outputs with the recorded ones, "
            "bit for bit. Also fails if a VTA stage's device failed, even if its fallback or a "
            "second run gave the right outputs",
            to_true(options.golden))
      .flag("--verify",
            "run nothing: check the bundle's files and, if the policy requires it, its signature "
            "and version; print its version and signer",
            to_true(options.verify))
      .value("--frames", "N", "stop after N frames (default: the whole input; 1 with --golden)",
             to_number<std::uint64_t>(options.frames, 1, UINT64_MAX, "a number from 1 up"));
  table.section("how to run it")
      .flag("--serial",
            "run all stages on one thread, one frame at a time. An ARM stage with several threads "
            "keeps the others",
            [&pipeline] { pipeline.mode = Pipeline::Mode::kSerial; })
      .value("--spin", "US",
             "a stage's thread polls for its next frame for US microseconds before it sleeps. "
             "Handovers are faster, but the core is busy (default: 0)",
             to_number<std::uint32_t>(pipeline.spin, 0, 1'000'000, "0 to 1000000"))
      .value("--timeout", "S", "time limit for one frame, in seconds (default: 30)",
             to_number(options.timeout_s, 0.001, 1e6, "seconds, at least 0.001"))
      .value("--input-timeout", "S",
             "time limit for the input to deliver a frame, in seconds (default: 30). 0: no limit",
             to_number(options.input_timeout_s, 0.0, 1e6, "seconds, or 0"));
  add_session_options(table, options);
  table.section("results");
  add_selection_options(table, options);
  table
      .value("--output", "FILE", "write the lines of JSON to FILE (default: -, standard output)",
             to_text(options.output))
      .value("--tensors", "DIR", "also write every output tensor, as DIR/FRAME_TENSOR.bin",
             to_text(options.tensors));
  add_trace_option(table, options);
  table
      .flag("--json", "end with one more line: statistics, device and memory",
            to_true(options.json))
      .flag("--quiet", "print no progress and no table", to_true(options.quiet))
      .epilogue(kEpilogue);
  return table;
}

std::string check(const Options& options) {
  const int actions = int{options.golden} + int{options.verify} + int{options.input.has_value()};
  return actions == 1 ? "" : "give one of --input, --golden and --verify";
}

// ---- running

/// What happens to finished frames.
class Results {
 public:
  Results(Session& session, const Options& options, FileDescriptor output)
      : session_(session),
        options_(options),
        output_(std::move(output)),
        show_progress_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}

  Status take(const OutputFrame& frame) {
    Postprocessor& postprocessor = session_.postprocessor();
    Result<FrameResult> result = postprocessor.run(frame);
    if (!result.ok()) return result.status();
    if (options_.session.takes_pictures) {
      result = postprocessor.in_picture(*result, session_.pictures().placement(frame));
    }
    Status status = write_line(postprocessor.json_line(frame, *result, source_of(frame)));
    if (status.ok() && options_.tensors) status = write_tensors(frame);
    ++frames_;
    const auto now = Clock::now();
    if (show_progress_ && now - shown_ > std::chrono::milliseconds(200)) {
      shown_ = now;
      draw(stderr, "\r");
      print_lines(stderr, std::to_string(frames_) + " frames");
    }
    return status;
  }

  Status write_line(std::string line) {
    line += '\n';
    return write_all(output_, line, options_.output);
  }

  void end_progress() const {
    if (show_progress_) draw(stderr, "\r\033[K");
  }

 private:
  [[nodiscard]] std::string source_of(const OutputFrame& frame) const {
    if (options_.session.takes_pictures) {
      return session_.pictures().source().picture_name(frame.id());
    }
    if (options_.golden) return "golden";
    const std::filesystem::path path = *options_.input;
    return (path == "-" ? "stdin" : path.filename().string()) + "#" + std::to_string(frame.id());
  }

  Status write_tensors(const OutputFrame& frame) const {
    const Graph& graph = session_.pipeline().graph();
    for (std::size_t index = 0; index < graph.outputs.size(); ++index) {
      std::string name = graph.tensors[graph.outputs[index]].name;
      std::replace(name.begin(), name.end(), '/', '_');
      const std::filesystem::path path =
          *options_.tensors / (std::to_string(frame.id()) + "_" + name + ".bin");
      const auto bytes = frame.output(index);
      Status status = write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (!status.ok()) return status;
    }
    return {};
  }

  Session& session_;
  const Options& options_;
  FileDescriptor output_;
  bool show_progress_;
  std::uint64_t frames_ = 0;
  Clock::time_point shown_{};
};

FrameSource::Format format_of(const Options& options) {
  if (options.format) return *options.format;
  const std::string extension = std::filesystem::path(*options.input).extension();
  return extension == ".ppm" || extension == ".pgm" ? FrameSource::Format::kPictures
                                                    : FrameSource::Format::kRaw;
}

/// Whether the input holds pictures of any size, to be fitted by the first stage.
bool takes_pictures(const Options& options) {
  if (!options.input || options.format || *options.input == "-") return false;
  if (format_of(options) == FrameSource::Format::kPictures) return is_one_pnm(*options.input);
  return is_picture_path(*options.input) || is_compressed_file(*options.input);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

/// `steps` grows with the progress of the input.
Status run_input(Session& session, const Options& options, Results& results, FrameLoop loop,
                 std::atomic<std::uint64_t>& steps) {
  Result<FrameSource> source =
      FrameSource::open(*options.input, format_of(options), session.bundle().manifest().preprocess,
                        {.limit = milliseconds(options.input_timeout_s), .steps = &steps});
  if (!source.ok()) return source.status();
  const std::size_t inputs = session.pipeline().graph().inputs.size();
  loop.frames = options.frames.value_or(UINT64_MAX);
  loop.fill = [&](const InputFrame& frame) -> Result<bool> {
    for (std::size_t index = 0; index < inputs; ++index) {
      Result<bool> more = source->read(frame.input(index), interrupted);
      if (!more.ok() || !*more) return more;
    }
    return true;
  };
  loop.take = [&](const OutputFrame& frame) { return results.take(frame); };
  return run_frames(session.pipeline(), loop, interrupted);
}

Status run_pictures(Session& session, const Options& options, Results& results, FrameLoop loop) {
  const std::filesystem::path path = *options.input;
  Result<std::unique_ptr<PictureSource>> source =
      is_picture_path(path) ? open_picture_folder(path, {})
                            : open_video_file(path, {}, interrupted,
                                              {.limit = milliseconds(options.input_timeout_s)});
  if (!source.ok()) return source.status();
  PictureInput& pictures = session.pictures();
  pictures.connect(*std::move(source));
  loop.frames = options.frames.value_or(UINT64_MAX);
  loop.fill = [&](const InputFrame& frame) { return pictures.lend(frame, interrupted); };
  loop.take = [&](const OutputFrame& frame) { return results.take(frame); };
  Status status = run_frames(session.pipeline(), loop, interrupted);
  pictures.release_waiting();
  return status;
}

Status run_golden(Session& session, const Options& options, Results& results, FrameLoop loop) {
  Result<GoldenCheck> golden = GoldenCheck::create(session.bundle());
  if (!golden.ok()) return golden.status();
  std::uint64_t equal = 0;
  loop.frames = options.frames.value_or(1);
  loop.fill = [&](const InputFrame& frame) -> Result<bool> {
    golden->fill(frame);
    return true;
  };
  loop.take = [&](const OutputFrame& frame) {
    Status status = golden->compare(frame);
    if (status.ok()) status = results.take(frame);
    equal += status.ok() ? 1 : 0;
    return status;
  };
  Status status = run_frames(session.pipeline(), loop, interrupted);
  results.end_progress();
  if (status.ok() && !options.quiet) {
    print_line(stderr, "golden: " + std::to_string(equal) + " frames x " +
                           std::to_string(golden->outputs()) + " outputs are bit-equal");
  }
  if (!status.ok()) return status;
  return check_device(session.device_name(), session.pipeline().statistics());
}

int verify(const Options& options) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(options.bundle, options.session.policy);
  if (!bundle.ok()) return report_failure(kProgram, bundle.status());
  print_line(stdout, "version " + std::to_string((*bundle)->manifest().version));
  if (!(*bundle)->signer().empty()) print_line(stdout, "signer " + (*bundle)->signer());
  return kOk;
}

int run(const Options& options) {
  if (options.verify) return verify(options);
  Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
  if (!manager.ok()) return report_failure(kProgram, manager.status());
  if (options.tensors) {
    std::error_code error;
    std::filesystem::create_directories(*options.tensors, error);
    if (error) {
      return report_failure(
          kProgram, Status(Code::kInvalidArgument,
                           options.tensors->string() + ": cannot be created: " + error.message(),
                           "choose another folder"));
    }
  }
  Result<FileDescriptor> output = create_file(options.output);
  if (!output.ok()) return report_failure(kProgram, output.status());
  Result<std::unique_ptr<Session>> session = Session::open(options.bundle, options.session);
  if (!session.ok()) return report_failure(kProgram, session.status());

  const auto live = LiveStatistics::start(
      [&session = **session, board = std::make_shared<BoardReadings>()] {
        return live_figures(session.bundle().manifest().name, session.device_name(),
                            session.pipeline().statistics(), board->read());
      },
      {});
  Results results(**session, options, *std::move(output));
  FrameLoop loop;
  loop.deadline = milliseconds(options.timeout_s);
  std::atomic<std::uint64_t> steps{0};
  loop.alive = [&](std::uint64_t taken) {
    manager->alive(taken + steps, [&] { return (*session)->status_line(); });
  };
  manager->ready((*session)->status_line());
  Status status = options.golden ? run_golden(**session, options, results, loop)
                  : options.session.takes_pictures
                      ? run_pictures(**session, options, results, loop)
                      : run_input(**session, options, results, loop, steps);
  manager->stopping();
  results.end_progress();
  const PipelineStatistics statistics = (*session)->pipeline().statistics();
  if (!options.quiet) {
    print_lines(stderr, statistics.table());
    print_line(stderr, device_line((*session)->device_name(), statistics));
  }
  if (options.json) {
    const Status written = results.write_line(json_account((*session)->device_name(), statistics));
    if (status.ok()) status = written;
  }
  status = write_trace(status, **session, options);
  return status.ok() ? kOk : report_failure(kProgram, status);
}

}  // namespace

int run_main(int argc, char** argv) {
  return guarded_session_main(kProgram, [&] {
    Options options;
    return run_session_program(
        option_table(options), options, argc, argv,
        [&] {
          options.session.takes_pictures = takes_pictures(options);
          return check(options);
        },
        [&] { return run(options); });
  });
}

}  // namespace edgepipe::programs
