#include "media/sources/frame_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;
using testing::ScratchFolder;
using testing::write_file;
using Format = FrameSource::Format;

constexpr std::size_t kFrameBytes = 2 * 1 * 3;

class FrameSourceTest : public ::testing::Test {
 protected:
  FrameSource open(const std::string& content, Format format, const std::string& order = "RGB") {
    write_file(scratch_.path() / "input", content);
    Result<FrameSource> source =
        FrameSource::open(scratch_.path() / "input", format, picture(order));
    EXPECT_TRUE(source.ok()) << source.status().message();
    return *std::move(source);
  }

  static Preprocess picture(const std::string& order) {
    Preprocess preprocess;
    preprocess.width = 2;
    preprocess.height = 1;
    preprocess.order = order;
    preprocess.fit = "stretch";
    return preprocess;
  }

  /// The next frame, "" at the end of the input, or "error: ..." without the path.
  std::string next(FrameSource& source, std::size_t bytes = kFrameBytes) {
    std::string frame(bytes, '?');
    const Result<bool> more = source.read(std::as_writable_bytes(std::span(frame)), stop_);
    if (!more.ok()) {
      const std::string message = more.status().message();
      return "error" + message.substr(message.find("input:") + 5);
    }
    return *more ? frame : "";
  }

  ScratchFolder scratch_;
  std::atomic<bool> stop_{false};
};

TEST_F(FrameSourceTest, AnInputThatFallsSilentIsAnErrorAfterItsTimeLimit) {
  const std::filesystem::path path = scratch_.path() / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::atomic<std::uint64_t> steps{0};
  Result<FrameSource> source =
      FrameSource::open(path, Format::kRaw, picture("RGB"),
                        {.limit = std::chrono::milliseconds(150), .steps = &steps});
  ASSERT_TRUE(source.ok()) << "without a writer, open does not block";
  const FileDescriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::write(writer.number(), "abc", 3), 3);
  std::string frame(kFrameBytes, '?');
  const Status status = source->read(std::as_writable_bytes(std::span(frame)), stop_).status();
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_THAT(status.message(), HasSubstr("fifo: frame 0: incomplete after 0.15 s"));
  EXPECT_EQ(status.hint(), "check the program that writes it");
  EXPECT_EQ(steps, 1U) << "the three bytes";
}

TEST_F(FrameSourceTest, RawFramesFollowOneAnother) {
  FrameSource source = open("abcdefABCDEF", Format::kRaw);
  EXPECT_EQ(next(source), "abcdef");
  EXPECT_EQ(next(source), "ABCDEF");
  EXPECT_EQ(next(source), "");
}

TEST_F(FrameSourceTest, AnInputThatEndsInsideAFrameNamesIt) {
  FrameSource source = open("abcdefAB", Format::kRaw);
  EXPECT_EQ(next(source), "abcdef");
  EXPECT_EQ(next(source), "error: frame 1: the input ends after 2 of 6 bytes");
}

TEST_F(FrameSourceTest, PicturesComeInTheOrderOfTheNetwork) {
  const std::string two = "P6\n2 1\n255\nabcdefP6 # a comment\n2\t1 255 ABCDEF";
  FrameSource rgb = open(two, Format::kPictures, "RGB");
  EXPECT_EQ(next(rgb), "abcdef");
  EXPECT_EQ(next(rgb), "ABCDEF");
  EXPECT_EQ(next(rgb), "");
  FrameSource bgr = open(two, Format::kPictures, "BGR");
  EXPECT_EQ(next(bgr), "cbafed");
  FrameSource gray = open("P5 2 1 255\nxy", Format::kPictures, "GRAY");
  EXPECT_EQ(next(gray, 2), "xy");
}

TEST_F(FrameSourceTest, PicturesThatDoNotFitAreRefused) {
  const auto error = [&](const std::string& content, const std::string& order = "RGB") {
    FrameSource source = open(content, Format::kPictures, order);
    return next(source);
  };
  EXPECT_EQ(error("P6 640 480 255\n"),
            "error: frame 0: the picture is 640x480, the network takes 2x1");
  EXPECT_EQ(error("P6 2 1 65535\n"), "error: frame 0: the maximum value is 65535, expected 255");
  EXPECT_EQ(error("P3 2 1 255\n"), "error: frame 0: not a binary PPM (P6) or PGM (P5) picture");
  EXPECT_EQ(error("P6 2 1 255\nabcdef", "GRAY"), "error: frame 0: not a binary PGM (P5) picture");
  EXPECT_EQ(error("P6 2 one"), "error: frame 0: the picture's header is damaged");
  EXPECT_EQ(error("P6 2 1"), "error: frame 0: the input ends inside the picture's header");
  EXPECT_EQ(error("P6 2 1 255\n"), "error: frame 0: the input ends after the picture's header");
  EXPECT_EQ(error("P6 2 1 255\nabc"), "error: frame 0: the input ends after 3 of 6 bytes");
}

TEST_F(FrameSourceTest, AMissingFileSaysSo) {
  const Status status =
      FrameSource::open(scratch_.path() / "nothing", Format::kRaw, picture("RGB")).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("nothing: cannot be opened: No such file"));
}

TEST_F(FrameSourceTest, StopEndsAWaitForAWriterThatSendsNothing) {
  const std::filesystem::path fifo = scratch_.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor writer(::open(fifo.c_str(), O_RDWR));  // keeps the pipe open, writes nothing
  Result<FrameSource> source = FrameSource::open(fifo, Format::kRaw, picture("RGB"));
  ASSERT_TRUE(source.ok());
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop_ = true;
  });
  EXPECT_EQ(next(*source), "");
  stopper.join();
}

}  // namespace
}  // namespace edgepipe
