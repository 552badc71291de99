// memory_file: its content, and a process that may not write a file of this size.
#include "base/memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace edgepipe {
namespace {

/// This process, which may write files of `bytes` at most.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFilesOnly(const SmallFilesOnly&) = delete;
  SmallFilesOnly& operator=(const SmallFilesOnly&) = delete;
  ~SmallFilesOnly() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(MemoryFile, StartsWithItsContent) {
  const std::string content = "seven\n1";
  const Result<FileDescriptor> file = memory_file("numbers", std::as_bytes(std::span(content)));
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::array<char, 16> read{};
  ASSERT_EQ(::read(file->number(), read.data(), read.size()), 7);
  EXPECT_STREQ(read.data(), content.c_str());
}

TEST(MemoryFile, LargerThanTheProcessMayWriteIsAnErrorAndNoSignal) {
  const std::vector<std::byte> content(101);
  Status larger;
  Status equal;
  {
    const SmallFilesOnly limited(100);
    larger = memory_file("kernels.so", content).status();
    equal = memory_file("kernels.so", std::span(content).first(100)).status();
  }
  EXPECT_TRUE(equal.ok()) << equal.message();
  EXPECT_EQ(larger.code(), Code::kOutOfMemory);
  EXPECT_EQ(larger.message(), "kernels.so: 101 bytes, this process may write files of at most 100");
  EXPECT_EQ(larger.hint(), "raise the limit: ulimit -f, or LimitFSIZE= of a unit");
}

}  // namespace
}  // namespace edgepipe
