// Too many open files: every place that opens a file reports it.
#include "base/open_failure.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "base/mapped_file.h"
#include "base/memory_file.h"
#include "base/shared_mapping.h"
#include "bundle/bundle_files.h"
#include "bundle/fingerprint.h"
#include "bundle/policy.h"
#include "device/foreign_driver.h"
#include "device/uio.h"
#include "device/uio_device.h"
#include "device/vta_registers.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/stage.h"
#include "media/pictures/jpeg_codec.h"
#include "media/sources/frame_source.h"
#include "media/sources/v4l2_stream.h"
#include "memory/dma_heap_memory.h"
#include "memory/udmabuf_memory.h"
#include "memory/zocl_memory.h"
#include "programs/output_file.h"
#include "support/bundle_test_files.h"
#include "support/fake_board.h"
#include "web/page_access.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

constexpr rlim_t kFiles = 64;

/// This process with as many open files as it may have, minus `spare`.
class NoFileLeft {
 public:
  explicit NoFileLeft(std::size_t spare = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = kFiles, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    do {
      taken_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (taken_.back().valid());
    taken_.resize(taken_.size() - 1 - spare);
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
  const std::filesystem::path library = scratch.path() / "not_loaded_yet.so";
  std::filesystem::copy_file(EDGEPIPE_TEST_DRIVER, library);
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
    found.push_back(ForeignDriver::open(library).status());
    found.push_back(FunctionStage::open("f", library, "VTADeviceRun").status());
    found.push_back(JpegCodec::create().status());
    found.push_back(memory_file("file", {}).status());
  }
  // Checked with files to spare: UBSan opens one to examine a matcher.
  for (const Status& status : found) {
    EXPECT_THAT(status.message(), HasSubstr(": too many open files, this process may have 64"));
    EXPECT_EQ(status.hint(), "raise the limit: ulimit -n, or LimitNOFILE= of a unit");
  }
}

/// The errors of `open` with 0, 1, 2, ... descriptors to spare, until there are enough.
template <typename Open>
std::vector<Status> failures(const Open& open) {
  EXPECT_TRUE(open().ok());  // UBSan meets its classes here, as above
  std::vector<Status> found;
  for (std::size_t spare = 0; spare < 16; ++spare) {
    Status status;
    {
      const NoFileLeft full(spare);
      status = open();
    }
    if (status.ok()) return found;
    found.push_back(status);
  }
  ADD_FAILURE() << found.back().message();
  return found;
}

TEST(OpenFailure, TooManyOpenFilesAreNotTakenForAMissingAccelerator) {
  testing::FakeBoard board;
  board.add_uio("uio0", "vta", vta::kBytes);
  board.add_udmabuf("u-dma-buf");
  const std::string classes = board.classes;
  const std::string devices = board.devices;
  const UioInfo info = *find_uio("vta", classes, devices);
  std::vector<Status> found;
  const auto add = [&](const std::vector<Status>& more) {
    EXPECT_FALSE(more.empty());
    found.insert(found.end(), more.begin(), more.end());
  };
  add(failures([&] { return find_uio("vta", classes, devices).status(); }));
  add(failures([&] { return UioRegisters::open(info, vta::kBytes).status(); }));
  add(failures([&] { return UioInterrupt::open(info).status(); }));
  add(failures([&] { return UdmabufMemory::open(board.memory_options()).status(); }));
  EXPECT_TRUE(PipelineTrace().write(devices + "/trace.json").ok());
  bool present = false;
  {
    const NoFileLeft full;
    present =
        uio_device_present(board.uio_options()) && UdmabufMemory::present(board.memory_options()) &&
        ZoclMemory::present({.classes = classes}) && DmaHeapMemory::present({.devices = devices});
    found.push_back(ZoclMemory::open({.classes = classes}).status());
    found.push_back(DmaHeapMemory::open({.devices = devices}).status());
    found.push_back(check_logic_record({}, devices + "/logic.json"));
    found.push_back(Policy::load(devices + "/policy").status());
    found.push_back(read_token_file(devices + "/token").status());
    found.push_back(PipelineTrace().write(devices + "/trace.json"));
  }
  EXPECT_TRUE(present);
  for (const Status& status : found) {
    EXPECT_THAT(status.message(), HasSubstr(": too many open files, this process may have 64"));
    EXPECT_EQ(status.hint(), "raise the limit: ulimit -n, or LimitNOFILE= of a unit");
  }
}

TEST(OpenFailure, AChildWithoutTheInputsItWasGivenIsNotStarted) {
  const FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto failures_with = [](ChildProcess::Inputs inputs) {
    return failures([&] { return ChildProcess::start({"true"}, inputs).status(); });
  };
  const std::vector<Status> with_one = failures_with({.standard_input = null.number()});
  const std::vector<Status> with_two =
      failures_with({.standard_input = null.number(), .third = null.number()});
  EXPECT_EQ(with_two.size(), with_one.size() + 1);
  for (const Status& status : with_two) {
    EXPECT_THAT(status.message(), HasSubstr(": too many open files, this process may have 64"));
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
