// Raw pictures from a FIFO whose writers end, fall silent and come back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "edgepipe/picture_source.h"
#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ScratchFolder;
using ::testing::StartsWith;

class PictureFifoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    std::signal(SIGPIPE, SIG_IGN);  // a writer whose reader has gone
  }

  /// Gray pictures of 4x2 pixels.
  void open(const SilencePolicy& policy) {
    Result<std::unique_ptr<PictureSource>> opened =
        open_picture_pipe(path_, PixelFormat::kGray, 4, 2, policy);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    source_ = std::move(*opened);
  }

  /// Waits for the source to open its end, or for `stop_`.
  FileDescriptor writer() {
    for (;;) {
      FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      if (file.valid() || stop_) return file;
      std::this_thread::sleep_for(1ms);
    }
  }

  static void write(const FileDescriptor& file, const std::string& bytes) {
    EXPECT_EQ(::write(file.number(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }

  std::string next() {
    PictureLease lease;
    Result<bool> more = source_->next(lease, stop_);
    if (!more.ok()) return more.status().message();
    if (!*more) return "stopped";
    const std::span<const std::byte> bytes = lease.picture().bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  ScratchFolder scratch_;
  std::filesystem::path path_ = scratch_.path() / "fifo";
  std::unique_ptr<PictureSource> source_;
  std::atomic<bool> stop_{false};
};

TEST_F(PictureFifoTest, ContinuesAfterAWriterThatEndsInsideAPicture) {
  open({});
  std::thread writers([this] {
    write(writer(), "picture1pict");
    while (source_->counters().reconnects == 0) std::this_thread::sleep_for(1ms);
    write(writer(), "picture2");
  });
  EXPECT_EQ(next(), "picture1");
  EXPECT_EQ(next(), "picture2");
  writers.join();
  EXPECT_THAT(source_->fault(), HasSubstr("the input ends after 4 of 8 bytes"));
}

TEST_F(PictureFifoTest, NoPictureOfWritersThatFollowEachOtherAtOnceIsLost) {
  open({.limit = 500ms, .give_up = 1s});  // a lost picture fails the test
  std::thread writers([this] {
    for (int number = 1000; number < 1500 && !stop_; ++number) {
      write(writer(), "pict" + std::to_string(number));
    }
  });
  for (int number = 1000; number < 1500 && !HasFailure(); ++number) {
    EXPECT_EQ(next(), "pict" + std::to_string(number));
  }
  stop_ = true;
  writers.join();
}

TEST_F(PictureFifoTest, ACompressedPictureIsNoFrameAndTheNextWriterMayBeRight) {
  std::string told;
  open({.on_fault = [&](const std::string& text) {
    if (told.empty()) told = text;
  }});
  std::thread writers([this] {
    write(writer(), "\x89PNG\r\n\x1a\n");
    while (source_->counters().reconnects == 0) std::this_thread::sleep_for(1ms);
    write(writer(), "picture2");
  });
  EXPECT_EQ(next(), "picture2");
  writers.join();
  EXPECT_EQ(told, path_.string() +
                      ": frame 0: the input is PNG, expected raw frames of 8 bytes; closed, to be "
                      "opened again");
}

TEST_F(PictureFifoTest, OpensItAgainWhenItsWriterFallsSilent) {
  open({.limit = 100ms});
  // Not for writing alone, and open to the end: for a moment, the source may have the pipe closed.
  const FileDescriptor silent(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  std::thread writers([&] {
    write(silent, "picture1pict");
    while (source_->counters().silences == 0) std::this_thread::sleep_for(1ms);
    write(FileDescriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC)), "picture2");
  });
  EXPECT_EQ(next(), "picture1");
  EXPECT_EQ(next(), "picture2");
  writers.join();
  EXPECT_EQ(source_->fault(), path_.string() + ": no picture for 0.1 s");
  EXPECT_GE(source_->counters().reconnects, 1U);
  EXPECT_EQ(source_->counters().outage, 0ms);
}

TEST_F(PictureFifoTest, GivesUpWithoutAWriterAfterTheGivenTime) {
  open({.limit = 20ms, .give_up = 200ms});
  EXPECT_THAT(next(), StartsWith(path_.string() + ": no picture for 0.2 s, although"));
}

TEST_F(PictureFifoTest, StopEndsTheWaitForAWriter) {
  open({});
  std::thread stopper([this] {
    std::this_thread::sleep_for(50ms);
    stop_ = true;
  });
  EXPECT_EQ(next(), "stopped");
  stopper.join();
}

}  // namespace
}  // namespace edgepipe
