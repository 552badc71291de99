// seconds_text: a duration as text for people.
//
//   seconds_text(std::chrono::milliseconds(2500))  // "2.5 s"
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace edgepipe {

/// "5 s", "2.5 s", "0.001 s".
inline std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g s", static_cast<double>(time.count()) / 1e3);
  return text;
}

}  // namespace edgepipe
