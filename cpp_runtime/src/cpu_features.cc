#include "cpu_features.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace edgepipe {

bool has_cpu_feature(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return __builtin_cpu_supports("avx2") != 0;
  if (name == "bmi1") return __builtin_cpu_supports("bmi") != 0;
  if (name == "bmi2") return __builtin_cpu_supports("bmi2") != 0;
  if (name == "f16c") return __builtin_cpu_supports("f16c") != 0;
  if (name == "fma") return __builtin_cpu_supports("fma") != 0;
  if (name == "movbe") return __builtin_cpu_supports("movbe") != 0;
#elif defined(__aarch64__)
  if (name == "asimd") return (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0;
#else
  static_cast<void>(name);
#endif
  return false;
}

}  // namespace edgepipe
