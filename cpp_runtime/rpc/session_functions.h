// register_functions: what a client of edgepipe-rpcd may call besides TVM's own functions.
//
//   edgepipe.info() -> str              the machine as JSON: kernel, cores, whether it has the VTA
//   edgepipe.open_bundle(file, device) -> Module   an uploaded bundle; device: as --device
//   edgepipe.open_stage(folder) -> Module          the folder of one ARM stage
//   edgepipe.load_pipeline(path, device, slots) -> Module    a bundle, or an exported pipeline
//                                                  (see pipeline_module.h for its functions)
//
// The other modules' functions: describe() and statistics() -> str (JSON), stage(i), which runs
// stage i, "stage_0", "stage_1", ..., which take no arguments so that TVM's time_evaluator times
// them, run(), run_stage(i, bytes...) -> bytes, which copies the stage's inputs in and its outputs
// out, one after the other, load_golden(), check_golden(), set(tensor, bytes) and get(tensor) ->
// bytes. A function that fails raises the status' text at the client.
#pragma once

#include <filesystem>

namespace edgepipe::rpc {

/// Registers them and TVM's file functions for this process; files are those in `folder`.
void register_functions(const std::filesystem::path& folder);

}  // namespace edgepipe::rpc
