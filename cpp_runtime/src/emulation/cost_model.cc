#include "emulation/cost_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace edgepipe {
namespace {

// The cycles of an instruction with the most steps that its fields can state, 2^41, fit in 63 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 20;
// The host's costs count once for a run.
constexpr std::int64_t kMostOfHost = std::int64_t{1} << 40;

struct Key {
  const char* name;
  std::int64_t CostModel::*value;
  std::int64_t least = 0;
  std::int64_t most = kMost;
};

constexpr std::array kKeys = {
    Key{"instruction_cycles", &CostModel::instruction_cycles},
    Key{"gemm_step_cycles", &CostModel::gemm_step_cycles, 1},
    Key{"alu_step_cycles", &CostModel::alu_step_cycles, 1},
    Key{"alu_vector_step_cycles", &CostModel::alu_vector_step_cycles},
    Key{"loop_cycles", &CostModel::loop_cycles},
    Key{"dma_row_cycles", &CostModel::dma_row_cycles},
    Key{"bus_bytes", &CostModel::bus_bytes, 1},
    Key{"bus_efficiency_percent", &CostModel::bus_efficiency_percent, 1, 100},
    Key{"weight_efficiency_percent", &CostModel::weight_efficiency_percent, 0, 100},
    Key{"burst_bytes", &CostModel::burst_bytes, 16},
    Key{"launch_cycles", &CostModel::launch_cycles, 0, kMostOfHost},
    Key{"cache_kib_cycles", &CostModel::cache_kib_cycles, 0, kMostOfHost},
    Key{"reads_in_flight", &CostModel::reads_in_flight},
    Key{"tensor_load_cycles", &CostModel::tensor_load_cycles},
    Key{"store_row_cycles", &CostModel::store_row_cycles},
    Key{"store_burst_bytes", &CostModel::store_burst_bytes},
    Key{"store_burst_cycles", &CostModel::store_burst_cycles},
};

Status invalid(const std::string& text) {
  return {Code::kInvalidArgument, "timing: " + text,
          "use the programs and the Python package of one version of edgepipe"};
}

std::int64_t ceil_of(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace

std::int64_t CostModel::port_cycles(std::int64_t bytes, bool weights) const {
  const std::int64_t percent = weights && weight_efficiency_percent != 0 ? weight_efficiency_percent
                                                                         : bus_efficiency_percent;
  return ceil_of(bytes * 100, bus_bytes * percent);
}

std::int64_t CostModel::alu_cycles(bool vector) const {
  return vector && alu_vector_step_cycles != 0 ? alu_vector_step_cycles : alu_step_cycles;
}

std::int64_t CostModel::store_row_latency(std::int64_t row_bytes) const {
  const std::int64_t latency = store_row_cycles != 0 ? store_row_cycles : dma_row_cycles;
  if (store_burst_bytes == 0 || row_bytes == 0) return latency;
  return latency + (ceil_of(row_bytes, store_burst_bytes) - 1) * store_burst_cycles;
}

Result<CostModel> parse_cost_model(std::string_view json) {
  const nlohmann::json object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return invalid("expected a JSON object");
  CostModel cost;
  for (const Key& key : kKeys) {
    const auto found = object.find(key.name);
    if (found == object.end()) return invalid(std::string(key.name) + " is missing");
    if (!found->is_number_integer() || *found < key.least || *found > key.most) {
      return invalid(std::string(key.name) + " is " + found->dump() +
                     ", expected a whole number from " + std::to_string(key.least) + " to " +
                     std::to_string(key.most));
    }
    cost.*key.value = found->get<std::int64_t>();
  }
  for (const auto& item : object.items()) {
    if (std::ranges::none_of(kKeys, [&](const Key& key) { return item.key() == key.name; })) {
      return invalid("unknown key '" + item.key() + "'");
    }
  }
  return cost;
}

std::vector<std::string> cost_keys() {
  std::vector<std::string> keys;
  keys.reserve(kKeys.size());
  for (const Key& key : kKeys) keys.emplace_back(key.name);
  return keys;
}

}  // namespace edgepipe
