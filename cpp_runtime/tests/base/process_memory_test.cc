// peak_resident_bytes: of this process, and from files of other forms.
#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace edgepipe {
namespace {

Result<std::uint64_t> peak_in(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "status";
  std::ofstream(path) << text;
  return peak_resident_bytes(path);
}

TEST(ProcessMemory, GrowsWithMemoryThatIsUsed) {
  const Result<std::uint64_t> before = peak_resident_bytes();
  ASSERT_TRUE(before.ok()) << before.status().message();
  const std::vector<char> used(static_cast<std::size_t>(*before) + (16 << 20), 1);
  const Result<std::uint64_t> after = peak_resident_bytes();
  ASSERT_TRUE(after.ok());
  EXPECT_GE(*after, used.size());
}

TEST(ProcessMemory, IsTheHighestAmountAndNotTheCurrentOne) {
  const Result<std::uint64_t> peak = peak_in("Name:\trun\nVmHWM:\t    2048 kB\nVmRSS:\t 12 kB\n");
  ASSERT_TRUE(peak.ok()) << peak.status().message();
  EXPECT_EQ(*peak, 2048 * 1024);
}

TEST(ProcessMemory, TheCurrentAmountIsAnotherLine) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "status";
  std::ofstream(path) << "Name:\trun\nVmHWM:\t    2048 kB\nVmRSS:\t 12 kB\n";
  const Result<std::uint64_t> now = resident_bytes(path);
  ASSERT_TRUE(now.ok()) << now.status().message();
  EXPECT_EQ(*now, 12 * 1024);
  EXPECT_GT(*resident_bytes(), 0);
}

TEST(ProcessMemory, FilesOfAnotherFormAreAnError) {
  for (const char* text : {"", "VmRSS:\t12 kB\n", "VmHWM:\n", "VmHWM:\t12\n", "VmHWM:\tmany kB\n",
                           "VmHWM:\t99999999999999999999 kB\n"}) {
    EXPECT_EQ(peak_in(text).status().code(), Code::kCorrupt) << text;
  }
  EXPECT_EQ(peak_resident_bytes("/none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace edgepipe
