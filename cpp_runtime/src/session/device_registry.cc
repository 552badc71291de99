#include "edgepipe/device_registry.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "session/builtin_devices.h"

namespace edgepipe {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::size_t kMostIndex = 63;

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !name.empty() && std::ranges::all_of(name, allowed);
}

/// Reads "1" or "0+1"; false for anything else, including an index that is repeated or too large.
bool parse_indices(std::string_view text, std::vector<std::size_t>& indices) {
  indices.clear();
  for (;;) {
    const std::size_t end = std::min(text.find('+'), text.size());
    std::size_t index = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + end, index);
    const bool repeated = std::ranges::find(indices, index) != indices.end();
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || index > kMostIndex ||
        repeated) {
      return false;
    }
    indices.push_back(index);
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

constexpr int kMostPriority = 9;

bool parse_priority(std::string_view text, int& priority) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), priority);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() &&
         priority >= -kMostPriority && priority <= kMostPriority;
}

/// Reads "0+1", "shared", "1,shared" or "shared,priority=2"; `shares` says whether sharing is
/// possible. False for anything else, including an empty part and a priority without "shared".
bool parse_parts(std::string_view text, bool shares, DeviceChoice& choice) {
  constexpr std::string_view kPriority = "priority=";
  for (bool first = true;; first = false) {
    const std::string_view part = text.substr(0, text.find(','));
    if (shares && part == "shared" && !choice.shared) {
      choice.shared = true;
    } else if (choice.shared && part.starts_with(kPriority)) {
      if (!parse_priority(part.substr(kPriority.size()), choice.priority)) return false;
    } else if (!first || !parse_indices(part, choice.indices)) {
      return false;
    }
    if (part.size() == text.size()) return true;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

DeviceRegistry& DeviceRegistry::instance() {
  static DeviceRegistry registry;
  return registry;
}

DeviceRegistry::DeviceRegistry() : kinds_(builtin_devices()) {}

Status DeviceRegistry::add(DeviceKind kind) {
  const auto refuse = [&kind](const std::string& why) {
    return Status(Code::kInvalidArgument, "device kind '" + kind.name + "': " + why);
  };
  if (!is_name(kind.name)) return refuse("expected a name of letters, digits, - and _");
  if (!kind.open) return refuse("it has no function that opens it");
  const std::scoped_lock lock(mutex_);
  if (kind.name == kAuto ||
      std::ranges::find(kinds_, kind.name, &DeviceKind::name) != kinds_.end()) {
    return refuse("the name is taken");
  }
  kinds_.push_back(std::move(kind));
  return {};
}

Result<DeviceKind> DeviceRegistry::find(std::string_view name) const {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find(kinds_, name, &DeviceKind::name);
    if (found != kinds_.end()) return *found;
  }
  return Status(Code::kInvalidArgument,
                "found device '" + std::string(name) + "', expected " + choices());
}

std::vector<DeviceKind> DeviceRegistry::kinds() const {
  const std::scoped_lock lock(mutex_);
  return kinds_;
}

std::string DeviceRegistry::detect() const {
  for (const DeviceKind& kind : kinds()) {
    if (kind.present && kind.present()) return kind.name;
  }
  return "simulator";
}

Result<DeviceChoice> DeviceRegistry::parse(std::string_view text) const {
  const Status refused(Code::kInvalidArgument,
                       "found device '" + std::string(text) + "', expected " + choices());
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  DeviceChoice choice{.kind = std::string(text.substr(0, colon))};
  bool takes_argument = false;
  bool shares = true;  // auto is shared if what it finds can be
  if (choice.kind != kAuto) {
    const Result<DeviceKind> kind = find(choice.kind);
    if (!kind.ok()) return refused;
    takes_argument = !kind->argument.empty();
    shares = kind->shares;
  }
  if (takes_argument) {
    if (rest.empty()) return refused;
    choice.argument = rest;
  } else if (colon < text.size() && !parse_parts(rest, shares, choice)) {
    return refused;
  }
  return choice;
}

std::string DeviceRegistry::choices() const {
  std::string names(kAuto);
  const std::vector<DeviceKind> all = kinds();
  for (const DeviceKind& kind : all) {
    names += &kind == &all.back() ? " or " : ", ";
    names += kind.name + (kind.argument.empty() ? "" : ":" + kind.argument);
  }
  return names +
         "; uio:1 is the second accelerator, uio:0+1 the first two, "
         "uio:shared one that other processes use, too";
}

}  // namespace edgepipe
