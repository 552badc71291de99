// Policy: which bundles this machine accepts. Root writes it to /etc/edgepipe/policy:
//
//   require_signature=yes     # by one of allowed_signers; default: no
//   versions_only_grow=yes    # needs require_signature; default: no
//   allowed_signers=/etc/edgepipe/allowed_signers
//   highest_version=/var/lib/edgepipe/highest_version
//
//   Result<Policy> policy = Policy::load(Policy::kFile);
//
// Without the file, every bundle is accepted. A file that cannot be read or understood accepts
// none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

struct Policy {
  static constexpr std::string_view kFile = "/etc/edgepipe/policy";

  bool require_signature = false;
  bool versions_only_grow = false;
  std::filesystem::path allowed_signers = "/etc/edgepipe/allowed_signers";
  std::filesystem::path highest_version = "/var/lib/edgepipe/highest_version";

  /// Reads a policy; the default one if there is no such file. kUnverifiable names file and line.
  static Result<Policy> load(const std::filesystem::path& file);

  /// OK if bundles of this version are accepted. kOlderRelease if it is lower than one that the
  /// machine has accepted, kUnverifiable if that is not known.
  [[nodiscard]] Status check_version(std::uint64_t version) const;
};

}  // namespace edgepipe
