// log2_of: the exponent of a power of two.
#pragma once

#include <bit>
#include <cstdint>

namespace edgepipe {

constexpr std::uint32_t log2_of(std::uint32_t power_of_two) {
  return static_cast<std::uint32_t>(std::countr_zero(power_of_two));
}

}  // namespace edgepipe
