// C functions behind edgepipe/pipeline/running.py: an exported pipeline's folder, running.
//
// A function returns 0 or a Code; ep_last_error() then has the text. Of the functions on one
// handle, one thread may submit while another takes results; the others are for any thread, but
// nothing runs beside ep_graph_restart and ep_graph_close.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "capi_error.h"
#include "edgepipe/live_statistics.h"
#include "edgepipe/pipeline_session.h"

using edgepipe::Clock;
using edgepipe::Code;
using edgepipe::Pipeline;
using edgepipe::PipelineSession;
using edgepipe::Status;
using edgepipe::capi::fail;

struct EpGraph {
  std::unique_ptr<PipelineSession> session;
  std::unique_ptr<edgepipe::LiveStatistics> live;  // ends first

  [[nodiscard]] Pipeline& pipeline() const { return session->pipeline(); }
};

/// As edgepipe/pipeline/running.py declares them.
struct EpGraphOptions {
  std::int32_t serial;
  std::int32_t pinning;  // 0 required, 1 preferred, 2 off
  std::uint32_t slots;   // 0: chosen by the pipeline
  std::uint32_t hosted_count;
  const char* const* hosted_names;
  const EpStageFunction* hosted_functions;
};

namespace {

Clock::time_point after(double timeout_s) {
  // A longer wait than a day is no wait with a deadline; the caller may ask again.
  const double bounded = std::clamp(timeout_s, 0.0, 86400.0);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

}  // namespace

/// Opens a folder, loads its stages and starts their threads. Blocks meanwhile. The hosted
/// functions get no context.
EP_EXPORT int ep_graph_open(const char* folder, const EpGraphOptions* wanted, EpGraph** out) {
  edgepipe::Session::Options options;
  options.pipeline.mode =
      wanted->serial != 0 ? Pipeline::Mode::kSerial : Pipeline::Mode::kPipelined;
  options.pipeline.pinning = static_cast<Pipeline::Pinning>(wanted->pinning);
  options.pipeline.slots = wanted->slots;
  std::vector<PipelineSession::HostedStage> hosted;
  for (std::uint32_t index = 0; index < wanted->hosted_count; ++index) {
    hosted.push_back({.name = wanted->hosted_names[index],
                      .function = wanted->hosted_functions[index],
                      .context = nullptr});
  }
  auto session = PipelineSession::open(folder, hosted, options);
  if (!session.ok()) return fail(session.status());
  auto live = edgepipe::LiveStatistics::start(
      [opened = session->get()] {
        return edgepipe::live_figures(opened->description().name, opened->device_name(),
                                      opened->pipeline().statistics());
      },
      {});
  *out = new EpGraph{*std::move(session), std::move(live)};
  return 0;
}

/// Cancels and frees; blocks until stages that are running return.
EP_EXPORT void ep_graph_close(EpGraph* self) { delete self; }

EP_EXPORT std::uint64_t ep_graph_slots(const EpGraph* self) { return self->pipeline().slots(); }

/// Copies a frame in, `bytes[i]` bytes from `data[i]` for input i. Blocks until a slot is free.
EP_EXPORT int ep_graph_submit(EpGraph* self, const void* const* data, const std::uint64_t* bytes,
                              std::uint32_t count, double timeout_s, std::uint64_t* id) {
  std::vector<std::span<const std::byte>> inputs;
  for (std::uint32_t index = 0; index < count; ++index) {
    inputs.emplace_back(static_cast<const std::byte*>(data[index]), bytes[index]);
  }
  auto submitted = self->pipeline().submit(inputs, after(timeout_s));
  if (!submitted.ok()) return fail(submitted.status());
  *id = *submitted;
  return 0;
}

/// Waits for the next frame and copies output i to `outputs[i]`, which has its tensor's bytes.
EP_EXPORT int ep_graph_next(EpGraph* self, double timeout_s, void* const* outputs,
                            std::uint64_t* id, std::uint64_t* latency_ns) {
  auto frame = self->pipeline().next(after(timeout_s));
  if (!frame.ok()) return fail(frame.status());
  for (std::size_t index = 0; index < self->pipeline().graph().outputs.size(); ++index) {
    const std::span<const std::byte> content = frame->output(index);
    std::memcpy(outputs[index], content.data(), content.size());
  }
  *id = frame->id();
  *latency_ns = static_cast<std::uint64_t>(frame->latency().count());
  return 0;
}

/// Waits until every submitted frame is finished; the pipeline goes on.
EP_EXPORT int ep_graph_drain(EpGraph* self, double timeout_s) {
  return fail(self->pipeline().drain(after(timeout_s)));
}

/// Takes no more frames and waits until those submitted are finished; they can still be taken.
EP_EXPORT int ep_graph_stop(EpGraph* self, double timeout_s) {
  return fail(self->pipeline().stop(after(timeout_s)));
}

/// Drops what has not been taken. Does not block.
EP_EXPORT void ep_graph_cancel(EpGraph* self) { self->pipeline().cancel(); }

/// Runs again after an end, frames counted from 0. Waits until the stages' threads have ended.
EP_EXPORT int ep_graph_restart(EpGraph* self, double timeout_s) {
  return fail(self->pipeline().restart(after(timeout_s)));
}

/// Writes PipelineStatistics as a JSON object with its final NUL; `length` gets its bytes without.
EP_EXPORT int ep_graph_statistics(EpGraph* self, char* text, std::uint64_t capacity,
                                  std::uint64_t* length) {
  const std::string found = self->pipeline().statistics().json();
  *length = found.size();
  if (found.size() >= capacity) {
    return fail(
        Status(Code::kInvalidArgument, "the text needs " + std::to_string(found.size() + 1) +
                                           " bytes, the buffer has " + std::to_string(capacity)));
  }
  std::memcpy(text, found.c_str(), found.size() + 1);
  return 0;
}
