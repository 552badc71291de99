// make_pipeline_module: the functions of a running pipeline, for a client of edgepipe-rpcd.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <memory>

#include "served_pipeline.h"

namespace edgepipe::rpc {

/// describe(), set_input(name, bytes), get_input(name), set_parameter(group, name, bytes),
/// run(timeout_s) -> frame, get_output(timeout_s) -> bytes, drain(timeout_s), stop(timeout_s),
/// cancel(), restart(timeout_s), statistics() -> JSON. A failure raises "status CODE: TEXT", the
/// code being that of edgepipe/status.h, by which a client tells a wait from a fault.
tvm::ffi::Module make_pipeline_module(std::unique_ptr<ServedPipeline> pipeline);

}  // namespace edgepipe::rpc
