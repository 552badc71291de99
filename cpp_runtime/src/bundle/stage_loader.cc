#include "bundle/stage_loader.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "stage/arm_stage.h"
#include "stage/timed_stage.h"
#include "stage/vta_stage.h"

namespace edgepipe {
namespace {

std::vector<std::string> names_of(const Manifest& manifest,
                                  const std::vector<std::size_t>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const std::size_t tensor : tensors) names.push_back(manifest.tensors[tensor].name);
  return names;
}

/// Checks that a stage's own file and the manifest agree on the order and sizes of its tensors.
Status check_borders(const char* role, std::span<const ArmPlan::Border> borders,
                     const std::vector<std::size_t>& tensors, const Manifest& manifest) {
  std::string found;
  std::string expected;
  for (const ArmPlan::Border& border : borders) {
    found += " " + border.name + ":" + std::to_string(border.bytes);
  }
  for (const std::size_t tensor : tensors) {
    expected +=
        " " + manifest.tensors[tensor].name + ":" + std::to_string(manifest.tensors[tensor].bytes);
  }
  if (found == expected) return {};
  return Status(Code::kCorrupt, std::string("plan.json: its ") + role + " (name:bytes) are" +
                                    found + ", the manifest says" + expected);
}

Result<std::unique_ptr<Stage>> load_arm(const Bundle& bundle, const StageSpec& spec,
                                        const std::string& folder) {
  const std::string plan_path = folder + "/plan.json";
  Result<std::span<const std::byte>> text = bundle.content(plan_path);
  if (!text.ok()) return text.status();
  Result<ArmPlan> plan = ArmPlan::parse(*text, plan_path);
  if (!plan.ok()) return plan.status();
  const Manifest& manifest = bundle.manifest();
  Status status = check_borders("inputs", plan->inputs, spec.reads, manifest);
  if (status.ok()) status = check_borders("outputs", plan->outputs, spec.writes, manifest);
  if (!status.ok()) return status;
  Result<std::span<const std::byte>> weights = bundle.content(folder + "/weights.bin");
  if (!weights.ok()) return weights.status();
  Result<ArmPlan::Variant> variant = plan->runnable_variant();
  if (!variant.ok()) return variant.status();
  Result<std::span<const std::byte>> kernels = bundle.content(folder + "/" + variant->kernels);
  if (!kernels.ok()) return kernels.status();
  Result<std::unique_ptr<ArmStage>> stage = ArmStage::create(
      {.name = spec.name, .plan = std::move(*plan), .weights = *weights, .kernels = *kernels});
  if (!stage.ok()) return stage.status();
  return std::unique_ptr<Stage>(std::move(*stage));
}

}  // namespace

Result<StageNode> StageLoader::load(const Bundle& bundle, const StageSpec& spec) {
  StageNode node{.stage = nullptr, .reads = spec.reads, .writes = spec.writes};
  Result<std::unique_ptr<Stage>> stage =
      spec.kind == "vta" ? load_vta(bundle, spec) : load_arm(bundle, spec, spec.folder);
  if (!stage.ok()) return stage.status().with_context(spec.folder);
  node.stage = *std::move(stage);
  if (devices_.board_time && spec.modelled_time.count() > 0) {
    node.stage = std::make_unique<TimedStage>(std::move(node.stage), spec.modelled_time);
  }
  if (!spec.fallback.empty()) {
    Result<std::unique_ptr<Stage>> fallback = load_arm(bundle, spec, spec.fallback);
    if (!fallback.ok()) return fallback.status().with_context(spec.fallback);
    node.fallback = *std::move(fallback);
  }
  return node;
}

Result<std::unique_ptr<Stage>> StageLoader::load_vta(const Bundle& bundle, const StageSpec& spec) {
  if (devices_.devices.empty()) {
    return Status(Code::kInvalidArgument, "a VTA stage needs a device, but none was given");
  }
  constexpr std::array<const char*, 4> kNames = {"/program.json", "/insns.bin", "/relocs.bin",
                                                 "/consts.bin"};
  std::array<std::span<const std::byte>, kNames.size()> contents;
  for (std::size_t index = 0; index < kNames.size(); ++index) {
    Result<std::span<const std::byte>> content = bundle.content(spec.folder + kNames[index]);
    if (!content.ok()) return content.status();
    contents[index] = *content;
  }
  Result<Program> program = Program::parse({.description = contents[0],
                                            .instructions = contents[1],
                                            .relocations = contents[2],
                                            .constants = contents[3]});
  if (!program.ok()) return program.status();
  const std::chrono::milliseconds time_limit = devices_.limit_for(program->modelled_time());
  Device& device = *devices_.devices[vta_stages_++ % devices_.devices.size()];
  Result<std::unique_ptr<VtaStage>> stage =
      VtaStage::create(device, std::move(*program),
                       {.name = spec.name,
                        .inputs = names_of(bundle.manifest(), spec.reads),
                        .outputs = names_of(bundle.manifest(), spec.writes),
                        .time_limit = time_limit});
  if (!stage.ok()) return stage.status();
  return std::unique_ptr<Stage>(std::move(*stage));
}

}  // namespace edgepipe
