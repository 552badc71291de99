// Names of instruction sets have the same meaning as in the kernel.
#include "stage/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace edgepipe {
namespace {

TEST(CpuFeatures, AnUnknownNameIsNotAFeature) { EXPECT_FALSE(has_cpu_feature("warp_drive")); }

#if defined(__x86_64__)
TEST(CpuFeatures, AreThoseOfTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t flags = text.find("\nflags");
  ASSERT_NE(flags, std::string::npos);
  std::istringstream line(text.substr(flags, text.find('\n', flags + 1) - flags));
  const std::set<std::string> found{std::istream_iterator<std::string>(line), {}};
  for (const char* name : {"avx2", "avx512_vnni", "avx512bw", "avx512cd", "avx512dq", "avx512f",
                           "avx512vl", "bmi1", "bmi2", "f16c", "fma", "movbe"}) {
    EXPECT_EQ(has_cpu_feature(name), found.contains(name)) << name;
  }
}
#endif

}  // namespace
}  // namespace edgepipe
