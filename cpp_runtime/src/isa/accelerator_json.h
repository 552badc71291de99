// Reading an Accelerator that is part of a larger JSON document.
#pragma once

#include <nlohmann/json.hpp>

#include "edgepipe/accelerator.h"

namespace edgepipe {

/// Like parse_accelerator, but from a parsed value.
Result<Accelerator> accelerator_from_json(const nlohmann::json& object);

}  // namespace edgepipe
