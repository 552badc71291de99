// The description of the stock accelerator in the format of manifests and programs, for tests.
#pragma once

#include <nlohmann/json.hpp>

namespace edgepipe::testing {

inline nlohmann::json stock_accelerator() {
  return {{"revision", "0.0.1"},
          {"clock_hz", 333000000},
          {"batch", 1},
          {"block_in", 16},
          {"block_out", 16},
          {"uop_buffer_bytes_log2", 15},
          {"inp_buffer_bytes_log2", 15},
          {"wgt_buffer_bytes_log2", 18},
          {"acc_buffer_bytes_log2", 17},
          {"acc_hazard_steps", 8},
          {"command_queue_depth", 512},
          {"token_queue_depth", 1024}};
}

}  // namespace edgepipe::testing
