// A file in memory keeps its content, even if the file changes afterwards.
#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using testing::ScratchFolder;
using testing::write_file;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, KeepsItsContentWhenTheFileIsTruncatedOrRewritten) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "file";
  const std::string content(100'000, 'x');
  write_file(path, content);
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(text_of(*file), content);
  write_file(path, "other");
  EXPECT_EQ(text_of(*file), content);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const ScratchFolder scratch;
  write_file(scratch.path() / "file", "");
  EXPECT_TRUE(MappedFile::open(scratch.path() / "file")->bytes().empty());
}

TEST(MappedFile, AFifoIsRefusedAtOnce) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path).status().message(), path.string() + ": not a regular file");
}

TEST(MappedFile, AFileThatEndsBeforeItsSizeIsRefused) {
  // Files of sysfs claim the size of a page but end earlier, like a file that is truncated
  // meanwhile.
  const std::string path = "/sys/devices/system/cpu/online";
  const Status status = MappedFile::open(path).status();
  EXPECT_EQ(status.message(), path + ": became shorter while it was read");
  EXPECT_EQ(status.hint(), "wait until the program that writes it has finished");
}

}  // namespace
}  // namespace edgepipe
