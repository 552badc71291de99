// signature: verifies the OpenSSH signature of a bundle's manifest (`edgepipe sign`).
//
//   Result<std::string> signer =
//       verify_signature(manifest_text, signature, "/etc/edgepipe/allowed_signers");
//
// `ssh-keygen -Y verify` of OpenSSH 8.2 or later does the work as a child process: it is on every
// machine that can be deployed to, supports every kind of key and certificate, and gets its
// security fixes from the system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// Returns the signer's name in `allowed_signers`. kOtherSigner if the signer is not listed there,
/// kAltered if `signature` is not that of `manifest`, kUnverifiable if this machine cannot check
/// it. Blocks while the child processes run, at most ten seconds for each.
Result<std::string> verify_signature(std::span<const std::byte> manifest,
                                     std::span<const std::byte> signature,
                                     const std::filesystem::path& allowed_signers);

}  // namespace edgepipe
