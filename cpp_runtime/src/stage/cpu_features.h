// The processor's optional instruction sets, by their names in /proc/cpuinfo.
#pragma once

#include <string_view>

namespace edgepipe {

/// False for an unknown name, and if the OS does not save the registers.
bool has_cpu_feature(std::string_view name);

}  // namespace edgepipe
