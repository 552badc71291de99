#include "stage/vta_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgepipe {
namespace {

// A stage that waits for its device for longer than this many time limits gives up.
constexpr int kTurns = 8;

}  // namespace

Result<std::unique_ptr<VtaStage>> VtaStage::create(Device& device, Program program,
                                                   Options options) {
  if (program.accelerator() != device.accelerator()) {
    return Status(Code::kInvalidArgument,
                  "stage " + options.name + ": the program was compiled for another accelerator (" +
                      program.accelerator().configuration() + ") than the device's (" +
                      device.accelerator().configuration() + ") or its revision",
                  "build the bundle for the board of this device");
  }
  std::unique_ptr<VtaStage> stage(new VtaStage(device, std::move(program), std::move(options)));
  Status status = stage->match_tensors();
  if (status.ok()) status = stage->allocate_regions();
  if (!status.ok()) return status.with_context("stage " + stage->options_.name);
  return stage;
}

VtaStage::VtaStage(Device& device, Program program, Options options)
    : device_(device), program_(std::move(program)), options_(std::move(options)) {}

// Finds the region of every tensor; the names must match exactly.
Status VtaStage::match_tensors() {
  const std::vector<Region>& regions = program_.regions();
  const auto match = [&](const std::vector<std::string>& names, RegionKind kind,
                         std::vector<std::size_t>& found) -> Status {
    for (const std::string& tensor : names) {
      const auto region = std::find_if(regions.begin(), regions.end(), [&](const Region& r) {
        return r.kind == kind && r.name == tensor;
      });
      if (region == regions.end()) {
        return {Code::kInvalidArgument,
                "the program has no " +
                    std::string(kind == RegionKind::kInput ? "input" : "output") + " tensor " +
                    tensor};
      }
      found.push_back(static_cast<std::size_t>(region - regions.begin()));
    }
    const auto all = static_cast<std::size_t>(std::count_if(
        regions.begin(), regions.end(), [&](const Region& r) { return r.kind == kind; }));
    if (all != names.size()) {
      return {Code::kInvalidArgument, "the program has " + std::to_string(all) +
                                          (kind == RegionKind::kInput ? " input" : " output") +
                                          " tensors, the stage names " +
                                          std::to_string(names.size())};
    }
    return {};
  };
  Status status = match(options_.inputs, RegionKind::kInput, input_regions_);
  if (status.ok()) status = match(options_.outputs, RegionKind::kOutput, output_regions_);
  return status;
}

Status VtaStage::allocate_regions() {
  for (const Region& region : program_.regions()) {
    shared_.emplace_back();
    if (region.kind != RegionKind::kConst && region.kind != RegionKind::kScratch) continue;
    Result<Buffer> buffer = device_.memory().allocate(region.bytes);
    if (!buffer.ok()) return buffer.status().with_context("region " + region.name);
    if (region.kind == RegionKind::kConst && region.bytes != 0) {
      std::memcpy(buffer->data(), program_.constants().data(), region.bytes);
      device_.memory().flush(buffer->view());
    }
    shared_.back() = *std::move(buffer);
  }
  return {};
}

Status VtaStage::place_tensors(std::span<const BufferView> views,
                               std::span<const std::size_t> regions,
                               std::vector<std::uint64_t>& bases) const {
  if (views.size() != regions.size()) {
    return {Code::kInvalidArgument,
            std::to_string(views.size()) + " buffers, expected " + std::to_string(regions.size())};
  }
  for (std::size_t n = 0; n < views.size(); ++n) {
    const Region& region = program_.regions()[regions[n]];
    if (views[n].bytes < region.bytes) {
      return {Code::kInvalidArgument, "tensor " + region.name + ": the buffer has " +
                                          std::to_string(views[n].bytes) + " bytes, expected " +
                                          std::to_string(region.bytes)};
    }
    bases[regions[n]] = views[n].device_address;
  }
  return {};
}

Status VtaStage::bind(std::size_t slot, std::span<const BufferView> inputs,
                      std::span<const BufferView> outputs) {
  std::vector<std::uint64_t> bases;
  for (const Buffer& buffer : shared_) bases.push_back(buffer.device_address());
  Status status = place_tensors(inputs, input_regions_, bases);
  if (status.ok()) status = place_tensors(outputs, output_regions_, bases);
  if (!status.ok()) return status.with_context("stage " + options_.name);

  Result<Buffer> memory =
      device_.memory().allocate(std::size_t{program_.count()} * sizeof(InstructionWord));
  if (!memory.ok()) return memory.status().with_context("stage " + options_.name);
  status = program_.relocate(
      bases, {reinterpret_cast<InstructionWord*>(memory->data()), program_.count()});
  if (!status.ok()) return status.with_context("stage " + options_.name);
  device_.memory().flush(memory->view());

  if (slot >= slots_.size()) slots_.resize(slot + 1);
  slots_[slot] = {.instructions = *std::move(memory),
                  .ranges = ranges(bases),
                  .inputs = {inputs.begin(), inputs.end()},
                  .outputs = {outputs.begin(), outputs.end()}};
  return device_.prepare(submission(slots_[slot])).with_context("stage " + options_.name);
}

std::vector<MemoryRange> VtaStage::ranges(std::span<const std::uint64_t> bases) const {
  std::vector<MemoryRange> ranges;
  for (const Region& region : program_.regions()) {
    ranges.push_back({.address = bases[ranges.size()],
                      .bytes = region.bytes,
                      .access = region.kind == RegionKind::kConst   ? Access::kConstant
                                : region.kind == RegionKind::kInput ? Access::kRead
                                                                    : Access::kReadWrite});
  }
  return ranges;
}

Submission VtaStage::submission(const Slot& slot) const {
  return {.address = slot.instructions.device_address(),
          .count = program_.count(),
          .time_limit = options_.time_limit,
          // Stages take turns, and an earlier run may use its whole time limit.
          .turn_deadline = Clock::now() + kTurns * options_.time_limit,
          .layers = program_.layers(),
          .modelled_time = program_.modelled_time(),
          .ranges = slot.ranges};
}

Status VtaStage::run(std::size_t slot) {
  if (slot >= slots_.size() || slots_[slot].instructions.data() == nullptr) {
    return {Code::kInvalidArgument,
            "stage " + options_.name + ": slot " + std::to_string(slot) + " was never bound"};
  }
  const Slot& bound = slots_[slot];
  DeviceMemory& memory = device_.memory();
  for (const BufferView& view : bound.inputs) memory.flush(view);
  Status status = memory.maintained();
  if (status.ok()) {
    std::chrono::nanoseconds waited{0};
    std::chrono::nanoseconds ran{0};
    Submission submitted = submission(bound);
    submitted.waited = &waited;
    submitted.ran = &ran;
    status = device_.run(submitted);
    device_wait_ns_.fetch_add(waited.count(), std::memory_order_relaxed);
    device_run_ns_.fetch_add(ran.count(), std::memory_order_relaxed);
  }
  if (status.ok()) {
    for (const BufferView& view : bound.outputs) memory.invalidate(view);
    status = memory.maintained();
  }
  return status.ok() ? status : status.with_context("stage " + options_.name);
}

}  // namespace edgepipe
