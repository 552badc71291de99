// The record of what is in this board's logic, which `edgepipe bitstream install` leaves.
//
//   Status status = check_logic_record(accelerator, kLogicRecord);
//
// It is in /run, so like the logic's content it is gone when the board restarts. Without a record
// nothing is known, and nothing is refused.
#pragma once

#include <string>

#include "edgepipe/accelerator.h"
#include "edgepipe/status.h"

namespace edgepipe {

inline constexpr const char* kLogicRecord = "/run/edgepipe/bitstream.json";

/// Compares the record at `path`, if there is one, with the accelerator that a bundle was built
/// for. kUnsupported names both values and the remedy, kCorrupt a record that cannot be read. Any
/// thread; reads one small file.
Status check_logic_record(const Accelerator& accelerator, const std::string& path);

}  // namespace edgepipe
