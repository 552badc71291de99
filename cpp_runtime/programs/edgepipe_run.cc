// edgepipe-run: runs a bundle on frames from a file or standard input.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/remedy.h"
#include "base/service_manager.h"
#include "bundle/fingerprint.h"
#include "command_line.h"
#include "edgepipe/session.h"
#include "media/sources/frame_source.h"
#include "pipeline/frame_loop.h"
#include "pipeline/live_statistics.h"
#include "session/golden.h"
#include "session_options.h"
#include "session_program.h"

namespace {

using edgepipe::Code;
using edgepipe::FrameSource;
using edgepipe::InputFrame;
using edgepipe::OutputFrame;
using edgepipe::Pipeline;
using edgepipe::Result;
using edgepipe::ServiceManager;
using edgepipe::Session;
using edgepipe::Status;
using edgepipe::programs::interrupted;
using edgepipe::programs::kOk;
using edgepipe::programs::OutputFile;
using edgepipe::programs::parse_arguments;
using edgepipe::programs::parse_number;

constexpr const char* kHelp = R"(usage: edgepipe-run BUNDLE (--input FILE | --golden) [options]

Runs a bundle (a folder or a .edgepipe archive) on frames, each stage on a thread
of its own. Results go to standard output as one line of JSON per frame; progress
and a table of stage times go to standard error.

what to run
  --input FILE    frames to run on; - is standard input. Raw frames are the bytes of
                  the bundle's input, one frame after the other. Names ending in .ppm
                  or .pgm are pictures of exactly the network's size, any number in
                  one file
  --format F      raw or ppm, when the name does not tell
  --golden        run the input recorded in the bundle and compare the outputs with
                  the recorded ones, bit for bit
  --frames N      end after N frames (default: all of the input; with --golden 1)

how to run it
  --serial        all stages on one thread, one frame at a time; an ARM stage of several
                  threads keeps the others
  --slots N       frames under way at once (default: what the bundle says)
  --spin US       a stage's thread polls so long for its next frame before it sleeps, in
                  microseconds: hand-overs get faster, its core is busy (default: 0)
  --timeout S     seconds that one frame may take (default: 30)
)";

constexpr const char* kHelpEnd = R"(
results
  --output FILE   where the lines of JSON go (default: -, standard output)
  --tensors DIR   also write every output tensor, as DIR/FRAME_TENSOR.bin
  --trace FILE    write when each stage ran on each frame, for https://ui.perfetto.dev or
                  chrome://tracing; of a long run the last 32768 events
  --json          end with one more line: {"statistics": ...}
  --quiet         no progress and no table

Interrupted (Ctrl-C), it takes no more frames, finishes those under way and reports.
Exit codes: 0 done, 1 failed or not bit-equal, 2 wrong use; the bundle was built for
another 10 configuration, 11 encoding revision, 12 clock, 13 bitstream or 14 version.

  edgepipe-run nanodet.edgepipe --golden --frames 100
  ffmpeg -i clip.mp4 -f rawvideo -pix_fmt bgr24 -s 416x416 - | \
    edgepipe-run nanodet.edgepipe --input - > boxes.jsonl
)";

struct Options : edgepipe::programs::SharedOptions {
  std::optional<std::string> input;
  std::optional<FrameSource::Format> format;
  std::string output = "-";
  std::optional<std::filesystem::path> tensors;
  std::optional<std::uint64_t> frames;
  double timeout_s = 30;
  bool golden = false;
  bool json = false;
  bool quiet = false;
};

int failed(const Status& status) {
  edgepipe::print_failure("edgepipe-run", status);
  return edgepipe::exit_code(status.code());
}

// ---- arguments

/// Sets one option that takes a value; an error text if the value or the option is wrong.
std::string set_option(std::string_view name, const std::string& value, Options& options) {
  const auto refuse = [&](const char* expected) {
    return std::string(name) + ": found '" + value + "', expected " + expected;
  };
  if (name == "--input") {
    options.input = value;
  } else if (name == "--output") {
    options.output = value;
  } else if (name == "--tensors") {
    options.tensors = value;
  } else if (name == "--format") {
    if (value != "raw" && value != "ppm") return refuse("raw or ppm");
    options.format = value == "raw" ? FrameSource::Format::kRaw : FrameSource::Format::kPictures;
  } else if (name == "--frames") {
    std::uint64_t frames = 0;
    if (!parse_number(value, frames) || frames == 0) return refuse("a number from 1 up");
    options.frames = frames;
  } else if (name == "--slots") {
    if (!parse_number(value, options.session.pipeline.slots) ||
        options.session.pipeline.slots == 0 || options.session.pipeline.slots > 1024) {
      return refuse("a number from 1 to 1024");
    }
  } else if (name == "--timeout") {
    if (!parse_number(value, options.timeout_s) || !(options.timeout_s > 0) ||
        options.timeout_s > 1e6) {
      return refuse("seconds, more than 0");
    }
  } else if (name == "--spin") {
    std::uint32_t spin_us = 0;
    if (!parse_number(value, spin_us) || spin_us > 1'000'000) return refuse("0 to 1000000");
    options.session.pipeline.spin = std::chrono::microseconds(spin_us);
  } else {
    return edgepipe::programs::set_shared_option(name, value, options);
  }
  return {};
}

/// Sets an option without a value; false when `name` is none.
bool set_flag(std::string_view name, Options& options) {
  if (name == "--golden") {
    options.golden = true;
  } else if (name == "--serial") {
    options.session.pipeline.mode = Pipeline::Mode::kSerial;
  } else if (name == "--json") {
    options.json = true;
  } else if (name == "--quiet") {
    options.quiet = true;
  } else {
    return edgepipe::programs::set_shared_flag(name, options);
  }
  return true;
}

/// An error text, empty when the arguments make sense.
std::string parse(const std::vector<std::string>& arguments, Options& options) {
  std::string error = parse_arguments(arguments, options, set_flag, set_option);
  if (!error.empty()) return error;
  if (options.golden == options.input.has_value()) return "give either --input or --golden";
  return edgepipe::programs::check_shared_options(options);
}

// ---- running

/// What happens to finished frames.
class Results {
 public:
  Results(Session& session, const Options& options, OutputFile output)
      : session_(session),
        options_(options),
        output_(std::move(output)),
        show_progress_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}

  Status take(const OutputFrame& frame) {
    const edgepipe::FrameResult result = session_.postprocessor().run(frame);
    Status status = write_line(session_.postprocessor().json_line(frame, result));
    if (status.ok() && options_.tensors) status = write_tensors(frame);
    ++frames_;
    const auto now = edgepipe::Clock::now();
    if (show_progress_ && now - shown_ > std::chrono::milliseconds(200)) {
      shown_ = now;
      std::fprintf(stderr, "\r%llu frames", static_cast<unsigned long long>(frames_));
    }
    return status;
  }

  Status write_line(std::string line) {
    line += '\n';
    return edgepipe::programs::write_all(output_.get(), line, options_.output);
  }

  void end_progress() const {
    if (show_progress_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  Status write_tensors(const OutputFrame& frame) const {
    const edgepipe::Graph& graph = session_.pipeline().graph();
    for (std::size_t index = 0; index < graph.outputs.size(); ++index) {
      std::string name = graph.tensors[graph.outputs[index]].name;
      std::replace(name.begin(), name.end(), '/', '_');
      const std::filesystem::path path =
          *options_.tensors / (std::to_string(frame.id()) + "_" + name + ".bin");
      const auto bytes = frame.output(index);
      Status status = edgepipe::programs::write_file(
          path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (!status.ok()) return status;
    }
    return {};
  }

  Session& session_;
  const Options& options_;
  OutputFile output_;
  bool show_progress_;
  std::uint64_t frames_ = 0;
  edgepipe::Clock::time_point shown_{};
};

FrameSource::Format format_of(const Options& options) {
  if (options.format) return *options.format;
  const std::string extension = std::filesystem::path(*options.input).extension();
  return extension == ".ppm" || extension == ".pgm" ? FrameSource::Format::kPictures
                                                    : FrameSource::Format::kRaw;
}

Status run_input(Session& session, const Options& options, Results& results,
                 edgepipe::FrameLoop loop) {
  Result<FrameSource> source =
      FrameSource::open(*options.input, format_of(options), session.bundle().manifest().preprocess);
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

Status run_golden(Session& session, const Options& options, Results& results,
                  edgepipe::FrameLoop loop) {
  Result<edgepipe::GoldenCheck> golden = edgepipe::GoldenCheck::create(session.bundle());
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
    std::fprintf(stderr, "golden: %llu frames x %zu outputs are bit-equal\n",
                 static_cast<unsigned long long>(equal), golden->outputs());
  }
  return status;
}

int run(const Options& options) {
  Result<ServiceManager> manager = ServiceManager::connect(ServiceManager::from_environment());
  if (!manager.ok()) return failed(manager.status());
  if (options.tensors) {
    std::error_code error;
    std::filesystem::create_directories(*options.tensors, error);
    if (error) {
      return failed(Status(Code::kInvalidArgument,
                           options.tensors->string() + ": cannot be created: " + error.message()));
    }
  }
  Result<OutputFile> output = edgepipe::programs::create_file(options.output);
  if (!output.ok()) return failed(output.status());
  Result<std::unique_ptr<Session>> session = Session::open(options.bundle, options.session);
  if (!session.ok()) return failed(session.status());

  const auto live = edgepipe::LiveStatistics::start(
      [&session = **session] {
        return edgepipe::live_figures(session.bundle().manifest().name, session.device_name(),
                                      session.pipeline().statistics());
      },
      {});
  Results results(**session, options, *std::move(output));
  edgepipe::FrameLoop loop;
  loop.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
  loop.alive = [&] { manager->alive([&] { return (*session)->status_line(); }); };
  manager->ready((*session)->status_line());
  Status status = options.golden ? run_golden(**session, options, results, loop)
                                 : run_input(**session, options, results, loop);
  manager->stopping();
  results.end_progress();
  const edgepipe::PipelineStatistics statistics = (*session)->pipeline().statistics();
  if (!options.quiet) {
    std::fputs(statistics.table().c_str(), stderr);
    std::fprintf(stderr, "VTA stages ran on: %s\n", std::string((*session)->device_name()).c_str());
  }
  if (options.json && status.ok()) {
    status = results.write_line("{\"statistics\":" + statistics.json() + "}");
  }
  status = edgepipe::programs::write_trace(status, **session, options);
  return status.ok() ? kOk : failed(status);
}

}  // namespace

int main(int argc, char** argv) {
  return edgepipe::programs::SessionProgram<Options>{
      .name = "edgepipe-run", .help = kHelp, .help_end = kHelpEnd, .parse = parse, .run = run}
      .main(argc, argv);
}
