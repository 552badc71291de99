// Cache maintenance by processor instructions, without the kernel, to the point of coherency of
// DMA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgepipe {

#if defined(__aarch64__)

inline constexpr bool kMaintainsCaches = true;

/// Bytes of the smallest data cache line: CTR_EL0, DminLine, the log2 of its words.
inline std::uintptr_t cache_line_bytes() {
  std::uint64_t type = 0;
  asm("mrs %0, ctr_el0" : "=r"(type));
  return std::uintptr_t{4} << (type >> 16 & 15U);
}

/// Writes the range's cached lines back to memory; with `invalidate` they are also removed from the
/// cache. Lines that are only partly in the range are included.
inline void clean_caches(const std::byte* data, std::size_t bytes, bool invalidate) {
  const std::uintptr_t line = cache_line_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(data) & ~(line - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(data) + bytes;
  for (std::uintptr_t address = begin; address < end; address += line) {
    if (invalidate) {
      asm volatile("dc civac, %0" ::"r"(address) : "memory");
    } else {
      asm volatile("dc cvac, %0" ::"r"(address) : "memory");
    }
  }
  asm volatile("dsb sy" ::: "memory");
}

#else

// On x86-64, DMA is cache coherent. On 32-bit ARM, only the kernel may maintain caches.
#if defined(__x86_64__)
inline constexpr bool kMaintainsCaches = true;
#else
inline constexpr bool kMaintainsCaches = false;
#endif

inline void clean_caches(const std::byte* /*data*/, std::size_t /*bytes*/, bool /*invalidate*/) {}

#endif

}  // namespace edgepipe
