// make_pipeline_module: the functions of a running pipeline.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <memory>

#include "running_pipeline.h"

namespace edgepipe::binding {

/// An array is a tensor in C order or bytes. Waits and effects are separate: functions with a
/// `timeout_s` wait that long and change nothing, so a caller that a signal interrupted can call
/// again; send and take never wait and may be repeated. A wait returns whether its event came;
/// with `is_last`, a wait without the event fails with kDeadline and says what it waits for.
///
///   describe() -> str                       JSON: name, device, slots, stages, labels, inputs, ...
///   set_input(name, array)                  for one run, and for those after it until another
///   get_input(name) -> bytes                what was set last
///   set_parameters(group, [name, array]...) of a Relax stage run here, from the next frame on
///   send(id, array...) -> frame             arrays in the order of the inputs; None, and what is
///                                           missing, is what set_input has set; -1: no slot is
///                                           free; the id of one of the last 16 gives its number
///                                           again
///   send_many(width, [id, array...]...) -> first << 16 | count
///                                           the same for frames of width - 1 arrays each, as far
///                                           as slots are free
///   withdraw(id)                            drops the result of that one of the last 16
///   await_slot(timeout_s, is_last) -> bool   until send has a slot, or a frame with an owner that
///                                           is finished can be taken
///   await_frame(frame, timeout_s, is_last)   until it is finished or never will be
///   take(first, most, owned_only, row, tensor...) -> bytes
///                                           finished frames from number `first` on, see below
///   submitted() -> count                    frames sent since the start
///   drain(frames, timeout_s, is_last)        until the first `frames` frames are finished
///   stop(timeout_s, is_last), cancel()
///   await_end(generation, timeout_s, is_last) until the stages' threads have ended, and
///   restart(generation, timeout_s, is_last)  once for each generation: 1, 2, ...
///   close(timeout_s, is_last), leave()
///   statistics() -> str                     JSON
///   write_trace(path)
///
/// An id is any number but 0 and -1 that no other send has, or 0. Frames sent with an odd one have
/// an owner, and `owned_only` takes those only.
///
/// take returns at most `most` frames one after the other, none when none is finished; a call with
/// the `first` of the last one gives the same again, as long as no other has taken frames since.
/// Output i of the k-th one goes into row `row` + k of the i-th tensor. Each begins with its number
/// and its latency in ns (uint64 each), its id (int64), and how many boxes and classes it has
/// (uint32 each); then come the boxes (left, top, right, bottom, score as float32, class as int32)
/// and the classes (class as int32, score, probability as float32), all little-endian. Without any
/// tensor every output follows.
///
/// close() drops what has not been taken and frees the stages once they have returned; waits of
/// other threads end. kDeadline names the stage that has not returned: close() again, or leave()
/// it and its thread behind. The end of the last reference does either within some seconds. The
/// functions are for any thread, but nothing but waits and close runs beside restart. For failures
/// see status_error.h.
tvm::ffi::Module make_pipeline_module(std::unique_ptr<RunningPipeline> pipeline);

}  // namespace edgepipe::binding
