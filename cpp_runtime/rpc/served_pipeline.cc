#include "served_pipeline.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "edgepipe/mapped_file.h"

namespace edgepipe::rpc {
namespace {

using Json = nlohmann::json;

constexpr const char* kDescriptionFile = "pipeline.json";

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

void append(std::string& text, std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) {
    text.push_back(static_cast<char>((number >> shift) & 0xFF));
  }
}

}  // namespace

Result<std::unique_ptr<ServedPipeline>> ServedPipeline::open(const std::filesystem::path& path,
                                                             DeviceChoice device,
                                                             std::size_t slots) {
  Session::Options options;
  options.device = std::move(device);
  options.pipeline.slots = slots;
  options.pipeline.pinning = Pipeline::Pinning::kPreferred;
  std::unique_ptr<ServedPipeline> served(new ServedPipeline());
  std::error_code error;
  Status status = std::filesystem::exists(path / kDescriptionFile, error)
                      ? served->open_exported(path, options)
                      : served->open_bundle(path, options);
  if (!status.ok()) return status;
  return served;
}

Status ServedPipeline::open_bundle(const std::filesystem::path& path,
                                   const Session::Options& options) {
  Result<std::unique_ptr<Session>> session = Session::open(path, options);
  if (!session.ok()) return session.status();
  bundle_ = *std::move(session);
  pipeline_ = &bundle_->pipeline();
  name_ = bundle_->bundle().manifest().name;
  device_ = bundle_->device_name();
  return {};
}

Status ServedPipeline::open_exported(const std::filesystem::path& folder,
                                     const Session::Options& options) {
  const std::filesystem::path file = folder / kDescriptionFile;
  Result<MappedFile> text = MappedFile::open(file);
  if (!text.ok()) return text.status();
  Result<PipelineDescription> description =
      PipelineDescription::parse(text->bytes(), file.string());
  if (!description.ok()) return description.status();
  const std::span<const std::byte> bytes = text->bytes();
  const Json json = Json::parse(reinterpret_cast<const char*>(bytes.data()),
                                reinterpret_cast<const char*>(bytes.data()) + bytes.size());

  std::vector<PipelineSession::HostedStage> hosted;
  for (std::size_t index = 0; index < description->stages.size(); ++index) {
    const StageDescription& stage = description->stages[index];
    if (stage.kind != "tvm") continue;
    std::vector<TensorSpec> inputs;
    for (const std::size_t tensor : stage.reads) inputs.push_back(description->tensors[tensor]);
    auto opened = TvmStage::open(folder, json["stages"][index], std::move(inputs));
    if (!opened.ok()) return opened.status();
    hosted.push_back({.name = stage.name, .function = TvmStage::call, .context = opened->get()});
    tvm_stages_.emplace(stage.name, *std::move(opened));
  }
  groups_ = json.value("parameter_groups", groups_);
  Result<std::unique_ptr<PipelineSession>> session = PipelineSession::open(folder, hosted, options);
  if (!session.ok()) return session.status();
  exported_ = *std::move(session);
  pipeline_ = &exported_->pipeline();
  name_ = exported_->description().name;
  return {};
}

std::string ServedPipeline::describe() const {
  const Graph& graph = pipeline_->graph();
  Json stages = Json::array();
  for (const StageNode& node : graph.nodes) stages.push_back(node.stage->name());
  return Json{{"name", name_},
              {"device", device_},
              {"slots", pipeline_->slots()},
              {"stages", std::move(stages)},
              {"inputs", describe_tensors(graph, graph.inputs)},
              {"outputs", describe_tensors(graph, graph.outputs)},
              {"parameter_groups", groups_}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status ServedPipeline::set_input(const std::string& name, std::string_view content) {
  const Graph& graph = pipeline_->graph();
  std::string known;
  for (const std::size_t index : graph.inputs) {
    const TensorSpec& tensor = graph.tensors[index];
    known += (known.empty() ? "" : ", ") + tensor.name;
    if (tensor.name != name) continue;
    if (content.size() != tensor.bytes) {
      return Status(Code::kInvalidArgument, "input '" + name + "' has " +
                                                std::to_string(content.size()) +
                                                " bytes, expected " + std::to_string(tensor.bytes));
    }
    values_[name] = content;
    return {};
  }
  return Status(Code::kNotFound, "found input '" + name + "', expected one of " + known);
}

Result<std::string> ServedPipeline::get_input(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    return Status(Code::kNotFound, "input '" + name + "' has not been set");
  }
  return found->second;
}

Status ServedPipeline::set_parameter(const std::string& group, const std::string& parameter,
                                     std::string_view content) {
  const auto found = groups_.find(group);
  const auto stage = found == groups_.end() ? tvm_stages_.end() : tvm_stages_.find(found->second);
  if (stage == tvm_stages_.end()) {
    std::string known;
    for (const auto& [name, unused] : groups_) known += (known.empty() ? "" : ", ") + name;
    return Status(Code::kNotFound, "found parameter group '" + group + "', expected one of " +
                                       (known.empty() ? "none" : known));
  }
  return stage->second->replace(parameter, content, submitted_);
}

Result<std::uint64_t> ServedPipeline::run(Clock::time_point deadline) {
  const Graph& graph = pipeline_->graph();
  std::vector<std::span<const std::byte>> inputs;
  for (const std::size_t index : graph.inputs) {
    const auto value = values_.find(graph.tensors[index].name);
    if (value == values_.end()) {
      return Status(Code::kInvalidArgument,
                    "input '" + graph.tensors[index].name + "' has not been set");
    }
    inputs.push_back(std::as_bytes(std::span(value->second)));
  }
  Result<std::uint64_t> frame = pipeline_->submit(inputs, deadline);
  if (frame.ok()) submitted_ = *frame + 1;
  return frame;
}

Result<std::string> ServedPipeline::get_output(Clock::time_point deadline) {
  Result<OutputFrame> frame = pipeline_->next(deadline);
  if (!frame.ok()) return frame.status();
  std::string result;
  append(result, frame->id());
  append(result, static_cast<std::uint64_t>(frame->latency().count()));
  for (std::size_t index = 0; index < pipeline_->graph().outputs.size(); ++index) {
    const std::span<const std::byte> content = frame->output(index);
    result.append(reinterpret_cast<const char*>(content.data()), content.size());
  }
  return result;
}

Status ServedPipeline::restart(Clock::time_point deadline) {
  Status status = pipeline_->restart(deadline);
  if (!status.ok()) return status;
  for (const auto& [name, stage] : tvm_stages_) stage->restart();
  submitted_ = 0;
  return {};
}

}  // namespace edgepipe::rpc
