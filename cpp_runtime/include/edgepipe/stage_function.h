/* EpStageFunction: a stage as one C function, for shared libraries and for host programs.
 *
 *   int add_one(void *context, const EpStageBuffer *inputs, uint32_t input_count,
 *               const EpStageBuffer *outputs, uint32_t output_count, char *error,
 *               uint64_t error_bytes) {
 *     for (uint64_t i = 0; i < inputs[0].bytes; ++i) outputs[0].data[i] = inputs[0].data[i] + 1;
 *     return 0;
 *   }
 *
 * Plain C, so that a library needs no other header of edgepipe and any compiler can build it.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EpStageBuffer {
  uint8_t* data; /* borrowed for the call, 64-byte aligned */
  uint64_t bytes;
} EpStageBuffer;

/* Computes the outputs, in full, from the inputs; both are in the order of the stage's ports.
 * Called by one thread at a time, once for each frame, in the order of frames. Returns 0, or
 * anything else after writing why to `error` (NUL-terminated, at most `error_bytes` bytes): that
 * ends the pipeline at this frame. */
typedef int (*EpStageFunction)(void* context, const EpStageBuffer* inputs, uint32_t input_count,
                               const EpStageBuffer* outputs, uint32_t output_count, char* error,
                               uint64_t error_bytes);

#ifdef __cplusplus
}
#endif
