// make_runner_module: a bundle's stages or one ARM stage, run one by one, as functions.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <memory>

#include "stage_runner.h"

namespace edgepipe::binding {

/// The functions, for one thread at a time:
///
///   describe() -> str, statistics() -> str   JSON; see StageRunner
///   tensor(name) -> tensor                   the memory of a tensor itself, as bytes
///   run(), run_stage(i) every stage, or one, on the current tensors
///   stage_0(), stage_1(), ...                the same, for TVM's time_evaluator
///   call_stage(i, array...) -> bytes         copies a stage's inputs in and its outputs out, one
///                                            after the other
///   load_golden(), check_golden()
///   close()             releases the device and all memory, once no tensor of tensor() is in use;
///                       every other call is an error from then on
///
/// A client of TVM's RPC cannot free a module before its session ends, so it calls close().
tvm::ffi::Module make_runner_module(std::unique_ptr<StageRunner> runner);

}  // namespace edgepipe::binding
