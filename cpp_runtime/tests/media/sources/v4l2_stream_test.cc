// V4l2Stream with drivers that give invalid answers.
#include "media/sources/v4l2_stream.h"

#include <gtest/gtest.h>
#include <linux/videodev2.h>

#include <cstring>
#include <vector>

namespace edgepipe {
namespace {

constexpr std::uint32_t kBytes = 4 * 2;  // gray, 4x2 pixels

/// A driver of a camera of four gray pixels by two, which always has a picture.
class OddDriver final : public V4l2Calls {
 public:
  std::uint32_t buffers = 5;
  std::uint32_t delivered = 0;  // the buffer of every picture
  bool has_endless_formats = false;
  bool has_endless_name = false;

  int open(const char* /*path*/) override { return 1000; }
  int close(int /*file*/) override { return 0; }
  void* map(int /*file*/, std::size_t /*bytes*/, unsigned /*offset*/) override {
    return memory_.data();
  }
  void unmap(void* /*address*/, std::size_t /*bytes*/) override {}
  int wait(int /*file*/, int /*timeout_ms*/) override { return 1; }

  int ioctl(int /*file*/, unsigned long request, void* argument) override {
    auto* buffer = static_cast<v4l2_buffer*>(argument);
    switch (request) {
      case VIDIOC_QUERYCAP: {
        auto* capability = static_cast<v4l2_capability*>(argument);
        capability->capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
        std::memset(capability->card, has_endless_name ? 'x' : 0, sizeof(capability->card));
        // What follows the name must not become part of it.
        std::memset(capability->bus_info, 'y', sizeof(capability->bus_info));
        return 0;
      }
      case VIDIOC_ENUM_FMT: {
        auto* format = static_cast<v4l2_fmtdesc*>(argument);
        format->pixelformat = V4L2_PIX_FMT_GREY;
        return format->index == 0 || has_endless_formats ? 0 : -1;
      }
      case VIDIOC_S_FMT: {
        auto& pixels = static_cast<v4l2_format*>(argument)->fmt.pix;
        pixels.width = 4;
        pixels.height = 2;
        pixels.bytesperline = 4;
        return 0;
      }
      case VIDIOC_REQBUFS:
        static_cast<v4l2_requestbuffers*>(argument)->count = buffers;
        return 0;
      case VIDIOC_QUERYBUF:
        buffer->length = kBytes;
        return 0;
      case VIDIOC_EXPBUF:
        return -1;
      case VIDIOC_DQBUF:
        buffer->index = delivered;
        buffer->bytesused = kBytes;
        return 0;
      default:
        return 0;
    }
  }

 private:
  std::vector<std::byte> memory_{kBytes};
};

TEST(V4l2StreamTest, AnEndlessListOfFormatsIsReadToALimit) {
  OddDriver driver;
  driver.has_endless_formats = true;
  EXPECT_TRUE(V4l2Stream::open("odd", {}, driver).ok());
}

TEST(V4l2StreamTest, ANameWithoutAnEndIsCutOff) {
  OddDriver driver;
  driver.has_endless_name = true;
  const auto stream = V4l2Stream::open("odd", {}, driver);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ((*stream)->description(), "gray 4x2 from " + std::string(32, 'x'));
}

TEST(V4l2StreamTest, TooManyBuffersAreRefused) {
  OddDriver driver;
  driver.buffers = 4'000'000'000;
  EXPECT_EQ(V4l2Stream::open("odd", {}, driver).status().message(),
            "odd: gives 4000000000 buffers, expected 3 to 32");
}

TEST(V4l2StreamTest, ABufferThatTheDriverDoesNotHaveIsRefused) {
  OddDriver driver;
  driver.delivered = 2;
  const auto stream = V4l2Stream::open("odd", {}, driver);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*stream)->dequeue(0).ok());
  EXPECT_EQ((*stream)->dequeue(0).status().message(),
            "odd: delivers buffer 2 again while it is being read");
  (*stream)->give_back(2);
  EXPECT_TRUE((*stream)->dequeue(0).ok());
}

}  // namespace
}  // namespace edgepipe
