#include "media/pictures/bitmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace edgepipe {
namespace {

using BitmapBytes = std::vector<std::byte>;

void put_number(BitmapBytes& file, std::size_t at, std::uint32_t value, int count) {
  for (int index = 0; index < count; ++index, value >>= 8) {
    file[at++] = static_cast<std::byte>(value & 255);
  }
}

/// A file of 3x2 pixels; the bytes behind its header and `palette` colours count up from 1.
BitmapBytes make_bitmap(std::uint32_t bits, int height = 2, std::uint32_t palette = 0) {
  constexpr std::size_t kHeaders = 54;
  const std::size_t row_bytes = (3 * bits / 8 + 3) / 4 * 4;
  BitmapBytes file(kHeaders + 4 * palette + 2 * row_bytes);
  file[0] = std::byte{'B'};
  file[1] = std::byte{'M'};
  put_number(file, 10, static_cast<std::uint32_t>(kHeaders + 4 * palette), 4);
  put_number(file, 14, 40, 4);
  put_number(file, 18, 3, 4);
  put_number(file, 22, static_cast<std::uint32_t>(height), 4);
  put_number(file, 26, 1, 2);
  put_number(file, 28, bits, 2);
  put_number(file, 46, palette, 4);
  for (std::size_t at = kHeaders; at < file.size(); ++at) {
    file[at] = static_cast<std::byte>(at - kHeaders + 1);
  }
  return file;
}

/// The bytes of the picture, blue first, or the error.
std::string bitmap_pixels(const BitmapBytes& file, std::uint64_t most_pixels = kMostPixels) {
  BitmapBytes pixels(40, std::byte{99});  // larger than the picture
  const Result<Picture> picture = decode_bitmap(file, most_pixels, pixels);
  if (!picture.ok()) return picture.status().message();
  EXPECT_EQ(picture->format, PixelFormat::kBgr);
  EXPECT_EQ(picture->width, 3);
  EXPECT_EQ(picture->height, 2);
  EXPECT_EQ(picture->row_bytes, 9U);
  std::string text;
  for (const std::byte byte : picture->bytes) {
    text += std::to_string(std::to_integer<int>(byte)) + " ";
  }
  return text;
}

TEST(Bitmap, RowsBeginAtTheBottomOrAtTheTop) {
  EXPECT_EQ(bitmap_pixels(make_bitmap(24)), "13 14 15 16 17 18 19 20 21 1 2 3 4 5 6 7 8 9 ");
  EXPECT_EQ(bitmap_pixels(make_bitmap(24, -2)), "1 2 3 4 5 6 7 8 9 13 14 15 16 17 18 19 20 21 ");
}

TEST(Bitmap, AFourthByteIsDropped) {
  EXPECT_EQ(bitmap_pixels(make_bitmap(32, -2)), "1 2 3 5 6 7 9 10 11 13 14 15 17 18 19 21 22 23 ");
}

TEST(Bitmap, TheUsualMasksSayTheSame) {
  BitmapBytes file = make_bitmap(32, -2);
  BitmapBytes masks(12);
  put_number(masks, 0, 0x00FF0000, 4);
  put_number(masks, 4, 0x0000FF00, 4);
  put_number(masks, 8, 0x000000FF, 4);
  file.insert(file.begin() + 54, masks.begin(), masks.end());
  put_number(file, 10, 66, 4);
  put_number(file, 30, 3, 4);
  EXPECT_EQ(bitmap_pixels(file), bitmap_pixels(make_bitmap(32, -2)));
  put_number(file, 54, 0x000000FF, 4);
  EXPECT_EQ(bitmap_pixels(file),
            "BMP: found a header of 40 bytes with 32 bits per pixel and compression 3, expected 40 "
            "to 124 bytes with 8, 24 or 32 bits, uncompressed");
}

TEST(Bitmap, ColoursOfAPaletteAndBlackBeyondIt) {
  BitmapBytes file = make_bitmap(8, -2, 2);
  const BitmapBytes indices{std::byte{0}, std::byte{1}, std::byte{2},  std::byte{0},
                            std::byte{1}, std::byte{0}, std::byte{255}};
  std::copy(indices.begin(), indices.end(), file.end() - 8);
  EXPECT_EQ(bitmap_pixels(file), "1 2 3 5 6 7 0 0 0 5 6 7 1 2 3 0 0 0 ");
}

TEST(Bitmap, WhatItEncodesItDecodes) {
  const BitmapBytes pixels{
      std::byte{1},  std::byte{2},  std::byte{3},  std::byte{4},  std::byte{5},  std::byte{6},
      std::byte{7},  std::byte{8},  std::byte{9},  std::byte{10}, std::byte{11}, std::byte{12},
      std::byte{13}, std::byte{14}, std::byte{15}, std::byte{16}, std::byte{17}, std::byte{18}};
  const Picture picture{
      .format = PixelFormat::kBgr, .width = 3, .height = 2, .row_bytes = 9, .bytes = pixels};
  EXPECT_EQ(bitmap_pixels(encode_bitmap(picture)), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 ");
}

TEST(Bitmap, OtherKindsAreRefusedWithARemedy) {
  BitmapBytes file = make_bitmap(24);
  put_number(file, 28, 16, 2);
  BitmapBytes pixels;
  const Status status = decode_bitmap(file, kMostPixels, pixels).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(),
            "BMP: found a header of 40 bytes with 16 bits per pixel and compression 0, expected 40 "
            "to 124 bytes with 8, 24 or 32 bits, uncompressed");
  EXPECT_EQ(status.hint(), "convert it to PNG: ffmpeg -i IN.bmp OUT.png");
  file = make_bitmap(8, 2, 2);
  put_number(file, 30, 1, 4);  // run lengths
  EXPECT_NE(bitmap_pixels(file).find("8 bits per pixel and compression 1"), std::string::npos);
  file = make_bitmap(24);
  put_number(file, 14, 12, 4);
  EXPECT_NE(bitmap_pixels(file).find("a header of 12 bytes"), std::string::npos);
}

TEST(Bitmap, DamageIsRefused) {
  BitmapBytes file = make_bitmap(24);
  file.pop_back();
  EXPECT_EQ(
      bitmap_pixels(file),
      "BMP: its 24 bytes of pixels from byte 54 are not all in its 77 bytes behind the header");
  EXPECT_EQ(bitmap_pixels({}), "BMP: it does not begin like a BMP file");
  EXPECT_EQ(bitmap_pixels(BitmapBytes(file.begin(), file.begin() + 53)),
            "BMP: it ends inside its header");
  file = make_bitmap(24);
  put_number(file, 10, 53, 4);
  EXPECT_EQ(
      bitmap_pixels(file),
      "BMP: its 24 bytes of pixels from byte 53 are not all in its 78 bytes behind the header");
  put_number(file, 10, 0xFFFFFFFF, 4);
  EXPECT_NE(bitmap_pixels(file).find("from byte 4294967295"), std::string::npos);
  file = make_bitmap(8, 2, 2);
  put_number(file, 46, 257, 4);
  EXPECT_EQ(bitmap_pixels(file), "BMP: a palette of 257 colours, expected at most 256");
}

TEST(Bitmap, SizesAreCheckedBeforeMemoryIsAllocated) {
  EXPECT_EQ(bitmap_pixels(make_bitmap(24), 5),
            "BMP: the picture is 3x2 pixels, expected at most 5 in all");
  BitmapBytes file = make_bitmap(24);
  put_number(file, 22, 0x80000000, 4);
  EXPECT_EQ(bitmap_pixels(file),
            "BMP: the picture is 3x1073741824 pixels, expected sides of 1 to 16384");
  put_number(file, 22, 0, 4);
  EXPECT_EQ(bitmap_pixels(file), "BMP: the picture is 3x0 pixels, expected sides of 1 to 16384");
  put_number(file, 18, 0xFFFFFFFF, 4);
  EXPECT_EQ(bitmap_pixels(file), "BMP: the picture is -1x0 pixels, expected sides of 1 to 16384");
}

}  // namespace
}  // namespace edgepipe
