// make_pipeline_module: the functions of a running pipeline.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <memory>

#include "running_pipeline.h"

namespace edgepipe::binding {

/// An array is a tensor in C order or bytes. Every wait ends after `timeout_s`; 0 does not wait.
///
///   describe() -> str                       JSON: name, device, slots, stages, labels, inputs, ...
///   set_input(name, array)                  kept for every run that gives no other
///   get_input(name) -> bytes
///   set_parameter(group, name, array)       of a Relax stage run here, from the next frame on
///   run(timeout_s, array...) -> frame       arrays in the order of the inputs; None, and what is
///                                           missing, is what set_input has set
///   await_slot(timeout_s)                   until run would not have to wait
///   get_output(timeout_s, tensor...) -> bytes    the next frame, see below
///   drain(timeout_s), stop(timeout_s), cancel(), restart(timeout_s), close()
///   statistics() -> str                     JSON
///   write_trace(path)
///
/// get_output writes output i into the i-th tensor, and returns the frame's number and its latency
/// in ns (uint64 each), how many boxes and classes it has (uint32 each), the boxes (left, top,
/// right, bottom, score as float32, class as int32), and the classes (class as int32, score,
/// probability as float32), all little-endian. Without any tensor every output follows.
///
/// close() drops what has not been taken, waits for the stages and frees them; waits of other
/// threads end. The end of the last reference does the same. The functions are for any thread, but
/// run, await_slot and set_parameter for one at a time, likewise get_output, and nothing but close
/// runs beside restart. For failures see status_error.h.
tvm::ffi::Module make_pipeline_module(std::unique_ptr<RunningPipeline> pipeline);

}  // namespace edgepipe::binding
