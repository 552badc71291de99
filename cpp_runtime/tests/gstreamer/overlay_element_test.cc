#include <gmock/gmock.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "element_harness.h"

namespace edgepipe::testing {
namespace {

constexpr int kWidth = 64;
constexpr int kHeight = 48;

/// What the overlay makes of a black picture with a region of class 0 from (10, 20) to (40, 44).
class OverlayElementTest : public ::testing::Test {
 protected:
  void draw(const char* format, const char* options) {
    const std::string launch = std::string("edgepipeoverlay ") + options;
    harness_.reset(gst_harness_new_parse(launch.c_str()));
    const std::string caps =
        "video/x-raw,framerate=10/1,width=64,height=48,format=" + std::string(format);
    gst_harness_set_src_caps_str(harness_.get(), caps.c_str());
    GstCaps* const parsed = gst_caps_from_string(caps.c_str());
    gst_video_info_from_caps(&info_, parsed);
    gst_caps_unref(parsed);
    GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, info_.size, nullptr);
    gst_buffer_memset(buffer, 0, 0, info_.size);
    auto* const region =
        gst_buffer_add_video_region_of_interest_meta(buffer, "cat", 10, 20, 30, 24);
    gst_video_region_of_interest_meta_add_param(
        region, gst_structure_new("edgepipe", "score", G_TYPE_DOUBLE, 0.5, "label-index",
                                  G_TYPE_INT, 0, nullptr));
    drawn_.reset(gst_harness_push_and_pull(harness_.get(), buffer));
  }

  /// Red, green and blue of a pixel; three times the same in a grey picture.
  std::vector<int> pixel(int x, int y) {
    GstVideoFrame frame;
    gst_video_frame_map(&frame, &info_, drawn_.get(), GST_MAP_READ);
    std::vector<int> found;
    for (guint channel = 0; channel < 3; ++channel) {
      const guint component = std::min(channel, GST_VIDEO_FRAME_N_COMPONENTS(&frame) - 1);
      found.push_back(static_cast<const guint8*>(GST_VIDEO_FRAME_COMP_DATA(
          &frame, component))[y * GST_VIDEO_FRAME_COMP_STRIDE(&frame, component) +
                              x * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, component)]);
    }
    gst_video_frame_unmap(&frame);
    return found;
  }

  /// The columns of a row that are not black.
  std::string row(int y) {
    std::string text;
    for (int x = 0; x < kWidth; ++x) text += pixel(x, y)[0] != 0 ? '#' : '.';
    return text;
  }

  GstVideoInfo info_ = {};
  BufferPointer drawn_;
  HarnessPointer harness_;
};

TEST_F(OverlayElementTest, ABoxHasTheColourOfItsClassInEveryFormat) {
  // edgepipe/report/draw.py: colour(0).
  const std::vector<int> red = {242, 36, 36};
  for (const char* format :
       {"RGB", "BGR", "RGBx", "BGRx", "xRGB", "xBGR", "RGBA", "BGRA", "ARGB", "ABGR"}) {
    draw(format, "names=false scores=false");
    EXPECT_EQ(pixel(10, 20), red) << format;
    EXPECT_EQ(pixel(39, 43), red) << format;
    EXPECT_EQ(pixel(11, 21), (std::vector<int>{0, 0, 0})) << format;
    EXPECT_EQ(pixel(40, 44), (std::vector<int>{0, 0, 0})) << format;
  }
  draw("GRAY8", "names=false scores=false");
  EXPECT_EQ(pixel(10, 20), (std::vector<int>{98, 98, 98}));  // 0.299 R + 0.587 G + 0.114 B
}

TEST_F(OverlayElementTest, TheLineIsAsWideAsAsked) {
  draw("RGB", "names=false scores=false line-width=3");
  EXPECT_EQ(row(22), std::string(10, '.') + std::string(30, '#') + std::string(24, '.'));
  EXPECT_EQ(row(23),
            std::string(10, '.') + "###" + std::string(24, '.') + "###" + std::string(24, '.'));
}

TEST_F(OverlayElementTest, NameAndScoreAreWrittenAboveTheBox) {
  draw("RGB", "");
  // A band above the box, from row 11 to before 20. Its letters are white on red: green is the ink.
  std::string ink;
  for (int y = 12; y < 19; ++y) {
    for (int x = 11; x < 28; ++x) ink += pixel(x, y)[1] == 255 ? '#' : '.';
    ink += '\n';
  }
  EXPECT_EQ(ink,
            ".............#...\n"
            ".............#...\n"
            ".####..###..####.\n"
            "#.........#..#...\n"
            "#......####..#...\n"
            "#.....#...#..#...\n"
            ".####..####...##.\n");
  EXPECT_EQ(pixel(10, 11)[0], 242);
  EXPECT_EQ(pixel(10, 10)[0], 0);
}

TEST_F(OverlayElementTest, AFrameWithoutRegionsStaysAsItIs) {
  draw("RGB", "");
  GstBuffer* const plain = gst_buffer_new_allocate(nullptr, info_.size, nullptr);
  gst_buffer_memset(plain, 0, 7, info_.size);
  drawn_.reset(gst_harness_push_and_pull(harness_.get(), plain));
  EXPECT_EQ(gst_buffer_memcmp(drawn_.get(), 0, std::string(info_.size, '\7').data(), info_.size),
            0);
}

}  // namespace
}  // namespace edgepipe::testing
