// make_pipeline_module: the functions of a running pipeline.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <memory>

#include "running_pipeline.h"

namespace edgepipe::binding {

/// An array is a tensor in C order or bytes. Waits and effects are separate: functions with a
/// `timeout_s` wait at most that long and change nothing, so a caller that a signal interrupted can
/// call again; send and take never wait and may be repeated. A wait returns whether its event came;
/// with `is_last`, a wait without the event fails with kDeadline and says what it waits for.
///
///   describe() -> str                       JSON: name, device, slots, stages, decoder, ...
///   set_input(name, array)                  for the next run, and later ones until it is set again
///   get_input(name) -> bytes                the value set last
///   set_parameters(group, [name, array]...) of a Relax stage run here, from the next frame on
///   send(id, array...) -> frame             submits a frame. Arrays in the order of the inputs;
///   for
///                                           None and missing ones, the values of set_input. -1 if
///                                           no slot is free. An id among the last 16 returns the
///                                           same number again
///   send_many(width, [id, array...]...) -> first << 16 | count
///                                           the same for frames of width - 1 arrays each, as long
///                                           as slots are free
///   withdraw(id)                            drops the result of that frame, if among the last 16
///   await_slot(timeout_s, is_last) -> bool   until send has a slot, or a finished frame with an
///                                           owner can be taken
///   await_frame(frame, timeout_s, is_last)   until it is finished or never will be
///   take(first, most, owned_only, row, tensor...) -> bytes
///                                           finished frames from number `first` on, see below
///   submitted() -> count                    frames sent since the start
///   drain(frames, timeout_s, is_last)        until the first `frames` frames are finished
///   stop(timeout_s, is_last), cancel()
///   await_end(generation, timeout_s, is_last) until the stages' threads have ended
///   restart(generation, timeout_s, is_last)  once for each generation: 1, 2, ...
///   close(timeout_s, is_last), leave()
///   statistics() -> str                     JSON
///   write_trace(path)
///
/// An id is 0, or a number other than -1 that no other send uses. Frames with an odd id have an
/// owner; `owned_only` takes only those.
///
/// take returns at most `most` finished frames, one after the other. A call with the same `first`
/// as the last call returns the same frames again, as long as no other call has taken frames since.
/// Output i of the k-th one goes into row `row` + k of the i-th tensor. Each begins with its number
/// and its latency in ns (uint64 each) and its id (int64), followed by its results
/// (result_bytes.h). Without tensors, every output follows.
///
/// close() drops what has not been taken and frees the stages once they have returned; waits of
/// other threads end. kDeadline names the stage that has not returned: call close() again, or
/// leave() to abandon it and its thread. Releasing the last reference does one of these within a
/// few seconds. Any thread may call the functions, but during restart only waits and close. For
/// failures see status_error.h.
tvm::ffi::Module make_pipeline_module(std::unique_ptr<RunningPipeline> pipeline);

}  // namespace edgepipe::binding
