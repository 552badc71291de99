// Values of a manifest that are only valid within limits: names from a list, small numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_reader.h"

namespace edgepipe {

constexpr int kMostSmall = 1'000'000;  // pixels of a side, and other small numbers

/// The text at `key`; an error that lists the known ones if it is another.
template <std::size_t kCount>
std::string one_of(JsonReader& reader, const char* key,
                   const std::array<std::string_view, kCount>& known) {
  std::string found = reader.text(key);
  if (std::ranges::find(known, found) == known.end()) {
    std::string list;
    for (const std::string_view name : known) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    reader.fail(key, "found \"" + found + "\", expected one of " + list);
  }
  return found;
}

/// A whole number from `least` to kMostSmall; an error and `least` for another one.
inline int small_whole(JsonReader& reader, const char* key, int least) {
  const std::uint64_t found = reader.whole(key);
  if (found > kMostSmall || static_cast<int>(found) < least) {
    reader.fail(key, "found " + std::to_string(found) + ", expected " + std::to_string(least) +
                         " to " + std::to_string(kMostSmall));
    return least;
  }
  return static_cast<int>(found);
}

}  // namespace edgepipe
