// parse_options: a client's options for running a pipeline.
#pragma once

#include <string_view>

#include "edgepipe/session.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Reads a JSON object. Missing keys have these values:
///
///   {"device": "auto", "serial": false, "pinning": "required", "slots": 0, "cores": [],
///    "trace_spans": 0, "device_timeout_s": by the modelled time, "device_hangs": [3, 20],
///    "device_trial": 100}
///
/// device: as DeviceRegistry::parse reads it; pinning: required, preferred or off; slots: 0 means
/// that the pipeline chooses; cores: stage k runs on core k modulo their number. kInvalidArgument
/// for any other key or value.
Result<Session::Options> parse_options(std::string_view text);

}  // namespace edgepipe
