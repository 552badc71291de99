/* EpDecoderFunction: a user's own postprocessing as one C function in a shared library.
 *
 *   int decode(const EpDecoderInput *input, EpDecoderOutput *output, char *error,
 *              uint64_t error_bytes) {
 *     const float *values = input->tensors[0].values;
 *     if (values[4] < 0.5F) return 0;
 *     if (output->most_boxes < 1) {
 *       snprintf(error, error_bytes, "no room for a box");
 *       return 1;
 *     }
 *     output->boxes[0] = (EpBox){values[0], values[1], values[2], values[3], values[4], 0};
 *     output->box_count = 1;
 *     return 0;
 *   }
 *
 * The bundle's description names the function, its tensors, and the kind of results that it gives.
 * Plain C, so that a library needs no other header of edgepipe and any compiler can build it.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this interface. A newer version only adds members at the ends of EpDecoderInput and
 * EpDecoderOutput. The structures that are elements of arrays never change, so a library runs with
 * every newer edgepipe. A function that uses a member added in version N also runs with an older
 * one if it first checks that `input->version` is at least N. */
#define EP_DECODER_VERSION 1

/* One of the network's outputs. All of it is borrowed for the call. */
typedef struct EpDecoderTensor {
  const char* name;
  const float* values;  /* dense, in C order */
  const int64_t* shape; /* `rank` extents */
  uint32_t rank;
} EpDecoderTensor;

typedef struct EpDecoderInput {
  uint32_t version; /* EP_DECODER_VERSION of the caller */
  uint32_t tensor_count;
  const EpDecoderTensor* tensors; /* in the order of `outputs` in the description */
  int32_t width;                  /* of the network's input, pixels */
  int32_t height;
  uint32_t label_count; /* names in the description's file of labels; 0 without one */
} EpDecoderInput;

/* A box in pixels of the network's input. edgepipe maps it to the picture. */
typedef struct EpBox {
  float left;
  float top;
  float right;
  float bottom;
  float score;
  int32_t label_index;
} EpBox;

/* A point in pixels of the network's input. */
typedef struct EpPoint {
  float x;
  float y;
  float score; /* 1 if the network gives none */
} EpPoint;

/* A class that the picture may show. */
typedef struct EpClass {
  int32_t label_index;
  float score;       /* as computed by the network */
  float probability; /* from 0 to 1 */
} EpClass;

/* The function fills the arrays of its kind of results, best first, and sets their counts, which
 * are 0 before the call. The other kinds have room for nothing. The arrays keep what an earlier
 * frame left in them. */
typedef struct EpDecoderOutput {
  EpBox* boxes;
  uint32_t most_boxes;
  uint32_t box_count;
  EpPoint* points; /* as many for each box, in the order of the boxes; or one for each label */
  uint32_t most_points;
  uint32_t point_count;
  EpClass* classes;
  uint32_t most_classes;
  uint32_t class_count;
  char* text; /* UTF-8, without a NUL at the end */
  uint32_t most_text_bytes;
  uint32_t text_bytes;
  float text_score; /* from 0 to 1 */
} EpDecoderOutput;

/* Decodes one frame. Called by one thread at a time, in the order of frames, on the thread that
 * takes results, so it must neither block nor allocate for long. Returns 0, or anything else after
 * writing why to `error` (NUL-terminated, at most `error_bytes` bytes): this ends the pipeline at
 * this frame. */
typedef int (*EpDecoderFunction)(const EpDecoderInput* input, EpDecoderOutput* output, char* error,
                                 uint64_t error_bytes);

#ifdef __cplusplus
}
#endif
