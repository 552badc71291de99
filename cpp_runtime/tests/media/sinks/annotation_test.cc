#include "media/sinks/annotation.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace edgepipe {
namespace {

constexpr int kWidth = 80;
constexpr int kHeight = 60;
constexpr Placement kWhole{
    .width = 80, .height = 60, .fitted_width = 80, .fitted_height = 60, .left = 0, .top = 0};

/// A black picture that results are drawn on.
class AnnotationTest : public ::testing::Test {
 protected:
  void draw(const FrameResult& result, const Placement& placement = kWhole) {
    annotate({.pixels = pixels_.data(),
              .width = kWidth,
              .height = kHeight,
              .row_bytes = 3 * kWidth,
              .pixel_bytes = 3,
              .channels = {0, 1, 2}},
             result, placement,
             [](int label_index) { return std::string(1, "abcd"[label_index]); });
  }

  [[nodiscard]] std::array<int, 3> pixel(int x, int y) const {
    const std::size_t at = std::size_t{3} * static_cast<std::size_t>(y * kWidth + x);
    return {pixels_[at], pixels_[at + 1], pixels_[at + 2]};
  }

  static std::array<int, 3> hue(int index, int divisor = 1) {
    const Colour colour = class_colour(index);
    return {colour.red / divisor, colour.green / divisor, colour.blue / divisor};
  }

  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(3 * kWidth * kHeight);
  static constexpr std::array<int, 3> kBlack = {};
};

TEST_F(AnnotationTest, ABoxHasTheColourOfItsClassAndItsNameAbove) {
  const std::array boxes{Detection{20, 20, 60, 50, 0.5F, 1}};
  draw({.kind = ResultKind::kDetections, .detections = boxes});
  EXPECT_EQ(pixel(20, 35), hue(1));
  EXPECT_EQ(pixel(59, 49), hue(1));
  EXPECT_EQ(pixel(40, 35), kBlack);
  EXPECT_EQ(pixel(20, 11), hue(1));  // nine rows of the name
  EXPECT_EQ(pixel(20, 10), kBlack);
}

TEST_F(AnnotationTest, APictureInsideOfTheCanvasIsAnnotatedThere) {
  // 160x80 pixels become 80x40, with ten rows of padding above and below.
  const Placement placement{
      .width = 160, .height = 80, .fitted_width = 80, .fitted_height = 40, .left = 0, .top = -10};
  const std::array boxes{Detection{40, 40, 120, 76, 0.5F, 0}};
  draw({.kind = ResultKind::kDetections, .detections = boxes}, placement);
  EXPECT_EQ(pixel(20, 35), hue(0));
  EXPECT_EQ(pixel(59, 47), hue(0));
  EXPECT_EQ(pixel(59, 48), kBlack);
}

TEST_F(AnnotationTest, OfTwoNamesAtOnePlaceTheLessCertainOneIsBelowItsBox) {
  const std::array boxes{Detection{20, 20, 40, 30, 0.9F, 1}, Detection{20, 20, 40, 30, 0.5F, 2},
                         Detection{20, 20, 40, 30, 0.4F, 3}};
  draw({.kind = ResultKind::kDetections, .detections = boxes});
  EXPECT_EQ(pixel(20, 11), hue(1));
  EXPECT_EQ(pixel(20, 38), hue(2));
  for (int y = 0; y < kHeight; ++y) EXPECT_NE(pixel(20, y), hue(3)) << y;  // no room
}

TEST_F(AnnotationTest, PointsOfEachBoxBeginWithTheFirstColour) {
  const std::array boxes{Detection{0, 0, 5, 5, 0.9F, 0}, Detection{70, 50, 75, 55, 0.5F, 0}};
  const std::array points{Point{30, 30}, Point{40, 30}, Point{30, 50}, Point{40, 50}};
  draw({.kind = ResultKind::kDetections, .detections = boxes, .points = points});
  EXPECT_EQ(pixel(30, 30), hue(0));
  EXPECT_EQ(pixel(40, 30), hue(1));
  EXPECT_EQ(pixel(30, 50), hue(0));
  EXPECT_EQ(pixel(40, 50), hue(1));
}

TEST_F(AnnotationTest, AClassMapTintsAllButTheBackground) {
  const std::array<std::uint8_t, 8> cells{9, 0, 2, 9, 9, 3, 0, 9};
  // The first and the last column show padding.
  const ClassMap map{
      .classes = cells, .width = 4, .height = 2, .left = 1, .top = 0, .right = 3, .bottom = 2};
  draw({.kind = ResultKind::kClassMap, .map = map});
  EXPECT_EQ(pixel(39, 29), kBlack);
  EXPECT_EQ(pixel(40, 29), hue(2, 2));
  EXPECT_EQ(pixel(39, 30), hue(3, 2));
  EXPECT_EQ(pixel(40, 30), kBlack);
}

TEST_F(AnnotationTest, AClassOrATextIsACaption) {
  const std::array classes{ClassScore{1, 2, 0.75F}, ClassScore{0, 1, 0.25F}};
  draw({.kind = ResultKind::kClasses, .classes = classes});
  const std::array<int, 3> band{32, 32, 32};
  EXPECT_EQ(pixel(0, 0), band);
  EXPECT_EQ(pixel(37, 8), kBlack);  // "b 0.75" is 37 pixels wide
  draw({.kind = ResultKind::kText, .text = "AB12", .text_score = 1});
  EXPECT_EQ(pixel(37, 8), band);
}

TEST_F(AnnotationTest, AHeldResultOutlivesWhatItWasMadeOf) {
  HeldResult held;
  {
    std::vector<Detection> boxes{Detection{1, 2, 3, 4, 0.5F, 1}};
    std::string text = "a longer text than fits into the string itself";
    held.hold({.kind = ResultKind::kDetections, .detections = boxes, .text = text});
    boxes[0].left = 9;
    text.assign(text.size(), 'x');
  }
  EXPECT_EQ(held.view().detections.front().left, 1);
  EXPECT_EQ(held.view().text, "a longer text than fits into the string itself");
  held.hold({});
  EXPECT_TRUE(held.view().detections.empty());
  EXPECT_EQ(held.view().kind, ResultKind::kNone);
}

}  // namespace
}  // namespace edgepipe
