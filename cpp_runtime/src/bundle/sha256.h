// sha256: the SHA-256 digest (FIPS 180-4) of a byte string, as the 64 hex digits in a manifest.
//
//   file.sha256 == sha256(content)
//
// Every bundle is digested at every start, so the processor's own instructions are used if it has
// them (SHA extensions of x86-64, Cryptographic Extension of ARMv8). All kernels give the same
// bits. No library is suitable: those that use these instructions are not header-only, and the
// kernel's AF_ALG is an optional module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace edgepipe {

/// The digest in lower-case hex, as Python's hashlib and sha256sum print it.
std::string sha256(std::span<const std::byte> content);

using Sha256State = std::array<std::uint32_t, 8>;
constexpr std::size_t kSha256BlockBytes = 64;

/// The constants K of FIPS 180-4, 4.2.2.
extern const std::array<std::uint32_t, 64> kSha256Constants;

/// Updates the state by whole blocks.
struct Sha256Kernel {
  std::string_view name;
  void (*add_blocks)(Sha256State& state, const std::byte* blocks, std::size_t count) = nullptr;
};

/// The kernels that this processor can run, fastest first; the last is "portable".
std::vector<Sha256Kernel> sha256_kernels();

/// The digest as `kernel` computes it.
std::string sha256(std::span<const std::byte> content, const Sha256Kernel& kernel);

/// Adds the kernel for the SHA extensions of x86-64 (sha256_x86.cc).
void add_x86_sha256_kernel(std::vector<Sha256Kernel>& kernels);

/// Adds the kernel for ARMv8's Cryptographic Extension (sha256_armv8.cc).
void add_armv8_sha256_kernel(std::vector<Sha256Kernel>& kernels);

}  // namespace edgepipe
