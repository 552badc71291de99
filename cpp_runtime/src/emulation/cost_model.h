// CostModel: what the work of an accelerator costs, with the keys of a board's [timing] table.
//
//   Result<CostModel> cost = parse_cost_model(json_text);
//   if (cost.ok()) use(cost->port_cycles(4096, /*weights=*/false));
//
// Its counterpart is vta_stages/timing/cost_model.py, which explains every key. All are in one
// table (cost_model.cc). A Python test compares the two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe {

/// Cycles of the accelerator's clock, except for bytes, percentages and numbers of requests.
struct CostModel {
  std::int64_t instruction_cycles = 0;
  std::int64_t gemm_step_cycles = 0;
  std::int64_t alu_step_cycles = 0;
  std::int64_t alu_vector_step_cycles = 0;  // 0: as alu_step_cycles
  std::int64_t loop_cycles = 0;
  std::int64_t dma_row_cycles = 0;
  std::int64_t bus_bytes = 0;
  std::int64_t bus_efficiency_percent = 0;
  std::int64_t weight_efficiency_percent = 0;  // 0: as bus_efficiency_percent
  std::int64_t burst_bytes = 0;
  std::int64_t launch_cycles = 0;
  std::int64_t cache_kib_cycles = 0;
  std::int64_t reads_in_flight = 0;  // 0: one row of each module after the other
  std::int64_t tensor_load_cycles = 0;
  std::int64_t store_row_cycles = 0;   // 0: as dma_row_cycles
  std::int64_t store_burst_bytes = 0;  // 0: any number
  std::int64_t store_burst_cycles = 0;

  /// How long a transfer of `bytes` occupies the port.
  [[nodiscard]] std::int64_t port_cycles(std::int64_t bytes, bool weights) const;

  /// The cycles of an ALU step, by whether its second operand is a vector.
  [[nodiscard]] std::int64_t alu_cycles(bool vector) const;

  /// The latency of a row of a store, all its bursts together.
  [[nodiscard]] std::int64_t store_row_latency(std::int64_t row_bytes) const;
};

/// Reads a JSON object with exactly the keys above, all of them. kInvalidArgument names the key
/// that is missing, unknown or out of range.
Result<CostModel> parse_cost_model(std::string_view json);

/// The keys in the order of the table.
[[nodiscard]] std::vector<std::string> cost_keys();

}  // namespace edgepipe
