// C functions behind edgepipe/runtime/pipeline.py: a bundle, running.
//
// A function returns 0 or a Code; ep_last_error() then has the text. Of the functions on one
// handle, one thread may submit while another takes results; the others are for any thread.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "capi_error.h"
#include "edgepipe/live_statistics.h"
#include "edgepipe/session.h"

using edgepipe::Clock;
using edgepipe::Code;
using edgepipe::Pipeline;
using edgepipe::Session;
using edgepipe::Status;
using edgepipe::TensorSpec;
using edgepipe::capi::fail;

struct EpPipeline {
  std::unique_ptr<Session> session;
  std::unique_ptr<edgepipe::LiveStatistics> live;  // ends first
};

/// As edgepipe/runtime/pipeline.py declares them.
struct EpPipelineOptions {
  std::int32_t serial;
  std::int32_t pinning;       // 0 required, 1 preferred, 2 off
  std::uint32_t slots;        // 0: chosen by the pipeline
  std::uint32_t trace_spans;  // 0: ep_pipeline_trace has nothing to write
  std::uint32_t core_count;
  const std::int32_t* cores;
  std::int32_t timed;  // the simulator is no faster than the board
};

struct EpDetection {
  float left;
  float top;
  float right;
  float bottom;
  float score;
  std::int32_t label_index;
};

struct EpClass {
  float score;
  float probability;
  std::int32_t label_index;
};

/// What ep_pipeline_next fills besides the outputs. `detections` and `classes` have room for the
/// given numbers of entries, which become the numbers of entries found.
struct EpFrame {
  std::uint64_t id;
  std::uint64_t latency_ns;
  EpDetection* detections;
  EpClass* classes;
  std::uint32_t detection_count;
  std::uint32_t class_count;
};

namespace {

Clock::time_point after(double timeout_s) {
  // A longer wait than a day is no wait with a deadline; the caller may ask again.
  const double bounded = std::clamp(timeout_s, 0.0, 86400.0);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

/// Copies a text with its final NUL; `length` gets its bytes without. Too small a buffer is an
/// error.
int copy_text(const std::string& text, char* buffer, std::uint64_t capacity,
              std::uint64_t* length) {
  *length = text.size();
  if (text.size() >= capacity) {
    return fail(Status(Code::kInvalidArgument, "the text needs " + std::to_string(text.size() + 1) +
                                                   " bytes, the buffer has " +
                                                   std::to_string(capacity)));
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return 0;
}

nlohmann::json describe(const std::vector<std::size_t>& indices,
                        const std::vector<TensorSpec>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::size_t index : indices) {
    const TensorSpec& tensor = tensors[index];
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"layout", tensor.layout},
                    {"bytes", tensor.bytes}});
  }
  return list;
}

}  // namespace

/// Opens a bundle, loads its stages and starts its threads. Blocks meanwhile.
EP_EXPORT int ep_pipeline_open(const char* path, const EpPipelineOptions* wanted,
                               EpPipeline** out) {
  Session::Options options;
  options.pipeline.mode =
      wanted->serial != 0 ? Pipeline::Mode::kSerial : Pipeline::Mode::kPipelined;
  options.pipeline.pinning = static_cast<Pipeline::Pinning>(wanted->pinning);
  options.pipeline.slots = wanted->slots;
  options.pipeline.trace_spans = wanted->trace_spans;
  for (std::uint32_t index = 0; index < wanted->core_count; ++index) {
    options.pipeline.threads.push_back({.cores = {wanted->cores[index]}});
  }
  if (wanted->timed != 0) options.device.kind = edgepipe::DeviceKind::kTimed;
  auto session = Session::open(path, options);
  if (!session.ok()) return fail(session.status());
  auto live = edgepipe::LiveStatistics::start(
      [opened = session->get()] {
        return edgepipe::live_figures(opened->bundle().manifest().name, opened->device_name(),
                                      opened->pipeline().statistics());
      },
      {});
  *out = new EpPipeline{std::move(*session), std::move(live)};
  return 0;
}

/// Cancels and frees; blocks until stages that are running return.
EP_EXPORT void ep_pipeline_close(EpPipeline* self) { delete self; }

/// Writes a JSON object: name, inputs, outputs, slots, stages (names), labels.
EP_EXPORT int ep_pipeline_describe(EpPipeline* self, char* text, std::uint64_t capacity,
                                   std::uint64_t* length) {
  const edgepipe::Manifest& manifest = self->session->bundle().manifest();
  nlohmann::json found = {{"name", manifest.name},
                          {"inputs", describe(manifest.inputs, manifest.tensors)},
                          {"outputs", describe(manifest.outputs, manifest.tensors)},
                          {"slots", self->session->pipeline().slots()},
                          {"stages", nlohmann::json::array()},
                          {"labels", self->session->postprocessor().labels()}};
  for (const edgepipe::StageSpec& stage : manifest.stages) found["stages"].push_back(stage.name);
  return copy_text(found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), text,
                   capacity, length);
}

/// Copies a frame in, `bytes[i]` bytes from `data[i]` for input i. Blocks until a slot is free.
EP_EXPORT int ep_pipeline_submit(EpPipeline* self, const void* const* data,
                                 const std::uint64_t* bytes, std::uint32_t count, double timeout_s,
                                 std::uint64_t* id) {
  std::vector<std::span<const std::byte>> inputs;
  for (std::uint32_t index = 0; index < count; ++index) {
    inputs.emplace_back(static_cast<const std::byte*>(data[index]), bytes[index]);
  }
  auto submitted = self->session->pipeline().submit(inputs, after(timeout_s));
  if (!submitted.ok()) return fail(submitted.status());
  *id = *submitted;
  return 0;
}

/// Waits for the next frame and copies output i to `outputs[i]`, which has its tensor's bytes.
EP_EXPORT int ep_pipeline_next(EpPipeline* self, double timeout_s, void* const* outputs,
                               EpFrame* out) {
  Pipeline& pipeline = self->session->pipeline();
  auto frame = pipeline.next(after(timeout_s));
  if (!frame.ok()) return fail(frame.status());
  for (std::size_t index = 0; index < pipeline.graph().outputs.size(); ++index) {
    const std::span<const std::byte> content = frame->output(index);
    std::memcpy(outputs[index], content.data(), content.size());
  }
  const edgepipe::FrameResult result = self->session->postprocessor().run(*frame);
  out->id = frame->id();
  out->latency_ns = static_cast<std::uint64_t>(frame->latency().count());
  out->detection_count = static_cast<std::uint32_t>(
      std::min<std::size_t>(out->detection_count, result.detections.size()));
  for (std::uint32_t index = 0; index < out->detection_count; ++index) {
    const edgepipe::Detection& found = result.detections[index];
    out->detections[index] = {found.left,   found.top,   found.right,
                              found.bottom, found.score, found.label_index};
  }
  out->class_count =
      static_cast<std::uint32_t>(std::min<std::size_t>(out->class_count, result.classes.size()));
  for (std::uint32_t index = 0; index < out->class_count; ++index) {
    const edgepipe::ClassScore& found = result.classes[index];
    out->classes[index] = {found.score, found.probability, found.label_index};
  }
  return 0;
}

/// Takes no more frames and waits until those submitted are finished; they can still be taken.
EP_EXPORT int ep_pipeline_stop(EpPipeline* self, double timeout_s) {
  return fail(self->session->pipeline().stop(after(timeout_s)));
}

/// Drops what has not been taken. Does not block.
EP_EXPORT void ep_pipeline_cancel(EpPipeline* self) { self->session->pipeline().cancel(); }

/// Writes the last spans as Trace Event JSON; the file appears when it is complete.
EP_EXPORT int ep_pipeline_trace(EpPipeline* self, const char* path) {
  return fail(self->session->pipeline().trace().write(path));
}

/// Writes PipelineStatistics as a JSON object.
EP_EXPORT int ep_pipeline_statistics(EpPipeline* self, char* text, std::uint64_t capacity,
                                     std::uint64_t* length) {
  return copy_text(self->session->pipeline().statistics().json(), text, capacity, length);
}
