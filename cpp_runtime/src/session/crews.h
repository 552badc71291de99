// crews_for: threads for a bundle with more ARM stages than cores.
//
//   options.crews = crews_for(bundle.manifest(), options.threads, devices);
//
// A network whose accelerator layers alternate with ARM operators has dozens of stages. A thread
// for each would only take turns on the same cores. Two crews do the work instead: one thread for
// each accelerator and one for each ARM core, with several frames in flight.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/pipeline.h"

namespace edgepipe {

/// Returns no crew if every ARM stage can have a core of its own. `threads` are those of the stages
/// on the bundle's board, or none: then all cores of this process run ARM stages.
std::vector<Pipeline::Crew> crews_for(const Manifest& manifest,
                                      std::span<const Pipeline::StageThread> threads,
                                      std::size_t devices);

}  // namespace edgepipe
