#include "edgepipe/pipeline_session.h"

#include <algorithm>
#include <utility>

#include "bundle/stage_loader.h"
#include "edgepipe/stage.h"
#include "stage/arm_stage.h"

namespace edgepipe {
namespace {

constexpr const char* kExport = "export the pipeline again";

/// Checks that the tensors of a bundle's stage and of the description have the same sizes, in
/// order.
Status check_sizes(const char* role, const std::vector<std::size_t>& found,
                   const std::vector<TensorSpec>& found_tensors,
                   const std::vector<std::size_t>& expected,
                   const std::vector<TensorSpec>& expected_tensors) {
  const auto bytes = [](const std::vector<std::size_t>& indices,
                        const std::vector<TensorSpec>& tensors) {
    std::string text;
    for (const std::size_t index : indices) text += " " + std::to_string(tensors[index].bytes);
    return text;
  };
  const std::string described = bytes(expected, expected_tensors);
  const std::string loaded = bytes(found, found_tensors);
  if (described == loaded) return {};
  return Status(
      Code::kCorrupt,
      std::string("its ") + role + " have" + loaded + " bytes, pipeline.json says" + described,
      kExport);
}

template <typename T>
Result<StageNode> as_node(Result<std::unique_ptr<T>> stage) {
  if (!stage.ok()) return stage.status();
  return StageNode{.stage = *std::move(stage), .reads = {}, .writes = {}};
}

}  // namespace

Result<std::unique_ptr<PipelineSession>> PipelineSession::open(
    const std::filesystem::path& folder, PipelineDescription description,
    const std::vector<HostedStage>& hosted, const Session::Options& options) {
  std::unique_ptr<PipelineSession> session(new PipelineSession(std::move(description)));
  const PipelineDescription& wanted = session->description_;
  if (Status status = session->open_bundles(folder, options.policy); !status.ok()) return status;
  if (Status status = session->open_hardware(options); !status.ok()) return status;
  Graph graph{
      .tensors = wanted.tensors, .inputs = wanted.inputs, .outputs = wanted.outputs, .nodes = {}};
  Pipeline::Options pipeline_options = options.pipeline;
  pipeline_options.threads.clear();
  const DeviceSet devices = session->hardware_.device_set(options.device_time_limit);
  StageLoader loader(devices);
  for (const StageDescription& stage : wanted.stages) {
    Result<StageNode> node = session->make_stage(stage, folder, hosted, loader);
    if (!node.ok()) return node.status().with_context("stage '" + stage.name + "'");
    node->reads = stage.reads;
    node->writes = stage.writes;
    graph.nodes.push_back(*std::move(node));
    pipeline_options.threads.push_back(
        {.cores = stage.cores, .threads = std::max<std::size_t>(stage.cores.size(), 1)});
  }
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(std::move(graph), session->hardware_.memory(), pipeline_options);
  if (!pipeline.ok()) return pipeline.status();
  session->pipeline_ = *std::move(pipeline);
  return session;
}

Status PipelineSession::open_bundles(const std::filesystem::path& folder,
                                     const std::filesystem::path& policy) {
  for (const StageDescription& stage : description_.stages) {
    if (stage.kind != "bundle") continue;
    if (std::ranges::find(bundles_, stage.path, &OpenBundle::path) != bundles_.end()) continue;
    Result<std::unique_ptr<Bundle>> bundle = Bundle::open(folder / stage.path, policy);
    if (!bundle.ok()) return bundle.status().with_context("stage '" + stage.name + "'");
    bundles_.push_back({.path = stage.path, .bundle = *std::move(bundle)});
  }
  return {};
}

/// All VTA stages share the devices and their memory, which also contains the slots.
Status PipelineSession::open_hardware(const Session::Options& options) {
  const Bundle* user = nullptr;
  for (const OpenBundle& entry : bundles_) {
    if (!entry.bundle->needs_device()) continue;
    if (user != nullptr && entry.bundle->manifest().accelerator != user->manifest().accelerator) {
      return Status(Code::kUnsupported,
                    "bundle '" + entry.bundle->manifest().name +
                        "' is for another accelerator than '" + user->manifest().name + "'",
                    "build both for one board: the stages of a pipeline share the accelerator");
    }
    user = entry.bundle.get();
  }
  if (user != nullptr) {
    Result<Session::Hardware> hardware = Session::open_hardware(*user, options);
    if (!hardware.ok()) return hardware.status();
    hardware_ = *std::move(hardware);
    return {};
  }
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = options.memory_bytes});
  if (!memory.ok()) return memory.status();
  hardware_.own_memory = *std::move(memory);
  return {};
}

Result<StageNode> PipelineSession::make_stage(const StageDescription& stage,
                                              const std::filesystem::path& folder,
                                              const std::vector<HostedStage>& hosted,
                                              StageLoader& loader) const {
  if (stage.kind == "arm") {
    return as_node(ArmStage::open((folder / stage.path).string(), stage.name));
  }
  if (stage.kind == "bundle") return make_bundle_stage(stage, loader);
  if (stage.kind == "library") {
    return as_node(FunctionStage::open(stage.name, folder / stage.path, stage.symbol));
  }
  const auto host = std::ranges::find(hosted, stage.name, &HostedStage::name);
  if (host == hosted.end()) {
    return Status(
        Code::kUnsupported,
        "kind '" + stage.kind + "' needs a function from the host program, which supplied none",
        "load the pipeline with edgepipe for Python, which runs such stages");
  }
  return as_node(Result(FunctionStage::create(stage.name, host->function, host->context)));
}

Result<StageNode> PipelineSession::make_bundle_stage(const StageDescription& stage,
                                                     StageLoader& loader) const {
  const Bundle& bundle = *std::ranges::find(bundles_, stage.path, &OpenBundle::path)->bundle;
  const Manifest& manifest = bundle.manifest();
  const auto spec = std::ranges::find(manifest.stages, stage.symbol, &StageSpec::name);
  if (spec == manifest.stages.end()) {
    return Status(Code::kNotFound,
                  "bundle '" + manifest.name + "' has no stage '" + stage.symbol + "'", kExport);
  }
  const std::vector<TensorSpec>& tensors = description_.tensors;
  Status status = check_sizes("inputs", spec->reads, manifest.tensors, stage.reads, tensors);
  if (status.ok()) {
    status = check_sizes("outputs", spec->writes, manifest.tensors, stage.writes, tensors);
  }
  if (!status.ok()) return status;
  StageSpec named = *spec;  // a pipeline may contain the same stage twice
  named.name = stage.name;
  return loader.load(bundle, named);
}

}  // namespace edgepipe
