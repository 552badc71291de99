// Which of the processor's optional instructions there are, by their names in /proc/cpuinfo.
#pragma once

#include <string_view>

namespace edgepipe {

/// False for a name that this build does not know, and where the OS does not save the registers.
bool has_cpu_feature(std::string_view name);

}  // namespace edgepipe
