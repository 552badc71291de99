// kStopInterval: how often a source that waits looks whether it shall stop.
#pragma once

#include <chrono>

namespace edgepipe {

inline constexpr std::chrono::milliseconds kStopInterval{100};

}  // namespace edgepipe
