#include "edgepipe/manifest.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "base/json_reader.h"
#include "bundle/archive.h"
#include "bundle/checked_values.h"
#include "bundle/postprocess_keys.h"

namespace edgepipe {
namespace {

constexpr std::uint64_t kFormat = 2;
constexpr std::size_t kMostSlots = 1024;
constexpr std::uint64_t kMostModelledMicroseconds = 3'600'000'000;
constexpr std::array<std::pair<std::string_view, std::size_t>, 5> kDtypes = {
    {{"uint8", 1}, {"int8", 1}, {"int16", 2}, {"int32", 4}, {"float32", 4}}};
constexpr std::array<std::string_view, 5> kLayouts = {"nchw", "nhwc", "vta", "vta_2x2", "vta_4x4"};

/// How many pixels on each axis are one in a layout of the accelerator; 0 for other layouts.
std::int64_t folds_of(std::string_view layout) {
  if (layout == "vta") return 1;
  if (layout == "vta_2x2") return 2;
  return layout == "vta_4x4" ? 4 : 0;
}

std::string plain_path(JsonReader& reader, const char* key) {
  std::string path = reader.text(key);
  if (!is_plain_path(path)) {
    reader.fail(key, "'" + path + "' is not a plain relative path");
  }
  return path;
}

/// The bytes of the dense tensor; none for an invalid shape. The accelerator's layouts pad to
/// blocks.
std::optional<std::uint64_t> bytes_of(const TensorSpec& tensor, const Accelerator& accelerator) {
  std::vector<std::int64_t> shape = tensor.shape;
  if (const std::int64_t folds = folds_of(tensor.layout); folds > 0) {
    constexpr std::int64_t kMostChannels = std::int64_t{1} << 31;
    if (shape.size() != 4 || shape[0] != 1 || shape[1] < 1 || shape[1] > kMostChannels ||
        shape[2] % folds != 0 || shape[3] % folds != 0 || tensor.dtype != "int8") {
      return std::nullopt;
    }
    const std::int64_t block = accelerator.block_in;
    shape = {(shape[1] * folds * folds + block - 1) / block, shape[2] / folds, shape[3] / folds,
             accelerator.inp_bytes()};
  }
  const auto dtype = std::ranges::find(kDtypes, std::string_view(tensor.dtype),
                                       &std::pair<std::string_view, std::size_t>::first);
  std::uint64_t bytes = dtype->second;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > (std::int64_t{1} << 31) || bytes > (std::uint64_t{1} << 31)) {
      return std::nullopt;
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

void read_tensors(JsonReader& reader, Manifest& manifest) {
  reader.objects("tensors", [&](JsonReader& item) {
    TensorSpec tensor;
    tensor.name = item.text("name");
    tensor.dtype =
        one_of(item, "dtype",
               std::array<std::string_view, 5>{"uint8", "int8", "int16", "int32", "float32"});
    tensor.shape = item.integers("shape");
    tensor.layout = one_of(item, "layout", kLayouts);
    tensor.bytes = item.size("bytes");
    if (!item.status().ok()) return;
    if (manifest.tensor_index(tensor.name)) item.fail("name", "'" + tensor.name + "' comes twice");
    const std::optional<std::uint64_t> expected = bytes_of(tensor, manifest.accelerator);
    if (!expected) {
      item.fail("shape",
                "not a valid shape of a " + tensor.dtype + " tensor in layout " + tensor.layout);
    } else if (*expected != tensor.bytes) {
      item.fail("bytes", "found " + std::to_string(tensor.bytes) + ", the shape needs " +
                             std::to_string(*expected));
    }
    manifest.tensors.push_back(std::move(tensor));
  });
}

void read_stages(JsonReader& reader, Manifest& manifest) {
  reader.objects("stages", [&](JsonReader& item) {
    StageSpec stage;
    stage.name = item.text("name");
    stage.kind = one_of(item, "kind", std::array<std::string_view, 2>{"arm", "vta"});
    stage.folder = plain_path(item, "folder");
    if (item.has("fallback") && !item.text("fallback").empty()) {
      stage.fallback = plain_path(item, "fallback");
    }
    if (item.has("cores")) {
      for (const std::int64_t core : item.integers("cores")) {
        if (core < 0 || core > 1023) {
          item.fail("cores", "found " + std::to_string(core) + ", expected 0 to 1023");
        }
        stage.cores.push_back(static_cast<int>(core));
      }
    }
    if (item.has("threads")) {
      stage.threads = item.size("threads");
      const std::set<int> cores(stage.cores.begin(), stage.cores.end());
      const std::size_t most = std::max<std::size_t>(cores.size(), 1);
      if (stage.threads < 1 || stage.threads > most) {
        item.fail("threads", "found " + std::to_string(stage.threads) + ", expected 1 to " +
                                 std::to_string(most) + ", one on each core");
      }
    }
    if (item.has("realtime_priority")) {
      const std::uint64_t priority = item.whole("realtime_priority");
      if (priority > 99) {
        item.fail("realtime_priority", "found " + std::to_string(priority) + ", expected 0 to 99");
      }
      stage.realtime_priority = static_cast<int>(priority);
    }
    if (item.has("modelled_us")) {
      const std::uint64_t modelled = item.whole("modelled_us");
      if (modelled > kMostModelledMicroseconds) {
        item.fail("modelled_us", "found " + std::to_string(modelled) + ", expected 0 to " +
                                     std::to_string(kMostModelledMicroseconds) + ", an hour");
      }
      stage.modelled_time = std::chrono::microseconds(modelled);
    }
    stage.reads = tensors_of(item, "inputs", manifest);
    stage.writes = tensors_of(item, "outputs", manifest);
    manifest.stages.push_back(std::move(stage));
  });
  if (manifest.stages.empty()) reader.fail("stages", "is empty");
}

void read_preprocess(JsonReader& item, Preprocess& preprocess) {
  preprocess.width = small_whole(item, "width", 1);
  preprocess.height = small_whole(item, "height", 1);
  preprocess.order = one_of(item, "order", std::array<std::string_view, 3>{"BGR", "RGB", "GRAY"});
  preprocess.fit =
      one_of(item, "fit", std::array<std::string_view, 3>{"stretch", "center_crop", "letterbox"});
  if (preprocess.fit == "center_crop") {
    preprocess.resize_short_side = small_whole(item, "resize_short_side", 1);
  }
  if (preprocess.fit == "letterbox") {
    preprocess.padding = small_whole(item, "padding", 0);
    if (preprocess.padding > 255) {
      item.fail("padding", "found " + std::to_string(preprocess.padding) + ", expected 0 to 255");
    }
    preprocess.align = one_of(item, "align", std::array<std::string_view, 2>{"center", "top_left"});
  }
}

std::vector<GoldenFile> golden_files(JsonReader& reader, const char* key,
                                     const Manifest& manifest) {
  std::vector<GoldenFile> files;
  reader.objects(key, [&](JsonReader& item) {
    const std::size_t tensor = tensor_of(item, "tensor", item.text("tensor"), manifest);
    files.push_back({tensor, plain_path(item, "file")});
  });
  return files;
}

void read_files(JsonReader& reader, Manifest& manifest) {
  std::set<std::string> seen;
  reader.objects("files", [&](JsonReader& item) {
    FileEntry file{plain_path(item, "path"), item.whole("bytes"), item.text("sha256")};
    if (!seen.insert(file.path).second) item.fail("path", "'" + file.path + "' comes twice");
    manifest.files.push_back(std::move(file));
  });
  const auto require = [&](const std::string& path, const char* key) {
    if (!seen.contains(path)) reader.fail(key, "'" + path + "' is not in files");
  };
  const Postprocess& postprocess = manifest.postprocess;
  if (!postprocess.labels.empty()) require(postprocess.labels, "postprocess");
  for (const std::string& library : postprocess.libraries) require(library, "postprocess");
  if (!postprocess.function.empty()) require(postprocess.function_file(), "postprocess");
  for (const GoldenFile& golden : manifest.golden_inputs) require(golden.file, "golden");
  for (const GoldenFile& golden : manifest.golden_outputs) require(golden.file, "golden");
}

Status check_format(JsonReader& reader) {
  const std::uint64_t format = reader.whole("format");
  if (!reader.status().ok()) return reader.status();
  if (format == kFormat) return {};
  return {Code::kUnsupported,
          "manifest.json: bundle format " + std::to_string(format) +
              ", this edgepipe reads format " + std::to_string(kFormat),
          "build the bundle again with this version of edgepipe"};
}

/// The frames in flight in field `name`; 0 if there is none.
std::size_t read_slots(JsonReader& reader, const char* name) {
  if (!reader.has(name)) return 0;
  const std::size_t slots = reader.size(name);
  if (slots > kMostSlots) {
    reader.fail(name, "found " + std::to_string(slots) + ", expected " +
                          std::to_string(kMostSlots) + " at most");
  }
  return slots;
}

}  // namespace

std::optional<std::size_t> Manifest::tensor_index(std::string_view tensor_name) const {
  const auto found = std::ranges::find(tensors, tensor_name, &TensorSpec::name);
  if (found == tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors.begin());
}

std::vector<std::size_t> Manifest::read_at_the_end() const {
  std::vector<std::size_t> found;
  for (const auto* const list : {&postprocess.outputs, &postprocess.scores, &postprocess.distances,
                                 &postprocess.centers, &postprocess.landmarks}) {
    found.insert(found.end(), list->begin(), list->end());
  }
  for (const auto* const list : {&golden_inputs, &golden_outputs}) {
    for (const GoldenFile& golden : *list) found.push_back(golden.tensor);
  }
  return found;
}

Status check_manifest_format(std::span<const std::byte> text) {
  Result<nlohmann::json> json = parse_json_object(text, "manifest.json");
  if (!json.ok()) return {};
  JsonReader reader(*json, "manifest.json");
  Status status = check_format(reader);
  return status.code() == Code::kUnsupported ? status : Status();
}

Result<Manifest> parse_manifest(std::span<const std::byte> text) {
  Result<nlohmann::json> json = parse_json_object(text, "manifest.json");
  if (!json.ok()) return json.status();
  JsonReader reader(*json, "manifest.json");
  if (Status status = check_format(reader); !status.ok()) return status;
  Manifest manifest;
  manifest.name = reader.text("name");
  manifest.version = reader.whole("version");
  manifest.board = reader.text("board");
  if (reader.has("board_architecture")) {
    manifest.board_architecture = reader.text("board_architecture");
  }
  manifest.architectures = reader.texts("architectures");
  const nlohmann::json& accelerator = reader.value("accelerator");
  for (const nlohmann::json& field : accelerator) {
    // Also limits the recursion of dump() for malicious files.
    const bool nested = std::ranges::any_of(field, &nlohmann::json::is_structured);
    if (field.is_object() || (field.is_array() && nested)) {
      reader.fail("accelerator", "a field is not a number, a string or a list of them");
    }
  }
  if (!reader.status().ok()) return reader.status();
  Result<Accelerator> parsed =
      parse_accelerator(accelerator.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!parsed.ok()) {
    return Status(Code::kCorrupt, "manifest.json: accelerator: " + parsed.status().message());
  }
  manifest.accelerator = *parsed;
  reader.object("fingerprint", [&](JsonReader& item) {
    Fingerprint& fingerprint = manifest.fingerprint;
    fingerprint.configuration = item.text("configuration");
    fingerprint.revision = item.text("revision");
    fingerprint.clock_hz = item.whole("clock_hz");
    fingerprint.bitstream = item.text("bitstream");
    fingerprint.builder_version = item.text("builder_version");
  });
  read_tensors(reader, manifest);
  if (!reader.status().ok()) return reader.status();  // the code below refers to tensors by index
  manifest.inputs = tensors_of(reader, "inputs", manifest);
  manifest.outputs = tensors_of(reader, "outputs", manifest);
  read_stages(reader, manifest);
  manifest.slots = read_slots(reader, "slots");
  manifest.live_slots = read_slots(reader, "live_slots");
  if (!reader.status().ok()) return reader.status();
  reader.object("preprocess",
                [&](JsonReader& item) { read_preprocess(item, manifest.preprocess); });
  reader.object("postprocess", [&](JsonReader& item) { read_postprocess(item, manifest); });
  reader.object("golden", [&](JsonReader& item) {
    manifest.golden_inputs = golden_files(item, "inputs", manifest);
    manifest.golden_outputs = golden_files(item, "outputs", manifest);
  });
  read_files(reader, manifest);
  if (!reader.status().ok()) return reader.status();
  return manifest;
}

}  // namespace edgepipe
