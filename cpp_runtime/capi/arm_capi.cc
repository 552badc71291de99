// C functions behind edgepipe/runtime/arm_stage.py: one ARM stage with one slot.
//
// A function returns 0 or a Code; ep_last_error() then has the text. Handles are not thread-safe.
#include <cstdint>
#include <memory>
#include <vector>

#include "capi_error.h"
#include "edgepipe/arm_stage.h"

using edgepipe::capi::fail;

struct EpArmStage {
  std::unique_ptr<edgepipe::ArmStage> stage;
};

/// Loads a stage from its folder.
EP_EXPORT int ep_arm_stage_open(const char* folder, EpArmStage** out) {
  auto stage = edgepipe::ArmStage::open(folder);
  if (!stage.ok()) return fail(stage.status());
  *out = new EpArmStage{.stage = *std::move(stage)};
  return 0;
}

EP_EXPORT void ep_arm_stage_close(EpArmStage* self) { delete self; }

/// Binds the only slot: `data` and `bytes` of all inputs, then all outputs. The memory is borrowed
/// until the next bind or close; it is 64-byte aligned.
EP_EXPORT int ep_arm_stage_bind(EpArmStage* self, void* const* data, const std::uint64_t* bytes,
                                std::uint64_t input_count, std::uint64_t output_count) {
  std::vector<edgepipe::BufferView> views;
  for (std::uint64_t i = 0; i < input_count + output_count; ++i) {
    views.push_back({.data = static_cast<std::byte*>(data[i]),
                     .device_address = 0,
                     .bytes = static_cast<std::size_t>(bytes[i])});
  }
  const std::span<const edgepipe::BufferView> all(views);
  return fail(self->stage->bind(0, all.first(input_count), all.subspan(input_count)));
}

EP_EXPORT int ep_arm_stage_run(EpArmStage* self) { return fail(self->stage->run(0)); }
