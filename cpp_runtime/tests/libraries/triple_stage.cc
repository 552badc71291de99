// A third-party library with a stage: y = 3 * x for bytes below 128; it refuses other bytes.
#include <cstdio>

#include "edgepipe/stage_function.h"

extern "C" __attribute__((visibility("default"))) int triple(
    void* /*context*/, const EpStageBuffer* inputs, uint32_t input_count,
    const EpStageBuffer* outputs, uint32_t output_count, char* error, uint64_t error_bytes) {
  if (input_count != 1 || output_count != 1 || inputs[0].bytes != outputs[0].bytes) return 1;
  for (uint64_t n = 0; n < inputs[0].bytes; ++n) {
    if (inputs[0].data[n] > 127) {
      std::snprintf(error, error_bytes, "x[%d] is %d, expected at most 127", static_cast<int>(n),
                    inputs[0].data[n]);
      return 1;
    }
  }
  for (uint64_t n = 0; n < inputs[0].bytes; ++n) {
    outputs[0].data[n] = static_cast<uint8_t>(3 * inputs[0].data[n]);
  }
  return 0;
}
