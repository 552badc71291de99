// kStopInterval: how often a waiting source checks whether it must stop.
#pragma once

#include <chrono>

namespace edgepipe {

inline constexpr std::chrono::milliseconds kStopInterval{100};

}  // namespace edgepipe
