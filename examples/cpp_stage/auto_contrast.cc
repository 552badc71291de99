// auto_contrast: a pipeline stage in C++ that spreads a picture's values over 0 to 255.
//
//   in:  uint8[n]  a picture, any layout
//   out: uint8[n]  the same picture; its darkest value has become 0 and its brightest 255
//
// A stage is one function with C linkage and the signature EpStageFunction. The pipeline calls it
// once for each frame, in order, on the stage's own thread. It writes every byte of the outputs.

#include <edgepipe/stage_function.h>

#include <algorithm>
#include <cstdio>

extern "C" int auto_contrast(void* /*context*/, const EpStageBuffer* inputs, uint32_t input_count,
                             const EpStageBuffer* outputs, uint32_t output_count, char* error,
                             uint64_t error_bytes) {
  if (input_count != 1 || output_count != 1 || inputs[0].bytes != outputs[0].bytes) {
    // A result other than 0 ends the pipeline at this frame; the text becomes part of its error.
    std::snprintf(error, error_bytes, "expected one input and one output of the same size");
    return 1;
  }
  const uint8_t* const begin = inputs[0].data;
  const uint8_t* const end = begin + inputs[0].bytes;
  const auto [darkest, brightest] = std::minmax_element(begin, end);
  const int low = *darkest;
  const int range = std::max(*brightest - low, 1);
  std::transform(begin, end, outputs[0].data, [low, range](uint8_t value) {
    return static_cast<uint8_t>(((value - low) * 255 + range / 2) / range);
  });
  return 0;
}
