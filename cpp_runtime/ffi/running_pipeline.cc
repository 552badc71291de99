#include "running_pipeline.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/board_readings.h"
#include "base/mapped_file.h"

namespace edgepipe::binding {
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

/// The parameters of a Relax stage as in pipeline.json, wherever it runs.
Json parameters_of(const Json& stages, const Json& name) {
  for (const Json& stage : stages) {
    if (stage.at("name") == name)
      return stage.value("stage", stage).value("parameters", Json::array());
  }
  return Json::array();
}

}  // namespace

Result<std::unique_ptr<RunningPipeline>> RunningPipeline::open(const std::filesystem::path& path,
                                                               const Session::Options& options,
                                                               const Functions& functions) {
  std::unique_ptr<RunningPipeline> running(new RunningPipeline());
  std::error_code error;
  Status status = std::filesystem::exists(path / kDescriptionFile, error)
                      ? running->open_exported(path, options, functions)
                      : running->open_bundle(path, options);
  if (!status.ok()) return status;
  {
    MutexLock lock(running->mutex_);
    running->settings_.resize(running->pipeline_->graph().inputs.size());
  }
  running->live_ = LiveStatistics::start(
      [opened = running.get(), board = std::make_shared<BoardReadings>()] {
        return live_figures(opened->name_, opened->device_, opened->pipeline_->statistics(),
                            board->read());
      },
      {});
  return running;
}

Status RunningPipeline::open_bundle(const std::filesystem::path& path,
                                    const Session::Options& options) {
  Result<std::unique_ptr<Session>> session = Session::open(path, options);
  if (!session.ok()) return session.status();
  bundle_ = *std::move(session);
  leaves_python_ = options.results.leaves_python;
  pipeline_ = &bundle_->pipeline();
  name_ = bundle_->bundle().manifest().name;
  device_ = bundle_->device_name();
  return {};
}

Status RunningPipeline::open_exported(const std::filesystem::path& folder,
                                      const Session::Options& options, const Functions& functions) {
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
    if (const auto function = functions.find(stage.name); function != functions.end()) {
      HostedFunction& here = hosted_.emplace(stage.name, function->second).first->second;
      hosted.push_back({.name = stage.name, .function = HostedFunction::call, .context = &here});
    } else if (stage.kind == "tvm") {
      std::vector<TensorSpec> inputs;
      for (const std::size_t tensor : stage.reads) inputs.push_back(description->tensors[tensor]);
      auto opened = TvmStage::open(folder, json["stages"][index], std::move(inputs));
      if (!opened.ok()) return opened.status();
      hosted.push_back({.name = stage.name, .function = TvmStage::call, .context = opened->get()});
      tvm_stages_.emplace(stage.name, *std::move(opened));
    }
  }
  if (Status status = read_names(json); !status.ok()) return status.with_context(file.string());
  Result<std::unique_ptr<PipelineSession>> session =
      PipelineSession::open(folder, *std::move(description), hosted, options);
  if (!session.ok()) return session.status();
  exported_ = *std::move(session);
  for (auto& [name, function] : hosted_) function.set_memory(exported_->memory());
  pipeline_ = &exported_->pipeline();
  name_ = exported_->description().name;
  device_ = exported_->device_name();
  return {};
}

Status RunningPipeline::read_names(const Json& description) {
  try {
    for (const Json& stage : description.at("stages")) {
      const Json names = stage.value("input_names", Json::array());
      input_names_[stage.at("name")] = names.get<std::vector<std::string>>();
    }
    const Json groups = description.value("parameter_groups", Json::object());
    for (const auto& [group, stage] : groups.items()) {
      groups_[group] = {.stage = stage, .parameters = parameters_of(description["stages"], stage)};
    }
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, std::string("input_names or parameter_groups: ") + error.what());
  }
  return {};
}

std::string RunningPipeline::describe() const {
  const Graph& graph = pipeline_->graph();
  Json stages = Json::array();
  for (const StageNode& node : graph.nodes) stages.push_back(node.stage->name());
  Json groups = Json::object();
  for (const auto& [name, group] : groups_) {
    groups[name] = {{"stage", group.stage}, {"parameters", group.parameters}};
  }
  return Json{{"name", name_},
              {"device", device_},
              {"input_map", input_map()},
              {"slots", pipeline_->slots()},
              {"stages", std::move(stages)},
              {"inputs", describe_tensors(graph, graph.inputs)},
              {"outputs", describe_tensors(graph, graph.outputs)},
              {"labels", bundle_ ? bundle_->postprocessor().labels() : std::vector<std::string>()},
              {"decoder", python_decoder()},
              {"parameter_groups", std::move(groups)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json RunningPipeline::python_decoder() const {
  if (!leaves_python_ || !bundle_) return nullptr;
  const Manifest& manifest = bundle_->bundle().manifest();
  const Postprocess& wanted = manifest.postprocess;
  if (wanted.kind != "own" || wanted.function.empty()) return nullptr;
  const Result<std::span<const std::byte>> source =
      bundle_->bundle().content(wanted.function_file());
  if (!source.ok()) return nullptr;  // a manifest that was read names no missing file
  Json outputs = Json::array();
  for (const std::size_t tensor : wanted.outputs) outputs.push_back(manifest.tensors[tensor].name);
  return {{"function", wanted.function},
          {"source", std::string(reinterpret_cast<const char*>(source->data()), source->size())},
          {"outputs", std::move(outputs)},
          {"gives", wanted.gives},
          {"most", wanted.most},
          {"points", wanted.points}};
}

Json RunningPipeline::input_map() const {
  const Graph& graph = pipeline_->graph();
  Json map = Json::object();
  for (const std::size_t input : graph.inputs) {
    Json& readers = map[graph.tensors[input].name] = Json::array();
    for (const StageNode& node : graph.nodes) {
      const auto names = input_names_.find(std::string(node.stage->name()));
      for (std::size_t index = 0; index < node.reads.size(); ++index) {
        if (node.reads[index] != input) continue;
        const bool named = names != input_names_.end() && index < names->second.size();
        readers.push_back(
            {node.stage->name(), named ? names->second[index] : graph.tensors[input].name});
      }
    }
  }
  return map;
}

Result<std::size_t> RunningPipeline::input_index(const std::string& name) const {
  const Graph& graph = pipeline_->graph();
  std::string known;
  for (std::size_t index = 0; index < graph.inputs.size(); ++index) {
    const std::string& found = graph.tensors[graph.inputs[index]].name;
    if (found == name) return index;
    known += (known.empty() ? "" : ", ") + found;
  }
  return Status(Code::kNotFound, "found input '" + name + "', expected one of " + known);
}

Status RunningPipeline::set_input(const std::string& name, Bytes content) {
  Result<std::size_t> index = input_index(name);
  if (!index.ok()) return index.status();
  const TensorSpec& tensor = pipeline_->graph().tensors[pipeline_->graph().inputs[*index]];
  if (content.size() != tensor.bytes) {
    return Status(Code::kInvalidArgument, "input '" + name + "' has " +
                                              std::to_string(content.size()) + " bytes, expected " +
                                              std::to_string(tensor.bytes));
  }
  auto copy = std::make_shared<const std::string>(reinterpret_cast<const char*>(content.data()),
                                                  content.size());
  MutexLock lock(mutex_);
  Setting& setting = settings_[*index];
  if (setting.waiting.size() == kWaitingValues) {
    return Status(Code::kDeadline, "input '" + name + "': " + std::to_string(kWaitingValues) +
                                       " values wait for a run, which takes one of them");
  }
  setting.waiting.push_back(std::move(copy));
  return {};
}

Result<std::string> RunningPipeline::get_input(const std::string& name) const {
  Result<std::size_t> index = input_index(name);
  if (!index.ok()) return index.status();
  MutexLock lock(mutex_);
  const Setting& setting = settings_[*index];
  const Value& newest = setting.waiting.empty() ? setting.last : setting.waiting.back();
  if (!newest) return Status(Code::kNotFound, "input '" + name + "' has not been set");
  return *newest;
}

Status RunningPipeline::set_parameter(const std::string& group, const std::string& parameter,
                                      Bytes content) {
  const auto found = groups_.find(group);
  const auto stage =
      found == groups_.end() ? tvm_stages_.end() : tvm_stages_.find(found->second.stage);
  if (stage == tvm_stages_.end()) {
    std::string known;
    for (const auto& [name, unused] : groups_) known += (known.empty() ? "" : ", ") + name;
    return Status(Code::kNotFound, "found parameter group '" + group + "', expected one of " +
                                       (known.empty() ? "none" : known));
  }
  return stage->second->replace(parameter, content, submitted_);
}

Result<std::uint64_t> RunningPipeline::run(std::span<const std::optional<Bytes>> inputs) {
  const Graph& graph = pipeline_->graph();
  if (inputs.size() > graph.inputs.size()) {
    return Status(Code::kInvalidArgument, "a frame has " + std::to_string(inputs.size()) +
                                              " inputs, expected " +
                                              std::to_string(graph.inputs.size()));
  }
  std::vector<Bytes> contents(graph.inputs.size());
  std::vector<Value> set;  // held while they are copied
  std::vector<std::size_t> taken;
  for (std::size_t index = 0; index < contents.size(); ++index) {
    if (index < inputs.size() && inputs[index]) {
      contents[index] = *inputs[index];
      continue;
    }
    MutexLock lock(mutex_);
    const Setting& setting = settings_[index];
    const Value& value = setting.waiting.empty() ? setting.last : setting.waiting.front();
    if (!value) {
      return Status(Code::kInvalidArgument,
                    "input '" + graph.tensors[graph.inputs[index]].name + "' has not been set");
    }
    contents[index] = std::as_bytes(std::span(*value));
    if (!setting.waiting.empty()) taken.push_back(index);
    set.push_back(value);
  }
  Result<std::uint64_t> frame = pipeline_->submit(contents, Clock::now());
  if (!frame.ok()) return frame;
  submitted_ = *frame + 1;
  for (const std::size_t index : taken) {
    MutexLock lock(mutex_);
    Setting& setting = settings_[index];
    setting.last = std::move(setting.waiting.front());
    setting.waiting.pop_front();
  }
  return frame;
}

Result<RunningPipeline::Taken> RunningPipeline::take() {
  if (!undecoded_.ok()) return undecoded_;
  Result<OutputFrame> frame = pipeline_->next(Clock::now());
  if (!frame.ok()) return frame.status();
  if (!bundle_) return Taken{*std::move(frame), {}};
  Result<FrameResult> result = bundle_->postprocessor().run(*frame);
  if (!result.ok()) return undecoded_ = result.status();
  return Taken{*std::move(frame), *result};
}

Status RunningPipeline::restart(Clock::time_point deadline) {
  Status status = pipeline_->restart(deadline);
  if (!status.ok()) return status;
  for (const auto& [name, stage] : tvm_stages_) stage->restart();
  submitted_ = 0;
  undecoded_ = {};
  return {};
}

}  // namespace edgepipe::binding
