#include "edgepipe_c.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/board_readings.h"
#include "edgepipe/picture.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/session.h"
#include "media/pictures/picture_fitter.h"
#include "pipeline/live_statistics.h"
#include "postprocess/result_bytes.h"
#include "session/json_options.h"

using edgepipe::Bundle;
using edgepipe::Clock;
using edgepipe::Code;
using edgepipe::FrameResult;
using edgepipe::Graph;
using edgepipe::InputFrame;
using edgepipe::LiveStatistics;
using edgepipe::OutputFrame;
using edgepipe::Picture;
using edgepipe::PictureFitter;
using edgepipe::PictureLease;
using edgepipe::PictureSource;
using edgepipe::PixelFormat;
using edgepipe::Placement;
using edgepipe::Result;
using edgepipe::Session;
using edgepipe::Status;
using edgepipe::TensorSpec;

struct EpPipeline {
  // Destroyed from the bottom up: leases and the thread that reads statistics before the session.
  std::unique_ptr<Session> session;
  Result<PictureFitter> fitter;  // or why no picture can be fitted
  std::string description = {};
  std::string results = {};
  Status undecoded = {};  // why a frame could not be decoded
  // By slot: where the picture lies of which the frame was made.
  std::vector<std::optional<Placement>> fitted = {};
  std::optional<Placement> filled = {};  // of the acquired frame
  std::optional<InputFrame> filling = {};
  std::optional<OutputFrame> taken = {};
  std::unique_ptr<LiveStatistics> live = {};
};

namespace {

using Json = nlohmann::json;

constexpr double kLongestWaitS = 86400.0;  // a longer wait needs another call

struct Failure {
  std::string message;
  std::string hint;
};

Failure& failure() {
  thread_local Failure last;
  return last;
}

int report(const Status& status) {
  if (status.ok()) return 0;
  failure() = {status.message(), status.hint()};
  return static_cast<int>(status.code());
}

/// Runs `body`; no exception leaves a C function.
template <typename Body>
int guarded(Body body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status(Code::kOutOfMemory, "no memory is left"));
  } catch (const std::exception& error) {
    return report(Status(Code::kInternal, error.what()));
  }
}

Clock::time_point after(double timeout_s) {
  const std::chrono::duration<double> wait(std::clamp(timeout_s, 0.0, kLongestWaitS));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

Json describe_tensors(const Graph& graph, const std::vector<std::size_t>& indices) {
  Json list = Json::array();
  for (const std::size_t index : indices) {
    const TensorSpec& tensor = graph.tensors[index];
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"layout", tensor.layout},
                    {"bytes", tensor.bytes}});
  }
  return list;
}

std::string describe(Session& session) {
  const Graph& graph = session.pipeline().graph();
  Json stages = Json::array();
  for (const edgepipe::StageNode& node : graph.nodes) stages.push_back(node.stage->name());
  const edgepipe::Manifest& manifest = session.bundle().manifest();
  return Json{{"name", manifest.name},
              {"device", session.device_name()},
              {"slots", session.pipeline().slots()},
              {"stages", std::move(stages)},
              {"input_size", {manifest.preprocess.height, manifest.preprocess.width}},
              {"inputs", describe_tensors(graph, graph.inputs)},
              {"outputs", describe_tensors(graph, graph.outputs)},
              {"labels", session.postprocessor().labels()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<PictureFitter> make_fitter(Session& session) {
  const edgepipe::Preprocess& preprocess = session.bundle().manifest().preprocess;
  const Graph& graph = session.pipeline().graph();
  const std::size_t bytes = static_cast<std::size_t>(preprocess.width) *
                            static_cast<std::size_t>(preprocess.height) *
                            static_cast<std::size_t>(preprocess.channels());
  if (graph.inputs.size() != 1 || graph.tensors[graph.inputs[0]].bytes != bytes) {
    return Status(Code::kUnsupported, "the network's input is not one picture",
                  "give run() or submit() the input arrays");
  }
  return PictureFitter::create(preprocess);
}

Result<std::unique_ptr<EpPipeline>> open(const char* path, const char* options,
                                         std::span<const EpOwnBuffer> own) {
  Result<Session::Options> parsed = edgepipe::parse_options(options);
  if (!parsed.ok()) return parsed.status();
  for (const EpOwnBuffer& buffer : own) {
    parsed->pipeline.own_buffers.push_back(
        {.tensor = buffer.tensor,
         .slot = static_cast<std::size_t>(buffer.slot),
         .memory = {static_cast<std::byte*>(buffer.data), static_cast<std::size_t>(buffer.bytes)}});
  }
  Result<std::unique_ptr<Session>> session = Session::open(path, *parsed);
  if (!session.ok()) return session.status();
  Session& opened = **session;
  auto pipeline = std::make_unique<EpPipeline>(
      EpPipeline{.session = *std::move(session), .fitter = make_fitter(opened)});
  pipeline->description = describe(opened);
  pipeline->fitted.resize(opened.pipeline().slots());
  pipeline->live = LiveStatistics::start(
      [&opened, board = std::make_shared<edgepipe::BoardReadings>()] {
        return edgepipe::live_figures(opened.bundle().manifest().name, opened.device_name(),
                                      opened.pipeline().statistics(), board->read());
      },
      {});
  return pipeline;
}

Status fit(EpPipeline& pipeline, const Picture& picture) {
  if (!pipeline.fitter.ok()) return pipeline.fitter.status();
  Status status = pipeline.fitter->fit(picture, pipeline.filling->input(0));
  if (status.ok()) pipeline.filled = pipeline.fitter->placement();
  return status;
}

Status check_acquired(const EpPipeline& pipeline) {
  if (pipeline.filling) return {};
  return {Code::kInvalidArgument, "no frame has been acquired"};
}

EpPlacement as_c(const Placement& placement) {
  return {.width = placement.width,
          .height = placement.height,
          .fitted_width = placement.fitted_width,
          .fitted_height = placement.fitted_height,
          .left = placement.left,
          .top = placement.top};
}

Status take(EpPipeline& pipeline, EpTaken& taken, const void** outputs) {
  pipeline.taken.reset();
  if (!pipeline.undecoded.ok()) return pipeline.undecoded;
  Result<OutputFrame> frame = pipeline.session->pipeline().next(Clock::now());
  if (!frame.ok()) return frame.status();
  pipeline.taken.emplace(*std::move(frame));
  edgepipe::Postprocessor& postprocessor = pipeline.session->postprocessor();
  Result<FrameResult> found = postprocessor.run(*pipeline.taken);
  if (!found.ok()) return pipeline.undecoded = found.status();
  const std::optional<Placement>& placement = pipeline.fitted[pipeline.taken->slot()];
  pipeline.results.clear();
  edgepipe::append_result(pipeline.results,
                          placement ? postprocessor.in_picture(*found, *placement) : *found);
  taken = {.frame = pipeline.taken->id(),
           .latency_ns = static_cast<std::uint64_t>(pipeline.taken->latency().count()),
           .results = pipeline.results.data(),
           .result_bytes = pipeline.results.size(),
           .placement = placement ? as_c(*placement) : EpPlacement{}};
  const std::size_t count = pipeline.session->pipeline().graph().outputs.size();
  for (std::size_t index = 0; index < count; ++index) {
    outputs[index] = pipeline.taken->output(index).data();
  }
  return {};
}

}  // namespace

const char* ep_message() { return failure().message.c_str(); }
const char* ep_hint() { return failure().hint.c_str(); }

int ep_open(const char* path, const char* options, const EpOwnBuffer* own, std::uint64_t count,
            EpPipeline** pipeline) {
  return guarded([&]() -> Status {
    Result<std::unique_ptr<EpPipeline>> opened =
        open(path, options, {own, static_cast<std::size_t>(count)});
    if (!opened.ok()) return opened.status();
    *pipeline = opened->release();
    return {};
  });
}

void ep_close(EpPipeline* pipeline) { delete pipeline; }

const char* ep_describe(const EpPipeline* pipeline) { return pipeline->description.c_str(); }

int ep_acquire(EpPipeline* pipeline, double timeout_s, void** inputs) {
  return guarded([&]() -> Status {
    edgepipe::Pipeline& running = pipeline->session->pipeline();
    if (!pipeline->filling) {
      Result<InputFrame> frame = running.acquire(after(timeout_s));
      if (!frame.ok()) return frame.status();
      pipeline->filling.emplace(*std::move(frame));
      pipeline->filled.reset();
    }
    for (std::size_t index = 0; index < running.graph().inputs.size(); ++index) {
      inputs[index] = pipeline->filling->input(index).data();
    }
    return {};
  });
}

int ep_fit(EpPipeline* pipeline, const EpPicture* picture) {
  return guarded([&]() -> Status {
    if (Status status = check_acquired(*pipeline); !status.ok()) return status;
    const std::optional<PixelFormat> format = edgepipe::parse_pixel_format(picture->format);
    if (!format) {
      return {Code::kInvalidArgument, "pixel format '" + std::string(picture->format) +
                                          "' is unknown, expected bgr, rgb, gray, yuyv, nv12 or "
                                          "jpeg"};
    }
    return fit(*pipeline, {.format = *format,
                           .width = picture->width,
                           .height = picture->height,
                           .row_bytes = static_cast<std::size_t>(picture->row_bytes),
                           .bytes = {static_cast<const std::byte*>(picture->data),
                                     static_cast<std::size_t>(picture->bytes)}});
  });
}

int ep_fit_file(EpPipeline* pipeline, const char* path) {
  return guarded([&]() -> Status {
    if (Status status = check_acquired(*pipeline); !status.ok()) return status;
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      return {Code::kInvalidArgument, std::string(path) + ": is a folder, expected a picture"};
    }
    Result<std::unique_ptr<PictureSource>> source = edgepipe::open_picture_folder(path, {});
    if (!source.ok()) return source.status();
    const std::atomic<bool> never{false};
    PictureLease lease;
    const Result<bool> more = (*source)->next(lease, never);
    if (!more.ok()) return more.status();
    if (!*more) return {Code::kCorrupt, std::string(path) + ": contains no picture"};
    return fit(*pipeline, lease.picture()).with_context(path);
  });
}

void ep_abandon(EpPipeline* pipeline) { pipeline->filling.reset(); }

int ep_submit(EpPipeline* pipeline, std::uint64_t* frame) {
  return guarded([&]() -> Status {
    if (Status status = check_acquired(*pipeline); !status.ok()) return status;
    pipeline->fitted[pipeline->filling->slot()] = pipeline->filled;
    Result<std::uint64_t> number =
        pipeline->session->pipeline().submit(*std::move(pipeline->filling));
    pipeline->filling.reset();
    if (!number.ok()) return number.status();
    *frame = *number;
    return {};
  });
}

int ep_take(EpPipeline* pipeline, EpTaken* taken, const void** outputs) {
  return guarded([&] { return take(*pipeline, *taken, outputs); });
}

void ep_release(EpPipeline* pipeline) { pipeline->taken.reset(); }

int ep_await_slot(EpPipeline* pipeline, int or_next, double timeout_s) {
  return guarded(
      [&] { return pipeline->session->pipeline().await_slot(or_next != 0, after(timeout_s)); });
}

int ep_await_frame(EpPipeline* pipeline, std::uint64_t frame, double timeout_s) {
  return guarded(
      [&] { return pipeline->session->pipeline().await_frame(frame, after(timeout_s)); });
}

int ep_drain(EpPipeline* pipeline, std::uint64_t frames, double timeout_s) {
  return guarded([&] { return pipeline->session->pipeline().drain(frames, after(timeout_s)); });
}

int ep_stop(EpPipeline* pipeline, double timeout_s) {
  return guarded([&] { return pipeline->session->pipeline().stop(after(timeout_s)); });
}

int ep_await_end(EpPipeline* pipeline, double timeout_s) {
  return guarded([&] { return pipeline->session->pipeline().await_end(after(timeout_s)); });
}

void ep_cancel(EpPipeline* pipeline) { pipeline->session->pipeline().cancel(); }

int ep_restart(EpPipeline* pipeline, double timeout_s) {
  return guarded([&]() -> Status {
    pipeline->taken.reset();
    pipeline->filling.reset();
    Status status = pipeline->session->pipeline().restart(after(timeout_s));
    if (status.ok()) pipeline->undecoded = {};
    return status;
  });
}

const char* ep_statistics(const EpPipeline* pipeline) {
  thread_local std::string text;
  const int code = guarded([&]() -> Status {
    text = pipeline->session->pipeline().statistics().json();
    return {};
  });
  return code == 0 ? text.c_str() : nullptr;
}

int ep_write_trace(const EpPipeline* pipeline, const char* path) {
  return guarded([&] { return pipeline->session->pipeline().trace().write(path); });
}
