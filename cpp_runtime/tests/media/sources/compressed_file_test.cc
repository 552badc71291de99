#include "media/sources/compressed_file.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string_view>

namespace edgepipe {
namespace {

using namespace std::string_view_literals;

std::string_view format_of(std::string_view bytes) {
  return compressed_format(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

TEST(CompressedFormat, JpegMayBeginWithAnyOfItsUsualSegments) {
  for (const std::string_view begin :
       std::array{"\xff\xd8\xff\xe0\0\x10JFIF"sv,
                  "\xff\xd8\xff\xe1\x1c\x45"
                  "Exif"sv,
                  "\xff\xd8\xff\xe2\x0c\x58ICC_PROFILE"sv,
                  "\xff\xd8\xff\xee\0\x0e"
                  "Adobe"sv,
                  "\xff\xd8\xff\xfe\0\x10made"sv, "\xff\xd8\xff\xdb\0\x43\0"sv,
                  "\xff\xd8\xff\xc0\0\x11\x08"sv, "\xff\xd8\xff\xc0\0\x0b\x08"sv}) {
    EXPECT_EQ(format_of(begin), "JPEG");
  }
}

TEST(CompressedFormat, OtherFormatsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(format_of("\x89PNG\r\n\x1a\n"sv), "PNG");
  EXPECT_EQ(format_of("GIF89a"sv), "GIF");
  EXPECT_EQ(format_of("II*\0\x08"sv), "TIFF");
  EXPECT_EQ(format_of("MM\0*\0"sv), "TIFF");
  EXPECT_EQ(format_of("RIFF\x10\0\0\0WEBPVP8 "sv), "WebP");
  EXPECT_EQ(format_of("BM\x10\x20\0\0\0\0\0\0\x36\0\0\0\x28\0"sv), "BMP");
}

TEST(CompressedFormat, WhitePixelsAreRaw) {
  EXPECT_EQ(format_of("\xff\xd8\xff\xfe\xd9\xff\xfe\xd8"sv), "");
  EXPECT_EQ(format_of("\xff\xd8\xff\xc0\xd8\xff\xff\xd8"sv), "");
  EXPECT_EQ(format_of("\xff\xff\xff\xff\xff\xff\xff\xff"sv), "");
  EXPECT_EQ(format_of(""sv), "");
}

}  // namespace
}  // namespace edgepipe
