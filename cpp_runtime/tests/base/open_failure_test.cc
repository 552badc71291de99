// Too many open files: every place that opens one says so.
#include "base/open_failure.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "base/mapped_file.h"
#include "base/shared_mapping.h"
#include "bundle/bundle_files.h"
#include "edgepipe/picture_source.h"
#include "media/sources/frame_source.h"
#include "media/sources/v4l2_stream.h"
#include "programs/output_file.h"
#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

constexpr rlim_t kFiles = 64;

/// This process with as many open files as it may have.
class NoFileLeft {
 public:
  NoFileLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = kFiles, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    do {
      taken_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (taken_.back().valid());
  }
  NoFileLeft(const NoFileLeft&) = delete;
  NoFileLeft& operator=(const NoFileLeft&) = delete;
  ~NoFileLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<FileDescriptor> taken_;
};

TEST(OpenFailure, TooManyOpenFilesAreNamedWhereverOneIsOpened) {
  const testing::ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "file.ppm";
  testing::write_file(path, "P6 1 1 255\nrgb");
  // UBSan opens a file when it meets an object's class for the first time, so it meets them here.
  std::vector<Status> found = {V4l2Stream::open("/dev/null", {}, V4l2Calls::kernel()).status()};
  found.clear();
  {
    const NoFileLeft full;
    found.push_back(MappedFile::open(path).status());
    found.push_back(SharedMapping::open(path, {}).status());
    found.push_back(FrameSource::open(path, FrameSource::Format::kPictures, {}).status());
    found.push_back(FrameSource::open("-", FrameSource::Format::kRaw, {}).status());
    found.push_back(V4l2Stream::open("/dev/null", {}, V4l2Calls::kernel()).status());
    found.push_back(ChildProcess::start({"true"}).status());
    found.push_back(programs::create_file((scratch.path() / "new").string()).status());
    found.push_back(programs::create_file("-").status());
    found.push_back(open_picture_folder(scratch.path(), {}).status());
    found.push_back(BundleFiles::open(scratch.path()).status());
  }
  // Checked with files to spare: UBSan opens one to examine a matcher.
  for (const Status& status : found) {
    EXPECT_THAT(status.message(), HasSubstr(": too many open files, this process may have 64"));
    EXPECT_EQ(status.hint(), "raise the limit: ulimit -n, or LimitNOFILE= of a unit");
  }
}

TEST(OpenFailure, OtherReasonsKeepTheirCodeAndHint) {
  const Status status = open_failure(Code::kNotFound, "x", ENOENT, "look elsewhere");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "x: No such file or directory");
  EXPECT_EQ(status.hint(), "look elsewhere");
  const Status machine = open_failure(Code::kNotFound, "x", ENFILE);
  EXPECT_EQ(machine.message(), "x: too many open files on this machine");
  EXPECT_EQ(machine.hint(), "end other programs, or raise the limit: sysctl fs.file-max");
}

}  // namespace
}  // namespace edgepipe
