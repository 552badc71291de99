// Accelerators other than the stock one, which tests share (tests/accelerators.py has the same).
#pragma once

#include "edgepipe/accelerator.h"

namespace edgepipe::testing {

inline Accelerator four_by_eight() {
  return {.batch = 4,
          .block_in = 8,
          .block_out = 8,
          .inp_buffer_bytes_log2 = 16,
          .wgt_buffer_bytes_log2 = 16,
          .acc_buffer_bytes_log2 = 18};
}

}  // namespace edgepipe::testing
