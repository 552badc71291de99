#include "stage/arm_plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/host_architecture.h"
#include "base/json_reader.h"
#include "stage/cpu_features.h"

namespace edgepipe {
namespace {

constexpr std::uint64_t kPlanFormat = 2;
constexpr std::size_t kMostDimensions = 8;
// Far more than any network that fits on a board; prevents overflow in sums of sizes.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

struct NamedType {
  std::string_view name;
  ArmPlan::ElementType type;
};
constexpr std::array<NamedType, 10> kTypes = {{{"int8", {0, 8}},
                                               {"int16", {0, 16}},
                                               {"int32", {0, 32}},
                                               {"int64", {0, 64}},
                                               {"uint8", {1, 8}},
                                               {"uint32", {1, 32}},
                                               {"float16", {2, 16}},
                                               {"float32", {2, 32}},
                                               {"float64", {2, 64}},
                                               {"bool", {6, 8}}}};

constexpr std::array<std::string_view, 4> kStorages = {"input", "output", "constant", "temporary"};

/// The dtype and shape of the object that `reader` reads; 0 bytes after an error.
struct Extent {
  ArmPlan::ElementType type;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
};

Extent read_extent(JsonReader& reader) {
  const std::string dtype = reader.text("dtype");
  Extent extent{.type = {}, .shape = reader.integers("shape"), .bytes = 0};
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NamedType& known) { return known.name == dtype; });
  if (type == kTypes.end()) {
    reader.fail("dtype", "found \"" + dtype + "\", expected a numeric type such as int8");
    return {};
  }
  if (extent.shape.size() > kMostDimensions) {
    reader.fail("shape", "found " + std::to_string(extent.shape.size()) + " dimensions, expected " +
                             std::to_string(kMostDimensions) + " at most");
    return {};
  }
  extent.type = type->type;
  std::size_t bytes = type->type.bits / 8;
  for (const std::int64_t size : extent.shape) {
    if (size < 1 || static_cast<std::uint64_t>(size) > kMostBytes / bytes) {
      reader.fail("shape", "found dimension " + std::to_string(size) +
                               ", expected at least 1 and a tensor of 1 GiB at most");
      return {};
    }
    bytes *= static_cast<std::size_t>(size);
  }
  extent.bytes = bytes;
  return extent;
}

std::vector<std::int64_t> compact_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::size_t read_bytes(JsonReader& reader, const char* key) {
  const std::size_t bytes = reader.size(key);
  if (bytes > kMostBytes) {
    reader.fail(key, "found " + std::to_string(bytes) + ", expected 1 GiB at most");
    return 0;
  }
  return bytes;
}

void read_borders(JsonReader& reader, const char* key, std::vector<ArmPlan::Border>& borders) {
  reader.objects(key, [&](JsonReader& item) {
    borders.push_back({.name = item.text("name"), .bytes = read_extent(item).bytes});
  });
}

/// Checks that a tensor is all of the input or output that it is a view of.
void check_view(JsonReader& item, const std::vector<ArmPlan::Border>& borders,
                const ArmPlan::Tensor& tensor, std::size_t bytes) {
  const std::size_t index = tensor.index;
  if (index >= borders.size()) {
    item.fail("index", "found " + std::to_string(index) + ", expected below " +
                           std::to_string(borders.size()));
  } else if (tensor.offset != 0) {
    item.fail("offset",
              "found " + std::to_string(tensor.offset) + ", expected 0 in an input or output");
  } else if (bytes != borders[index].bytes) {
    item.fail("shape", "found " + std::to_string(bytes) + " bytes, expected the " +
                           std::to_string(borders[index].bytes) + " of '" + borders[index].name +
                           "'");
  }
}

void check_range(JsonReader& item, std::size_t offset, std::size_t bytes, std::size_t limit) {
  if (offset % ArmPlan::kAlignment != 0) {
    item.fail("offset", "found " + std::to_string(offset) + ", expected a multiple of 64");
  } else if (offset > limit || bytes > limit - offset) {
    item.fail("offset", "found " + std::to_string(offset) + " + " + std::to_string(bytes) +
                            " bytes, expected them within " + std::to_string(limit));
  }
}

void read_tensor(JsonReader& item, ArmPlan& plan) {
  const std::string storage = item.text("storage");
  const auto* known = std::find(kStorages.begin(), kStorages.end(), storage);
  if (known == kStorages.end()) {
    item.fail("storage",
              "found \"" + storage + "\", expected one of input, output, constant, temporary");
    return;
  }
  Extent extent = read_extent(item);
  ArmPlan::Tensor tensor;
  tensor.storage = static_cast<ArmPlan::Storage>(known - kStorages.begin());
  tensor.index = item.size("index");
  tensor.offset = read_bytes(item, "offset");
  if (!item.status().ok()) return;
  switch (tensor.storage) {
    case ArmPlan::Storage::kInput:
      check_view(item, plan.inputs, tensor, extent.bytes);
      break;
    case ArmPlan::Storage::kOutput:
      check_view(item, plan.outputs, tensor, extent.bytes);
      break;
    case ArmPlan::Storage::kConstant:
      check_range(item, tensor.offset, extent.bytes, plan.weights_bytes);
      break;
    case ArmPlan::Storage::kTemporary:
      check_range(item, tensor.offset, extent.bytes, plan.workspace_bytes);
      break;
  }
  tensor.type = extent.type;
  tensor.shape = std::move(extent.shape);
  tensor.strides = compact_strides(tensor.shape);
  plan.tensors.push_back(std::move(tensor));
}

void read_call(JsonReader& item, ArmPlan& plan) {
  ArmPlan::Call call;
  call.operator_name = item.text("operator");
  call.kernel = item.text("kernel");
  for (const std::int64_t arg : item.integers("args")) {
    if (arg < 0 || static_cast<std::size_t>(arg) >= plan.tensors.size()) {
      item.fail("args", "found " + std::to_string(arg) + ", expected below " +
                            std::to_string(plan.tensors.size()));
      return;
    }
    call.args.push_back(static_cast<std::size_t>(arg));
  }
  plan.calls.push_back(std::move(call));
}

}  // namespace

Result<ArmPlan> ArmPlan::parse(std::span<const std::byte> text, const std::string& where) {
  Result<nlohmann::json> json = parse_json_object(text, where);
  if (!json.ok()) return json.status();
  JsonReader reader(*json, where);
  const std::uint64_t format = reader.whole("format");
  if (!reader.status().ok()) return reader.status();
  if (format != kPlanFormat) {
    return Status(Code::kUnsupported, where + ": format: found " + std::to_string(format) +
                                          ", expected " + std::to_string(kPlanFormat));
  }
  ArmPlan plan;
  read_borders(reader, "inputs", plan.inputs);
  read_borders(reader, "outputs", plan.outputs);
  plan.weights_bytes = read_bytes(reader, "weights_bytes");
  plan.workspace_bytes = read_bytes(reader, "workspace_bytes");
  plan.scratch_bytes = read_bytes(reader, "scratch_bytes");
  reader.objects("tensors", [&](JsonReader& item) { read_tensor(item, plan); });
  reader.objects("calls", [&](JsonReader& item) { read_call(item, plan); });
  const std::string host(host_architecture());
  reader.object("architectures", [&](JsonReader& list) {
    if (json->at("architectures").contains(host)) {
      list.objects(host.c_str(), [&](JsonReader& item) {
        plan.variants.push_back(
            {.kernels = item.text("kernels"), .cpu_features = item.texts("cpu_features")});
      });
    }
  });
  if (!reader.status().ok()) return reader.status();
  if (plan.variants.empty()) {
    return Status(Code::kUnsupported, where + ": no kernels for " + host);
  }
  return plan;
}

Result<ArmPlan::Variant> ArmPlan::runnable_variant() const {
  Status lacking(Code::kUnsupported, "there are no kernels");
  for (const Variant& variant : variants) {
    const auto missing =
        std::find_if_not(variant.cpu_features.begin(), variant.cpu_features.end(), has_cpu_feature);
    if (missing == variant.cpu_features.end()) return variant;
    lacking = Status(Code::kUnsupported,
                     "this processor has no " + *missing + ", which " + variant.kernels + " needs");
  }
  return lacking;
}

}  // namespace edgepipe
