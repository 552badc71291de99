#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "edgepipe/picture_source.h"
#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

const std::atomic<bool> kGoOn{false};

class PictureFolderTest : public ::testing::Test {
 protected:
  /// Takes the first picture of a file with this content.
  Status take(const std::string& content) {
    testing::write_file(file_, content);
    Result<std::unique_ptr<PictureSource>> source = open_picture_folder(folder_.path(), {});
    if (!source.ok()) return source.status();
    return (*source)->next(lease_, kGoOn).status();
  }

  testing::ScratchFolder folder_;
  std::filesystem::path file_ = folder_.path() / "one.ppm";
  PictureLease lease_;
};

TEST_F(PictureFolderTest, APictureLiesInItsFileBehindTheHeader) {
  ASSERT_TRUE(take("P6 1 2\n# red, blue\n255\nr..b..").ok());
  const Picture& picture = lease_.picture();
  EXPECT_EQ(picture.format, PixelFormat::kRgb);
  EXPECT_EQ(picture.width, 1);
  EXPECT_EQ(picture.height, 2);
  EXPECT_EQ(picture.row_bytes, 3U);
  EXPECT_EQ(picture.bytes[3], std::byte{'b'});
}

TEST_F(PictureFolderTest, ADamagedFileIsNamed) {
  EXPECT_EQ(take("P6 1 x").message(), file_.string() + ": the picture's header is damaged");
  EXPECT_EQ(take("P6 2 2 255\nr..b..").message(),
            file_.string() + ": picture rgb 2x2: has 6 bytes, expected 12");
}

TEST_F(PictureFolderTest, ATooLargePictureIsRefusedByItsHeader) {
  const Status status = take("P6 8192 4097 255\n");
  EXPECT_EQ(status.message(), file_.string() +
                                  ": the picture is 8192x4097 pixels, "
                                  "expected at most 33554432 in all");
  EXPECT_EQ(status.hint(), "scale it down, or raise the limit of a picture's pixels");
  EXPECT_EQ(take("P5 999999 999999 255\n").message(),
            file_.string() + ": the picture is 999999x999999 pixels, expected sides of 1 to 16384");
  EXPECT_EQ(take("P5 0 7 255\n").message(),
            file_.string() + ": the picture is 0x7 pixels, expected sides of 1 to 16384");
}

TEST_F(PictureFolderTest, APictureOfAKindThatCannotBeDecodedIsRefusedAndNotSkipped) {
  testing::write_file(file_, "P6 1 1 255\nr..");
  for (const char* name : {"a.webp", "two.TIF", "z.tiff"}) {
    const std::filesystem::path other = folder_.path() / name;
    testing::write_file(other, "anything");
    for (const std::filesystem::path& source : {folder_.path(), other}) {
      const Status status = open_picture_folder(source, {}).status();
      const std::string format = std::string(name) == "a.webp" ? "WebP" : "TIFF";
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_EQ(status.message(), other.string() + ": found a " + format +
                                      " picture, expected .bmp, .jpeg, .jpg, .pgm, .png or .ppm");
      EXPECT_EQ(status.hint(), "convert it to PNG: ffmpeg -i IN OUT.png");
    }
    std::filesystem::remove(other);
  }
  EXPECT_TRUE(open_picture_folder(folder_.path(), {}).ok());
}

TEST_F(PictureFolderTest, AFormatIsKnownByItsFirstBytesWhateverItsName) {
  ASSERT_TRUE(take("\xff\xd8 JPEG").ok());
  EXPECT_EQ(lease_.picture().format, PixelFormat::kJpeg);
  ASSERT_TRUE(take("\x89PNG").ok());
  EXPECT_EQ(lease_.picture().format, PixelFormat::kPng);
  ASSERT_TRUE(take("BM").ok());
  EXPECT_EQ(lease_.picture().format, PixelFormat::kBmp);
  const Status status = take("RIFF....WEBPVP8 ");
  EXPECT_EQ(status.message(), file_.string() +
                                  ": found a WebP picture, expected .bmp, .jpeg, .jpg, .pgm, .png "
                                  "or .ppm");
}

TEST_F(PictureFolderTest, OneWholePnmIsKnownByItsSize) {
  for (const auto& [content, is_one] :
       {std::pair("P6 1 2 255\nr..b..", true), std::pair("P5 3 1 255\n...", true),
        std::pair("P5 3 1 255\n....", false), std::pair("P6 1 2 255\nr..b.", false),
        std::pair("P4 1 2 255\nr..b.", false)}) {
    testing::write_file(file_, content);
    EXPECT_EQ(is_one_pnm(file_), is_one) << content;
  }
  EXPECT_FALSE(is_one_pnm(folder_.path()));
}

TEST_F(PictureFolderTest, FilesThatAreNoPicturesAreSkipped) {
  testing::write_file(file_, "P6 1 1 255\nr..");
  testing::write_file(folder_.path() / "notes.txt", "anything");
  const auto source = open_picture_folder(folder_.path(), {});
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE((*source)->description().ends_with(", 1 file"));
}

}  // namespace
}  // namespace edgepipe
