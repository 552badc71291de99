/* Bundles from C, and from any language that can call C: the library libedgepipe_c.so.

     EpPipeline* pipeline;
     if (ep_open("net.edgepipe", "{}", NULL, 0, &pipeline) != 0) puts(ep_message());
     void* inputs[1];
     ep_acquire(pipeline, 1.0, inputs);  // the memory of the next frame
     memcpy(inputs[0], picture, bytes);
     ep_submit(pipeline, &frame);
     ep_await_frame(pipeline, frame, 1.0);
     ep_take(pipeline, &taken, outputs);
     ...                                 // read the outputs where the stages wrote them
     ep_release(pipeline);
     ep_close(pipeline);

   A function that can fail returns 0 or a code of edgepipe/status.h; ep_message and ep_hint then
   describe the failure. Times to wait are in seconds; 0 does not wait. The Python package
   edgepipe_runtime calls these functions through ctypes.

   Threads: one thread at a time may fill frames (ep_acquire, ep_fit, ep_fit_file, ep_abandon,
   ep_submit), and one may take them (ep_take, ep_release). The others may be called by any thread,
   but nothing may be called during ep_restart and ep_close. */
#ifndef EDGEPIPE_C_H
#define EDGEPIPE_C_H

#include <stdint.h>

#define EP_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EpPipeline EpPipeline;

/* Memory of the caller's for an input or an output in one slot; see OwnBuffer of pipeline.h. Frame
   number f uses slot f modulo the number of slots. */
typedef struct {
  const char* tensor;
  uint64_t slot;
  void* data;
  uint64_t bytes;
} EpOwnBuffer;

/* A picture in the caller's memory. */
typedef struct {
  const char* format; /* "bgr", "rgb", "gray", "yuyv", "nv12" or "jpeg" */
  int32_t width;      /* pixels */
  int32_t height;
  uint64_t row_bytes; /* from the start of a row to that of the next */
  const void* data;
  uint64_t bytes;
} EpPicture;

/* Where a picture lies in the network's input: scaled to fitted_width x fitted_height pixels, of
   which left and top are cut off. Negative: as many pixels of padding. */
typedef struct {
  int32_t width; /* of the picture, pixels; 0 if the frame was not made of a picture */
  int32_t height;
  int32_t fitted_width;
  int32_t fitted_height;
  int32_t left;
  int32_t top;
} EpPlacement;

/* A finished frame. Boxes and points are in pixels of the picture if it was made of one. */
typedef struct {
  uint64_t frame;      /* its number */
  uint64_t latency_ns; /* from ep_submit to the end of the last stage */
  const void* results; /* as in postprocess/result_bytes.h, until the next ep_take */
  uint64_t result_bytes;
  EpPlacement placement;
} EpTaken;

/* Why the calling thread's last call failed, and what to do about it ("": nothing known). */
EP_EXPORT const char* ep_message(void);
EP_EXPORT const char* ep_hint(void);

/* Opens a bundle and starts its threads. `options` are those of session/json_options.h; `own` are
   buffers of the caller's, which must outlive the pipeline. Blocks. */
EP_EXPORT int ep_open(const char* path, const char* options, const EpOwnBuffer* own, uint64_t count,
                      EpPipeline** pipeline);

/* Drops all frames and frees everything. Blocks until running stages return. */
EP_EXPORT void ep_close(EpPipeline* pipeline);

/* JSON: name, device, slots, stages, labels, inputs and outputs. Valid until ep_close. */
EP_EXPORT const char* ep_describe(const EpPipeline* pipeline);

/* The memory of every input of the next frame, also if called again before ep_submit. */
EP_EXPORT int ep_acquire(EpPipeline* pipeline, double timeout_s, void** inputs);

/* Fits a picture to the input of the acquired frame, as the bundle's description says. */
EP_EXPORT int ep_fit(EpPipeline* pipeline, const EpPicture* picture);
EP_EXPORT int ep_fit_file(EpPipeline* pipeline, const char* path);

/* Gives up the acquired frame; nothing is sent. */
EP_EXPORT void ep_abandon(EpPipeline* pipeline);

/* Submits the acquired frame. */
EP_EXPORT int ep_submit(EpPipeline* pipeline, uint64_t* frame);

/* Takes the next finished frame, with the memory of every output; ends the lease on the one before.
   Never waits: the code is that of kDeadline if none is finished. */
EP_EXPORT int ep_take(EpPipeline* pipeline, EpTaken* taken, const void** outputs);

/* Ends the lease on the frame that was taken, so that its slot is free. */
EP_EXPORT void ep_release(EpPipeline* pipeline);

/* Wait without any other effect, as the functions of pipeline.h with these names. */
EP_EXPORT int ep_await_slot(EpPipeline* pipeline, int or_next, double timeout_s);
EP_EXPORT int ep_await_frame(EpPipeline* pipeline, uint64_t frame, double timeout_s);
EP_EXPORT int ep_drain(EpPipeline* pipeline, uint64_t frames, double timeout_s);
EP_EXPORT int ep_stop(EpPipeline* pipeline, double timeout_s);
EP_EXPORT int ep_await_end(EpPipeline* pipeline, double timeout_s);

EP_EXPORT void ep_cancel(EpPipeline* pipeline);
EP_EXPORT int ep_restart(EpPipeline* pipeline, double timeout_s);

/* The statistics as JSON; valid until the calling thread's next ep_statistics. */
EP_EXPORT const char* ep_statistics(const EpPipeline* pipeline);

/* Writes the trace's spans as Trace Event JSON. */
EP_EXPORT int ep_write_trace(const EpPipeline* pipeline, const char* path);

#ifdef __cplusplus
}
#endif

#endif
