// load_stage: makes the Stage of one entry of a bundle's manifest, by its kind.
#pragma once

#include <memory>

#include "edgepipe/bundle.h"
#include "edgepipe/device.h"
#include "edgepipe/manifest.h"
#include "edgepipe/stage.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Loads kernels or program from the bundle's files. `device` is borrowed by VTA stages; null is
/// kInvalidArgument for them. Errors name the stage's folder.
Result<std::unique_ptr<Stage>> load_stage(const Bundle& bundle, const StageSpec& spec,
                                          Device* device);

}  // namespace edgepipe
