#include "stage/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace edgepipe {

#if defined(__x86_64__)
namespace {

// Bits of CPUID leaf 1, ECX (Intel SDM vol. 2A, CPUID); clang's builtin does not support the names.
constexpr unsigned kMovbe = 1U << 22;
constexpr unsigned kF16c = 1U << 29;

bool has_leaf1_ecx(unsigned bit) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit) != 0;
}

// The SHA extensions (leaf 7, EBX), with the SSE4.1 that code for them also uses.
bool has_sha() {
  constexpr unsigned kSha = 1U << 29;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kSha) != 0 &&
         __builtin_cpu_supports("sse4.1") != 0;
}

}  // namespace
#endif

bool has_cpu_feature(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return __builtin_cpu_supports("avx2") != 0;
  if (name == "avx512_vnni") return __builtin_cpu_supports("avx512vnni") != 0;
  if (name == "avx512bw") return __builtin_cpu_supports("avx512bw") != 0;
  if (name == "avx512cd") return __builtin_cpu_supports("avx512cd") != 0;
  if (name == "avx512dq") return __builtin_cpu_supports("avx512dq") != 0;
  if (name == "avx512f") return __builtin_cpu_supports("avx512f") != 0;
  if (name == "avx512vl") return __builtin_cpu_supports("avx512vl") != 0;
  if (name == "bmi1") return __builtin_cpu_supports("bmi") != 0;
  if (name == "bmi2") return __builtin_cpu_supports("bmi2") != 0;
  if (name == "f16c") return has_leaf1_ecx(kF16c);
  if (name == "fma") return __builtin_cpu_supports("fma") != 0;
  if (name == "movbe") return has_leaf1_ecx(kMovbe);
  if (name == "sha_ni") return has_sha();
#elif defined(__aarch64__)
  if (name == "asimd") return (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
  if (name == "sha2") return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
#elif defined(__arm__)
  if (name == "neon") return (getauxval(AT_HWCAP) & HWCAP_NEON) != 0;
#else
  static_cast<void>(name);
#endif
  return false;
}

}  // namespace edgepipe
