#include "bundle/policy.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMendPolicy = "as root, correct the file; the guide to boards describes it";

Status unusable(const fs::path& file, const std::string& text) {
  return {Code::kUnverifiable, file.string() + ": " + text, kMendPolicy};
}

/// The text of a file; none if there is no such file. kUnverifiable if it cannot be read,
/// kOutOfMemory if the process has no memory or descriptor for it.
Result<std::optional<std::string>> text_of(const fs::path& file) {
  Result<MappedFile> found = MappedFile::open(file);
  if (found.ok()) {
    const std::span<const std::byte> bytes = found->bytes();
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    return std::optional<std::string>(std::in_place, text, bytes.size());
  }
  if (found.status().code() == Code::kNotFound) return std::optional<std::string>();
  if (found.status().code() == Code::kOutOfMemory) return found.status();
  return Status(Code::kUnverifiable, found.status().message(), kMendPolicy);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// Returns what was expected, or "".
std::string set_flag(bool& flag, std::string_view value) {
  if (value != "yes" && value != "no") return "yes or no";
  flag = value == "yes";
  return "";
}

std::string set_path(fs::path& path, std::string_view value) {
  if (!value.starts_with('/')) return "an absolute path";
  path = value;
  return "";
}

std::string set_value(Policy& policy, std::string_view key, std::string_view value) {
  if (key == "require_signature") return set_flag(policy.require_signature, value);
  if (key == "versions_only_grow") return set_flag(policy.versions_only_grow, value);
  if (key == "allowed_signers") return set_path(policy.allowed_signers, value);
  if (key == "highest_version") return set_path(policy.highest_version, value);
  return "one of require_signature, versions_only_grow, allowed_signers, highest_version";
}

}  // namespace

Result<Policy> Policy::load(const fs::path& file) {
  Policy policy;
  Result<std::optional<std::string>> text = text_of(file);
  if (!text.ok()) return text.status();
  if (!text->has_value()) return policy;
  std::string_view rest = **text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    const std::string expected =
        equals == std::string_view::npos
            ? "KEY=VALUE"
            : set_value(policy, line.substr(0, equals), line.substr(equals + 1));
    if (!expected.empty()) {
      return unusable(file, "line " + std::to_string(number) + ": found '" + std::string(line) +
                                "', expected " + expected);
    }
  }
  if (policy.versions_only_grow && !policy.require_signature) {
    return unusable(file,
                    "versions_only_grow=yes needs require_signature=yes, because only a "
                    "signature makes a version authentic");
  }
  return policy;
}

Status Policy::check_version(std::uint64_t version) const {
  if (!versions_only_grow) return {};
  Result<std::optional<std::string>> text = text_of(highest_version);
  if (!text.ok()) return text.status();
  if (!text->has_value()) return {};  // none has been accepted yet
  const std::string_view digits = (*text)->ends_with('\n')
                                      ? std::string_view(**text).substr(0, (*text)->size() - 1)
                                      : std::string_view(**text);
  std::uint64_t highest = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), highest);
  if (error != std::errc() || end != digits.end()) {
    return unusable(highest_version, "found no version, expected a number");
  }
  if (version >= highest) return {};
  return {Code::kOlderRelease,
          "the bundle's version is " + std::to_string(version) + ", this machine accepts " +
              std::to_string(highest) + " and later ones (" + highest_version.string() + ")",
          "build and sign the bundle again with a version of at least " + std::to_string(highest)};
}

}  // namespace edgepipe
