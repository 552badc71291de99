// PictureCopier: every pixel of a copy, with and without reduction.
#include "media/pictures/picture_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"
#include "media/pictures/pixel_row.h"
#include "stage/core_team.h"
#include "support/noise_pictures.h"

namespace edgepipe {
namespace {

using Bytes = std::vector<std::uint8_t>;
using ::testing::ElementsAreArray;

Bytes bytes_of(const Picture& copy) {
  Bytes bytes;
  for (const std::byte byte : copy.bytes) bytes.push_back(std::to_integer<std::uint8_t>(byte));
  return bytes;
}

/// The mean of each group of pixels, in double precision, rounded.
Bytes reference(const Picture& picture, int reduction) {
  std::vector<Bytes> rows;
  for (int row = 0; row < picture.height; ++row) {
    rows.emplace_back(static_cast<std::size_t>(picture.width) * 3);
    unpack_row(picture, row, ChannelOrder::kRgb, rows.back());
  }
  Bytes means;
  for (int top = 0; top < picture.height; top += reduction) {
    for (int left = 0; left < picture.width; left += reduction) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        double sum = 0;
        int count = 0;
        for (int y = top; y < std::min(top + reduction, picture.height); ++y) {
          for (int x = left; x < std::min(left + reduction, picture.width); ++x, ++count) {
            sum += rows[static_cast<std::size_t>(y)][static_cast<std::size_t>(x) * 3 + channel];
          }
        }
        means.push_back(static_cast<std::uint8_t>(std::floor(sum / count + 0.5)));
      }
    }
  }
  return means;
}

TEST(PictureCopier, ReducesBothSidesByTheLeastWholeNumberThatIsEnough) {
  EXPECT_EQ(PictureCopier::reduction(640, 480, 640 * 480), 1);
  EXPECT_EQ(PictureCopier::reduction(640, 480, 640 * 480 - 1), 2);
  EXPECT_EQ(PictureCopier::reduction(1920, 1080, 1 << 20), 2);
  EXPECT_EQ(PictureCopier::reduction(7680, 4320, 1 << 20), 6);
  EXPECT_EQ(PictureCopier::reduction(641, 481, 321 * 241), 2) << "sides are rounded up";
  EXPECT_EQ(PictureCopier::reduction(16384, 1, 1), 16) << "at least 1024 pixels are allowed";
}

TEST(PictureCopier, ACopyHasEveryPixelOfEveryFormat) {
  for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kBgr, PixelFormat::kGray,
                                   PixelFormat::kYuyv, PixelFormat::kNv12}) {
    const Bytes bytes = noise(packed_bytes(format, 70, 10));
    const Picture picture = picture_of(format, 70, 10, bytes);
    PictureCopier copier;
    std::vector<std::byte> pixels;
    const Picture copy = copier.copy(picture, 1, pixels);
    EXPECT_EQ(copy.format, PixelFormat::kRgb);
    EXPECT_EQ(copy.width, 70);
    EXPECT_EQ(copy.height, 10);
    EXPECT_TRUE(check(copy).ok());
    EXPECT_THAT(bytes_of(copy), ElementsAreArray(reference(picture, 1))) << name_of(format);
  }
}

TEST(PictureCopier, RowsWithPaddingAreCopiedWithoutIt) {
  const Bytes bytes = noise(static_cast<std::size_t>(40) * 5);
  Picture picture = picture_of(PixelFormat::kRgb, 10, 5, bytes);
  picture.row_bytes = 40;
  PictureCopier copier;
  std::vector<std::byte> pixels;
  const Picture copy = copier.copy(picture, 1, pixels);
  EXPECT_EQ(copy.row_bytes, 30u);
  EXPECT_THAT(bytes_of(copy), ElementsAreArray(reference(picture, 1)));
}

TEST(PictureCopier, AReducedPixelIsTheMeanOfThoseItStandsForAlsoAtTheEdges) {
  const Bytes bytes = noise(packed_bytes(PixelFormat::kRgb, 62, 21));
  const Picture picture = picture_of(PixelFormat::kRgb, 62, 21, bytes);
  for (const int reduction : {2, 3, 4, 5}) {
    PictureCopier copier;
    std::vector<std::byte> pixels;
    const Picture copy = copier.copy(picture, reduction, pixels);
    EXPECT_EQ(copy.width, (62 + reduction - 1) / reduction);
    EXPECT_EQ(copy.height, (21 + reduction - 1) / reduction);
    EXPECT_THAT(bytes_of(copy), ElementsAreArray(reference(picture, reduction))) << reduction;
  }
}

TEST(PictureCopier, CoresDivideACopyWithTheSameBytes) {
  const Bytes bytes = noise(packed_bytes(PixelFormat::kYuyv, 64, 47));
  const Picture picture = picture_of(PixelFormat::kYuyv, 64, 47, bytes);
  auto team = CoreTeam::start({.name = "copies", .threads = 2, .cores = {}});
  ASSERT_TRUE(team.ok());
  const CoreTeam::Membership member(team->get());
  PictureCopier copier;
  std::vector<std::byte> pixels;
  EXPECT_THAT(bytes_of(copier.copy(picture, 1, pixels)), ElementsAreArray(reference(picture, 1)));
  EXPECT_THAT(bytes_of(copier.copy(picture, 3, pixels)), ElementsAreArray(reference(picture, 3)));
}

TEST(PictureCopier, AllocatesOnlyWhenThePictureGrows) {
  const Bytes bytes = noise(packed_bytes(PixelFormat::kRgb, 64, 48));
  PictureCopier copier;
  std::vector<std::byte> pixels;
  copier.copy(picture_of(PixelFormat::kRgb, 64, 48, bytes), 2, pixels);
  const long before = conformance::allocation_count();
  copier.copy(picture_of(PixelFormat::kRgb, 64, 48, bytes), 2, pixels);
  copier.copy(picture_of(PixelFormat::kRgb, 32, 24, bytes), 1, pixels);
  EXPECT_EQ(conformance::allocation_count() - before, 0);
}

}  // namespace
}  // namespace edgepipe
