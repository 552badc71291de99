// What a bundle was built for against what is here: this runtime's version, and the record of what
// is in the board's logic, which `edgepipe bitstream install` leaves.
//
//   Status status = check_logic_record(bundle.manifest().fingerprint, kLogicRecord);
//   if (!status.ok()) return exit_code(status.code());
//
// The record is in /run, so like the logic's content it is gone when the board restarts. Without a
// record nothing is known, and nothing is refused.
#pragma once

#include <string>
#include <string_view>

#include "edgepipe/manifest.h"
#include "edgepipe/status.h"

namespace edgepipe {

inline constexpr const char* kLogicRecord = "/run/edgepipe/bitstream.json";

/// This runtime's version; it runs bundles that the same version built.
extern const std::string_view kVersion;

/// Compares the version that built the bundle with this runtime's. kOtherVersion names both and the
/// remedy. Any thread.
Status check_version(const Fingerprint& fingerprint);

/// Compares the record at `path`, if there is one, with what the bundle was built for. One of the
/// kOther codes names both values and the remedy, kCorrupt a record that cannot be read. Any
/// thread; reads one small file.
Status check_logic_record(const Fingerprint& fingerprint, const std::string& path);

/// What a program ends with: 0 for kOk, 10 to 14 for the kOther codes (the same numbers as
/// EXIT_CODES in edgepipe/bitstream/fingerprint.py), otherwise 1.
int exit_code(Code code);

}  // namespace edgepipe
