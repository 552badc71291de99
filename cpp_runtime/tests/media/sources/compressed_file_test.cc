#include "media/sources/compressed_file.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace edgepipe {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

std::string_view format_of(std::string_view bytes) {
  return compressed_format(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

// A JPEG's tables and its frame, as one without a header of its own has them.
const std::string kTables = "\xff\xdb\0\x04\x01\x02\xff\xc4\0\x03\0"s;

TEST(CompressedFormat, JpegMayBeginWithAnyOfItsSegments) {
  for (const std::string_view first :
       std::array{"\xff\xe0\0\x0bJFIF\0\1\2\0\0"sv,
                  "\xff\xe1\0\x08"
                  "Exif\0\0"sv,
                  "\xff\xee\0\x08"
                  "Adobe\0"sv,
                  "\xff\xfe\0\x06made"sv, "\xff\xc0\0\x0b\x08\0\1\0\1\1\1\x11\0"sv, ""sv}) {
    const std::string begin = "\xff\xd8" + std::string(first);
    for (const std::string_view rest :
         std::array{"\xff\xda\0\x08\x01"sv, "\xff\xda"sv, "\xff\xc0\0\x11"sv}) {
      EXPECT_EQ(format_of(begin + kTables + std::string(rest)), "JPEG");
    }
  }
}

TEST(CompressedFormat, ASegmentBehindWhichNothingIsKnownMustHaveItsName) {
  EXPECT_EQ(format_of("\xff\xd8\xff\xe0\0\x10JFIF\0\1"sv), "JPEG");
  EXPECT_EQ(format_of("\xff\xd8\xff\xe1\x1c\x45"
                      "Exif\0\0MM"sv),
            "JPEG");
  EXPECT_EQ(format_of("\xff\xd8\xff\xe2\x0c\x58ICC_PROFILE\0\1"sv), "JPEG");
  EXPECT_EQ(format_of("\xff\xd8\xff\xe2\x0c\x58ICD_PROFILE\0\1"sv), "");
}

TEST(CompressedFormat, OtherFormatsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(format_of("\x89PNG\r\n\x1a\n"sv), "PNG");
  EXPECT_EQ(format_of("GIF89a"sv), "GIF");
  EXPECT_EQ(format_of("II*\0\x08"sv), "TIFF");
  EXPECT_EQ(format_of("MM\0*\0"sv), "TIFF");
  EXPECT_EQ(format_of("RIFF\x10\0\0\0WEBPVP8 "sv), "WebP");
  EXPECT_EQ(format_of("GIF87a"sv), "GIF");
  EXPECT_EQ(format_of("P6\n4 2\n255\n...."sv), "PPM");
  EXPECT_EQ(format_of("P5 # gray\n4 2 255 ."sv), "PGM");
  EXPECT_EQ(format_of("P6\n4 2\n254\n...."sv), "");
  EXPECT_EQ(format_of("BM\x10\x20\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"sv), "BMP");
  EXPECT_EQ(format_of("BM\x10\x20\0\0\0\0\0\0\x8a\0\0\0\x7c\0\0\0"sv), "BMP");
}

TEST(CompressedFormat, WhitePixelsAreRaw) {
  // Like a header that is followed by something else than a segment.
  const std::string pixels(64, '\xfd');
  for (const std::string_view begin :
       std::array{"\xff\xd8\xff\xe0\0\x10"sv, "\xff\xd8\xff\xdb\0\x13"sv,
                  "\xff\xd8\xff\xe2\xff\xff"sv, "\xff\xd8\xff\xe1\0\1"sv}) {
    EXPECT_EQ(format_of(std::string(begin) + pixels), "");
  }
  EXPECT_EQ(format_of("\xff\xd8\xff\xfe\xd9\xff\xfe\xd8"sv), "");
  EXPECT_EQ(format_of("\xff\xd8\xff\xc0\xd8\xff\xff\xd8"sv), "");
  EXPECT_EQ(format_of("\xff\xff\xff\xff\xff\xff\xff\xff"sv), "");
  EXPECT_EQ(format_of(""sv), "");
}

}  // namespace
}  // namespace edgepipe
