#include "bundle/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace edgepipe {
namespace {

// FIPS 180-4, 5.3.3.
constexpr Sha256State kInitialState = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::size_t kLengthBytes = 8;

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (std::size_t index = 0; index < 4; ++index) {
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[index]);
  }
  return value;
}

// FIPS 180-4, 4.1.2 and 6.2.2. Only the last 16 words of the message schedule are kept.
void add_block(Sha256State& state, const std::byte* block) {
  std::array<std::uint32_t, 16> words;
  for (std::size_t t = 0; t < words.size(); ++t) words[t] = big_endian(block + 4 * t);
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < kSha256Constants.size(); ++t) {
    std::uint32_t& word = words[t % 16];
    if (t >= 16) {
      const std::uint32_t w2 = words[(t - 2) % 16];
      const std::uint32_t w15 = words[(t - 15) % 16];
      word += (std::rotr(w2, 17) ^ std::rotr(w2, 19) ^ w2 >> 10) + words[(t - 7) % 16] +
              (std::rotr(w15, 7) ^ std::rotr(w15, 18) ^ w15 >> 3);
    }
    const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             (g ^ (e & (f ^ g))) + kSha256Constants[t] + word;
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) | (c & (a | b)));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const Sha256State mixed = {a, b, c, d, e, f, g, h};
  for (std::size_t index = 0; index < state.size(); ++index) state[index] += mixed[index];
}

void add_blocks(Sha256State& state, const std::byte* blocks, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    add_block(state, blocks + index * kSha256BlockBytes);
  }
}

}  // namespace

const std::array<std::uint32_t, 64> kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::vector<Sha256Kernel> sha256_kernels() {
  std::vector<Sha256Kernel> kernels;
#if defined(__x86_64__)
  add_x86_sha256_kernel(kernels);
#elif defined(__aarch64__)
  add_armv8_sha256_kernel(kernels);
#endif
  kernels.push_back({"portable", add_blocks});
  return kernels;
}

std::string sha256(std::span<const std::byte> content, const Sha256Kernel& kernel) {
  Sha256State state = kInitialState;
  const std::size_t whole = content.size() / kSha256BlockBytes;
  kernel.add_blocks(state, content.data(), whole);

  // The rest, a one bit, zeros, and the length in bits (FIPS 180-4, 5.1.1).
  const std::span<const std::byte> rest = content.subspan(whole * kSha256BlockBytes);
  std::array<std::byte, 2 * kSha256BlockBytes> end{};
  std::ranges::copy(rest, end.begin());
  end[rest.size()] = std::byte{0x80};
  const std::size_t blocks = rest.size() + 1 + kLengthBytes <= kSha256BlockBytes ? 1 : 2;
  std::uint64_t bits = std::uint64_t{content.size()} * 8;
  for (std::size_t index = 1; index <= kLengthBytes; ++index) {
    end[blocks * kSha256BlockBytes - index] = static_cast<std::byte>(bits);
    bits >>= 8;
  }
  kernel.add_blocks(state, end.data(), blocks);

  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  }
  return text;
}

std::string sha256(std::span<const std::byte> content) {
  static const Sha256Kernel fastest = sha256_kernels().front();
  return sha256(content, fastest);
}

}  // namespace edgepipe
