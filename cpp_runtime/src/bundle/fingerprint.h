// Compares a bundle with this machine: the runtime's version, the board that the device tree names,
// and the record of the programmed bitstream that `edgepipe bitstream install` writes.
//
//   Status status = check_logic_record(bundle.manifest().fingerprint, kLogicRecord);
//   if (!status.ok()) return exit_code(status.code());
//
// The record is in /run, so a reboot clears it together with the FPGA. Without a record, nothing is
// refused. What the FPGA says of itself is compared when the device is opened (own_registers.h).
#pragma once

#include <string>
#include <string_view>

#include "edgepipe/manifest.h"
#include "edgepipe/status.h"

namespace edgepipe {

inline constexpr const char* kLogicRecord = "/run/edgepipe/bitstream.json";
inline constexpr const char* kDeviceTree = "/proc/device-tree/compatible";

/// This runtime's version; it runs bundles built by the same version.
extern const std::string_view kVersion;

/// Compares the version that built the bundle with this runtime's. kOtherVersion names both and
/// the remedy. Any thread.
Status check_version(const Fingerprint& fingerprint);

/// Compares the known board that the device tree's list at `path` names with `board`, the one that
/// the bundle was built for. kOtherConfiguration names both and the remedy. Ok if there is no list,
/// or if one of the two is none of the boards in board/. Any thread; reads one small file.
Status check_machine(const std::string& board, const std::string& path);

/// Compares the record at `path`, if there is one, with the bundle's fingerprint. The kOther codes
/// name both values and the remedy; kCorrupt if the record cannot be read. Any thread; reads one
/// small file.
Status check_logic_record(const Fingerprint& fingerprint, const std::string& path);

/// The exit code of a program: 0 for kOk, 10 to 14 for the kOther codes of a fingerprint (the same
/// numbers as EXIT_CODES in edgepipe/bitstream/fingerprint.py), 15 to 19 for kUnsigned to
/// kUnverifiable (Refusal in edgepipe/bundle/signature.py), otherwise 1.
int exit_code(Code code);

}  // namespace edgepipe
