#include "stage_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/thread.h"
#include "session/golden.h"
#include "stage/arm_stage.h"

namespace edgepipe::binding {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kSlot = 0;
constexpr std::size_t kStageArenaBytes = std::size_t{1} << 29;

std::vector<std::string> names_of(const Graph& graph, const std::vector<std::size_t>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const std::size_t tensor : tensors) names.push_back(graph.tensors[tensor].name);
  return names;
}

double microseconds(std::uint64_t value_ns) { return static_cast<double>(value_ns) / 1e3; }

}  // namespace

StageRunner::StageRunner(std::unique_ptr<Bundle> bundle, Session::Hardware hardware,
                         std::string name)
    : bundle_(std::move(bundle)), hardware_(std::move(hardware)), name_(std::move(name)) {}

Result<std::unique_ptr<StageRunner>> StageRunner::open_bundle(const std::filesystem::path& path,
                                                              DeviceChoice device) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return bundle.status();
  Session::Options options;
  options.device = std::move(device);
  Result<Session::Hardware> hardware = Session::open_hardware(**bundle, options);
  if (!hardware.ok()) return hardware.status();
  Result<Graph> graph = (*bundle)->make_graph(hardware->device_set(options.device_time_limit));
  if (!graph.ok()) return graph.status();
  std::string name = (*bundle)->manifest().name;
  std::unique_ptr<StageRunner> runner(
      new StageRunner(std::move(*bundle), std::move(*hardware), std::move(name)));
  Status status = runner->adopt(std::move(*graph));
  if (!status.ok()) return status;
  return runner;
}

Result<std::unique_ptr<StageRunner>> StageRunner::open_arm_stage(
    const std::filesystem::path& folder) {
  Result<std::unique_ptr<ArmStage>> stage = ArmStage::open(folder);
  if (!stage.ok()) return stage.status();
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = kStageArenaBytes});
  if (!memory.ok()) return memory.status();
  Graph graph;
  StageNode node;
  const auto add = [&](const ArmPlan::Border& border, std::vector<std::size_t>& indices) {
    indices.push_back(graph.tensors.size());
    TensorSpec tensor;
    tensor.name = border.name;
    tensor.bytes = border.bytes;
    graph.tensors.push_back(std::move(tensor));
  };
  for (const ArmPlan::Border& border : (*stage)->inputs()) add(border, node.reads);
  for (const ArmPlan::Border& border : (*stage)->outputs()) add(border, node.writes);
  graph.inputs = node.reads;
  graph.outputs = node.writes;
  std::string name((*stage)->name());
  node.stage = std::move(*stage);
  graph.nodes.push_back(std::move(node));
  Session::Hardware hardware;
  hardware.own_memory = std::move(*memory);
  std::unique_ptr<StageRunner> runner(
      new StageRunner(nullptr, std::move(hardware), std::move(name)));
  Status status = runner->adopt(std::move(graph));
  if (!status.ok()) return status;
  return runner;
}

Status StageRunner::adopt(Graph graph) {
  if (Status status = graph.validate(); !status.ok()) return status;
  graph_ = std::move(graph);
  DeviceMemory& memory = hardware_.memory();
  for (const TensorSpec& tensor : graph_.tensors) {
    Result<Buffer> buffer = memory.allocate(tensor.bytes);
    if (!buffer.ok()) return buffer.status().with_context("tensor '" + tensor.name + "'");
    buffers_.push_back(std::move(*buffer));
  }
  const auto views = [&](const std::vector<std::size_t>& tensors) {
    std::vector<BufferView> found;
    found.reserve(tensors.size());
    for (const std::size_t index : tensors) found.push_back(buffers_[index].view());
    return found;
  };
  for (const StageNode& node : graph_.nodes) {
    for (Stage* const stage : {node.stage.get(), node.fallback.get()}) {
      if (stage == nullptr) continue;
      Status status = stage->bind(kSlot, views(node.reads), views(node.writes));
      if (!status.ok()) return status.with_context(std::string(stage->name()));
    }
    stages_.emplace_back(stages_.size(), node, RecoveringStage::OnFault());
  }
  times_.resize(graph_.nodes.size());
  device_times_.resize(graph_.nodes.size());
  return {};
}

Status StageRunner::set_threads(std::size_t threads) {
  CoreTeam::Options options = {.name = name_, .threads = threads, .cores = Thread::cores()};
  if (options.cores.size() < threads) options.cores.clear();
  Result<std::unique_ptr<CoreTeam>> team = CoreTeam::start(options);
  if (!team.ok()) return team.status();
  team_ = *std::move(team);
  return {};
}

std::string StageRunner::describe() const {
  Json stages = Json::array();
  for (std::size_t index = 0; index < graph_.nodes.size(); ++index) {
    const StageNode& node = graph_.nodes[index];
    stages.push_back({{"name", node.stage->name()},
                      {"kind", bundle_ ? bundle_->manifest().stages[index].kind : "arm"},
                      {"inputs", names_of(graph_, node.reads)},
                      {"outputs", names_of(graph_, node.writes)}});
  }
  Json tensors = Json::array();
  for (const TensorSpec& tensor : graph_.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"layout", tensor.layout},
                       {"bytes", tensor.bytes}});
  }
  return Json{{"name", name_},
              {"device", hardware_.name},
              {"stages", std::move(stages)},
              {"tensors", std::move(tensors)},
              {"inputs", names_of(graph_, graph_.inputs)},
              {"outputs", names_of(graph_, graph_.outputs)}}
      .dump();
}

std::string StageRunner::take_statistics() {
  Json stages = Json::array();
  for (std::size_t index = 0; index < times_.size(); ++index) {
    const Histogram times = std::exchange(times_[index], Histogram());
    const Histogram device_times = std::exchange(device_times_[index], Histogram());
    const RecoveringStage::Record record = stages_[index].record();
    stages.push_back({{"name", graph_.nodes[index].stage->name()},
                      {"runs", times.count()},
                      {"min_us", microseconds(times.min())},
                      {"median_us", microseconds(times.percentile(0.5))},
                      {"p99_us", microseconds(times.percentile(0.99))},
                      {"max_us", microseconds(times.max())},
                      {"device_min_us", microseconds(device_times.min())},
                      {"retries", record.retries},
                      {"fallback_runs", record.fallback_frames},
                      {"fault", record.fault}});
  }
  return stages.dump();
}

Result<std::span<std::byte>> StageRunner::tensor(std::string_view name) {
  std::string known;
  for (std::size_t index = 0; index < graph_.tensors.size(); ++index) {
    if (graph_.tensors[index].name == name) {
      return std::span(buffers_[index].data(), graph_.tensors[index].bytes);
    }
    known += (known.empty() ? "" : ", ") + graph_.tensors[index].name;
  }
  return Status(Code::kNotFound,
                name_ + ": found tensor '" + std::string(name) + "', expected one of " + known);
}

Status StageRunner::load_golden() {
  if (!bundle_ || bundle_->manifest().golden_inputs.empty()) {
    return Status(Code::kNotFound, name_ + ": has no golden input");
  }
  for (const GoldenFile& file : bundle_->manifest().golden_inputs) {
    Result<std::span<const std::byte>> content = bundle_->golden(file);
    if (!content.ok()) return content.status();
    std::memcpy(buffers_[file.tensor].data(), content->data(), content->size());
  }
  return {};
}

Status StageRunner::check_golden() {
  if (!bundle_ || bundle_->manifest().golden_outputs.empty()) {
    return Status(Code::kNotFound, name_ + ": has no golden output");
  }
  for (const GoldenFile& file : bundle_->manifest().golden_outputs) {
    Result<std::span<const std::byte>> expected = bundle_->golden(file);
    if (!expected.ok()) return expected.status();
    const TensorSpec& tensor = graph_.tensors[file.tensor];
    Status status = compare_golden(
        tensor.name, std::span(buffers_[file.tensor].data(), tensor.bytes), *expected);
    if (!status.ok()) return status.with_context(name_);
  }
  return {};
}

Status StageRunner::run(std::size_t stage) {
  if (stage >= graph_.nodes.size()) {
    return Status(Code::kNotFound, name_ + ": found stage " + std::to_string(stage) +
                                       ", expected one below " +
                                       std::to_string(graph_.nodes.size()));
  }
  const CoreTeam::Membership member(team_.get());
  const std::chrono::nanoseconds earlier = graph_.nodes[stage].stage->device_run();
  const auto start = std::chrono::steady_clock::now();
  Status status = stages_[stage].run(kSlot, times_[stage].count());
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
  if (!status.ok()) return status.with_context(std::string(graph_.nodes[stage].stage->name()));
  times_[stage].add(static_cast<std::uint64_t>(time.count()));
  const std::chrono::nanoseconds device = graph_.nodes[stage].stage->device_run() - earlier;
  device_times_[stage].add(static_cast<std::uint64_t>(device.count()));
  return {};
}

Result<std::string> StageRunner::run_on(std::size_t stage,
                                        std::span<const std::span<const std::byte>> inputs) {
  const std::vector<std::size_t> none;
  const std::vector<std::size_t>& reads = stage < stages() ? graph_.nodes[stage].reads : none;
  if (stage < stages() && inputs.size() != reads.size()) {
    return Status(Code::kInvalidArgument, name_ + ": found " + std::to_string(inputs.size()) +
                                              " inputs, expected " + std::to_string(reads.size()));
  }
  for (std::size_t index = 0; index < reads.size(); ++index) {
    const TensorSpec& tensor = graph_.tensors[reads[index]];
    if (inputs[index].size() != tensor.bytes) {
      return Status(Code::kInvalidArgument, name_ + ": input '" + tensor.name + "' has " +
                                                std::to_string(inputs[index].size()) +
                                                " bytes, expected " + std::to_string(tensor.bytes));
    }
    std::memcpy(buffers_[reads[index]].data(), inputs[index].data(), inputs[index].size());
  }
  if (Status status = run(stage); !status.ok()) return status;
  std::string outputs;
  for (const std::size_t index : graph_.nodes[stage].writes) {
    outputs.append(reinterpret_cast<const char*>(buffers_[index].data()),
                   graph_.tensors[index].bytes);
  }
  return outputs;
}

Status StageRunner::run_all() {
  for (std::size_t stage = 0; stage < stages(); ++stage) {
    if (Status status = run(stage); !status.ok()) return status;
  }
  return {};
}

}  // namespace edgepipe::binding
