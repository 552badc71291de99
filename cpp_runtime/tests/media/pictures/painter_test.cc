#include "media/pictures/painter.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace edgepipe {
namespace {

constexpr int kWidth = 24;
constexpr int kHeight = 16;
constexpr Colour kColour{.red = 200, .green = 100, .blue = 50};

class PainterTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::array<int, 3> pixel(int x, int y) const {
    const std::size_t at = 3 * static_cast<std::size_t>(y * kWidth + x);
    return {pixels_[at], pixels_[at + 1], pixels_[at + 2]};
  }

  /// The columns of a row that are not black.
  [[nodiscard]] std::string row(int y) const {
    std::string text;
    for (int x = 0; x < kWidth; ++x) text += pixel(x, y)[0] != 0 ? '#' : '.';
    return text;
  }

  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(3 * kWidth * kHeight);
  Painter painter_{{.pixels = pixels_.data(),
                    .width = kWidth,
                    .height = kHeight,
                    .row_bytes = 3 * kWidth,
                    .pixel_bytes = 3,
                    .channels = {0, 1, 2}}};
};

TEST_F(PainterTest, AnAreaIsCutOffAtThePicturesEdges) {
  painter_.fill({-5, -5, 2, 100}, kColour);
  EXPECT_EQ(row(0), "##......................");
  EXPECT_EQ(row(kHeight - 1), row(0));
  EXPECT_EQ(pixel(1, 3), (std::array<int, 3>{200, 100, 50}));
}

TEST_F(PainterTest, AnAreaOutsideOfThePictureChangesNothing) {
  painter_.fill({kWidth + 3, 0, kWidth + 9, 5}, kColour);
  painter_.tint({0, -9, 5, -3}, kColour);
  EXPECT_EQ(pixels_, std::vector<std::uint8_t>(3 * kWidth * kHeight));
}

TEST_F(PainterTest, TintIsTheMeanOfPixelAndColour) {
  painter_.fill({0, 0, kWidth, kHeight}, {.red = 100, .green = 100, .blue = 100});
  painter_.tint({4, 4, 6, 6}, kColour);
  EXPECT_EQ(pixel(5, 5), (std::array<int, 3>{150, 100, 75}));
  EXPECT_EQ(pixel(6, 5), (std::array<int, 3>{100, 100, 100}));
}

TEST_F(PainterTest, ADotIsRoundAndMayLieAcrossTheEdge) {
  painter_.dot(8, 5, 3, kColour);
  EXPECT_EQ(row(2), "........#...............");
  EXPECT_EQ(row(3), "......#####.............");
  EXPECT_EQ(row(5), ".....#######............");
  EXPECT_EQ(row(8), row(2));
  EXPECT_EQ(row(9), "........................");
  painter_.dot(kWidth, 12, 2, kColour);
  EXPECT_EQ(row(12), "......................##");
}

TEST(DrawingSizesTest, GrowWithThePicture) {
  EXPECT_EQ(drawing_sizes(64, 48).line, 1);
  const DrawingSizes hd = drawing_sizes(1920, 1080);
  EXPECT_EQ((std::array{hd.line, hd.letter, hd.dot}), (std::array{4, 3, 7}));
}

}  // namespace
}  // namespace edgepipe
