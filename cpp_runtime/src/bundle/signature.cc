#include "bundle/signature.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "base/memory_file.h"

namespace edgepipe {
namespace {

constexpr const char* kTool = "ssh-keygen";
// Prevents a signature made for another purpose from counting as that of a bundle.
constexpr const char* kNamespace = "edgepipe-bundle";
constexpr const char* kSignatureFile = "/proc/self/fd/3";  // of the child
constexpr std::chrono::seconds kTimeLimit{10};
constexpr const char* kGetAgain = "get the bundle from its signer again";

/// A signature and the text that it should sign, as files for ssh-keygen.
struct Files {
  FileDescriptor manifest;
  FileDescriptor signature;
};

/// What ssh-keygen wrote to its standard output; kUnverifiable if it cannot run or cannot verify
/// signatures, kCorrupt with its message if it refuses.
Result<std::string> run(std::vector<std::string> arguments, const Files& files) {
  arguments.insert(arguments.begin(), kTool);
  ::lseek(files.manifest.number(), 0, SEEK_SET);
  Result<ChildProcess> child = ChildProcess::start(
      arguments, {.standard_input = files.manifest.number(), .third = files.signature.number()});
  if (child.status().code() == Code::kOutOfMemory) return child.status();
  if (!child.ok()) {
    return Status(Code::kUnverifiable, child.status().message(), "install the OpenSSH client");
  }
  const Clock::time_point deadline = Clock::now() + kTimeLimit;
  Result<std::string> output = child->read_all(deadline);
  if (!output.ok()) return Status(Code::kUnverifiable, output.status().message());
  Status ended = child->wait(deadline);
  if (ended.ok()) return output;
  for (const std::string_view words : {"nsupported operation", "ssh-keygen -"}) {
    // What an OpenSSH prints that does not support -Y or this use of it.
    if (ended.message().find(words) != std::string::npos) {
      return Status(Code::kUnverifiable,
                    "ssh-keygen: cannot verify signatures, found a version before OpenSSH 8.2",
                    "install OpenSSH 8.2 or later");
    }
  }
  if (ended.code() == Code::kCorrupt) return ended;
  return Status(Code::kUnverifiable, ended.message(), "install the OpenSSH client");
}

/// The words of `text` between line ends and commas.
std::vector<std::string> principals_in(std::string_view text) {
  std::vector<std::string> principals;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
    const std::string_view principal = text.substr(0, end);
    if (!principal.empty() && !principal.starts_with('!')) principals.emplace_back(principal);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return principals;
}

/// The error for a signature that no allowed signer has made.
Status refusal(const Files& files, const std::filesystem::path& allowed_signers) {
  Result<std::string> made =
      run({"-Y", "check-novalidate", "-n", kNamespace, "-s", kSignatureFile}, files);
  if (!made.ok() && made.status().code() == Code::kUnverifiable) return made.status();
  if (!made.ok()) {
    return {Code::kAltered, "manifest.json does not match its signature in manifest.sig",
            kGetAgain};
  }
  std::string_view key = *made;
  key.remove_prefix(std::min(key.rfind(" with ") + 6, key.size()));
  key = key.substr(0, key.find('\n'));
  return {
      Code::kOtherSigner,
      "signed with " + std::string(key) + ", which " + allowed_signers.string() + " does not allow",
      "get the bundle from a signer that this machine trusts, or, as root, add this one to " +
          allowed_signers.string()};
}

}  // namespace

Result<std::string> verify_signature(std::span<const std::byte> manifest,
                                     std::span<const std::byte> signature,
                                     const std::filesystem::path& allowed_signers) {
  if (::access(allowed_signers.c_str(), R_OK) != 0) {
    return Status(
        Code::kUnverifiable,
        allowed_signers.string() + ": cannot be read: " + std::generic_category().message(errno),
        "as root, list the signers that this machine trusts in that file");
  }
  Result<FileDescriptor> manifest_file = memory_file("manifest.json", manifest);
  if (!manifest_file.ok()) return manifest_file.status();
  Result<FileDescriptor> signature_file = memory_file("manifest.sig", signature);
  if (!signature_file.ok()) return signature_file.status();
  const Files files{*std::move(manifest_file), *std::move(signature_file)};

  Result<std::string> found =
      run({"-Y", "find-principals", "-s", kSignatureFile, "-f", allowed_signers}, files);
  if (!found.ok() && found.status().code() == Code::kUnverifiable) return found.status();
  if (found.ok()) {
    for (const std::string& principal : principals_in(*found)) {
      if (run({"-Y", "verify", "-n", kNamespace, "-I", principal, "-f", allowed_signers, "-s",
               kSignatureFile},
              files)
              .ok()) {
        return principal;
      }
    }
  }
  return refusal(files, allowed_signers);
}

}  // namespace edgepipe
