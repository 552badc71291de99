#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/json_reader.h"
#include "edgepipe/pipeline_session.h"

namespace edgepipe {
namespace {

/// A path that cannot leave the folder.
std::string inner_path(JsonReader& reader, const char* key) {
  std::string text = reader.text(key);
  const std::filesystem::path path(text);
  const bool leaves = std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
  if (text.empty() || path.is_absolute() || leaves) {
    reader.fail(key, "'" + text + "' is not a path inside the folder");
  }
  return text;
}

std::size_t tensor_index(JsonReader& reader, const char* key, const std::string& name,
                         const std::vector<TensorSpec>& tensors) {
  const auto found = std::ranges::find(tensors, name, &TensorSpec::name);
  if (found == tensors.end()) reader.fail(key, "'" + name + "' is not in tensors");
  return static_cast<std::size_t>(found - tensors.begin());
}

std::vector<std::size_t> tensor_indices(JsonReader& reader, const char* key,
                                        const std::vector<TensorSpec>& tensors) {
  std::vector<std::size_t> indices;
  for (const std::string& name : reader.texts(key)) {
    indices.push_back(tensor_index(reader, key, name, tensors));
  }
  return indices;
}

void read_tensors(JsonReader& reader, std::vector<TensorSpec>& tensors) {
  reader.objects("tensors", [&](JsonReader& item) {
    TensorSpec tensor;
    tensor.name = item.text("name");
    tensor.dtype = item.text("dtype");
    tensor.shape = item.integers("shape");
    tensor.layout = item.text("layout");
    tensor.bytes = item.size("bytes");
    if (tensor.bytes == 0) item.fail("bytes", "is 0");
    if (std::ranges::find(tensors, tensor.name, &TensorSpec::name) != tensors.end()) {
      item.fail("name", "'" + tensor.name + "' comes twice");
    }
    tensors.push_back(std::move(tensor));
  });
}

void read_stages(JsonReader& reader, PipelineDescription& description) {
  reader.objects("stages", [&](JsonReader& item) {
    StageDescription stage;
    stage.name = item.text("name");
    stage.kind = item.text("kind");
    stage.reads = tensor_indices(item, "inputs", description.tensors);
    stage.writes = tensor_indices(item, "outputs", description.tensors);
    for (const std::int64_t core : item.integers("cores")) {
      if (core < 0 || core > 1023) {
        item.fail("cores", "found " + std::to_string(core) + ", expected 0 to 1023");
      }
      stage.cores.push_back(static_cast<int>(core));
    }
    if (stage.kind == "arm") {
      stage.path = inner_path(item, "folder");
    } else if (stage.kind == "bundle") {
      stage.path = inner_path(item, "bundle");
      stage.symbol = item.text("stage");
    } else if (stage.kind == "library") {
      stage.path = inner_path(item, "library");
      stage.symbol = item.text("symbol");
    }
    description.stages.push_back(std::move(stage));
  });
}

}  // namespace

Result<PipelineDescription> PipelineDescription::parse(std::span<const std::byte> text,
                                                       const std::string& where) {
  Result<nlohmann::json> object = parse_json_object(text, where);
  if (!object.ok()) return object.status().advised("export the pipeline again");
  JsonReader reader(*object, where);
  const std::uint64_t format = reader.whole("format");
  if (reader.status().ok() && format != kFormat) {
    return Status(Code::kUnsupported,
                  where + ": format " + std::to_string(format) + ", this edgepipe reads format " +
                      std::to_string(kFormat),
                  "export the pipeline again with this version of edgepipe");
  }
  PipelineDescription description;
  description.name = reader.text("name");
  read_tensors(reader, description.tensors);
  description.inputs = tensor_indices(reader, "inputs", description.tensors);
  description.outputs = tensor_indices(reader, "outputs", description.tensors);
  read_stages(reader, description);
  if (!reader.status().ok()) return reader.status().advised("export the pipeline again");
  return description;
}

}  // namespace edgepipe
