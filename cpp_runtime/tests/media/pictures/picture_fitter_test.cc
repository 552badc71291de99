// PictureFitter: the frame's bytes, against a reference in double precision.
#include "media/pictures/picture_fitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "media/pictures/jpeg_codec.h"
#include "stage/core_team.h"
#include "support/jpeg_lacks.h"
#include "support/noise_pictures.h"

namespace edgepipe {
namespace {

using Bytes = std::vector<std::uint8_t>;

Preprocess stretch(int width, int height, const std::string& order) {
  return {.width = width, .height = height, .order = order, .fit = "stretch"};
}

Bytes fit(const Preprocess& preprocess, const Picture& picture) {
  Result<PictureFitter> fitter = PictureFitter::create(preprocess);
  EXPECT_TRUE(fitter.ok());
  Bytes frame(static_cast<std::size_t>(preprocess.width * preprocess.height) *
              static_cast<std::size_t>(preprocess.channels()));
  const Status status = fitter->fit(picture, std::as_writable_bytes(std::span(frame)));
  EXPECT_TRUE(status.ok()) << status.message();
  return frame;
}

/// How much of source pixel `pixel` is in output `output`, in double precision.
double weight(bool shrinking, int source, int fitted, int output, int pixel) {
  const double ratio = static_cast<double>(source) / fitted;
  if (shrinking) {
    const double begin = output * ratio;
    return std::max(0.0, std::min(pixel + 1.0, begin + ratio) - std::max<double>(pixel, begin)) /
           ratio;
  }
  const double centre = std::clamp((output + 0.5) * ratio - 0.5, 0.0, source - 1.0);
  return std::max(0.0, 1 - std::abs(centre - pixel));
}

TEST(PictureFitter, SameSizeAndOrderIsACopy) {
  const Bytes bytes = noise(7 * 5 * 3);
  EXPECT_EQ(fit(stretch(7, 5, "RGB"), picture_of(PixelFormat::kRgb, 7, 5, bytes)), bytes);
}

TEST(PictureFitter, ATeamOfCoresFitsTheSameBytes) {
  auto team = CoreTeam::start({.name = "fit", .threads = 3, .cores = {}, .realtime_priority = 0});
  ASSERT_TRUE(team.ok());
  for (const auto& [width, height] : {std::pair{64, 48}, {9, 5}, {30, 200}, {31, 3}}) {
    const Bytes bytes = noise(static_cast<std::size_t>(width * height * 3));
    const Picture picture = picture_of(PixelFormat::kRgb, width, height, bytes);
    for (const char* how : {"stretch", "letterbox", "center_crop"}) {
      const Preprocess preprocess{.width = 23,
                                  .height = 37,
                                  .order = "BGR",
                                  .fit = how,
                                  .resize_short_side = 40,
                                  .padding = 114};
      const Bytes alone = fit(preprocess, picture);
      const CoreTeam::Membership member(team->get());
      EXPECT_EQ(fit(preprocess, picture), alone) << how << ", " << width << "x" << height;
    }
  }
}

TEST(PictureFitter, OrderSwapsRedAndBlue) {
  EXPECT_EQ(fit(stretch(1, 1, "BGR"), picture_of(PixelFormat::kRgb, 1, 1, {1, 2, 3})),
            (Bytes{3, 2, 1}));
}

TEST(PictureFitter, ShrinksByAreaAndEnlargesLinearly) {
  const struct {
    int width, height, frame_width, frame_height;
  } cases[] = {{640, 48, 41, 13}, {13, 17, 29, 40}, {31, 8, 12, 24}, {5, 5, 1, 1}, {1, 1, 6, 4}};
  for (const auto& size : cases) {
    const Bytes bytes = noise(static_cast<std::size_t>(size.width * size.height));
    const Bytes frame = fit(stretch(size.frame_width, size.frame_height, "GRAY"),
                            picture_of(PixelFormat::kGray, size.width, size.height, bytes));
    const bool shrinking = size.frame_width < size.width && size.frame_height < size.height;
    for (int y = 0; y < size.frame_height; ++y) {
      for (int x = 0; x < size.frame_width; ++x) {
        double expected = 0;
        for (int row = 0; row < size.height; ++row) {
          const double vertical = weight(shrinking, size.height, size.frame_height, y, row);
          for (int column = 0; vertical > 0 && column < size.width; ++column) {
            expected += vertical * weight(shrinking, size.width, size.frame_width, x, column) *
                        bytes[static_cast<std::size_t>(row * size.width + column)];
          }
        }
        // Half a step for the rounding, the rest for weights of 11 bits.
        EXPECT_NEAR(frame[static_cast<std::size_t>(y * size.frame_width + x)], expected, 0.8)
            << size.width << "x" << size.height << " at " << x << "," << y;
      }
    }
  }
}

TEST(PictureFitter, ConstantPicturesStayExactlyConstant) {
  const Bytes white(std::size_t{333} * 77, 255);
  const Bytes frame = fit(stretch(40, 13, "GRAY"), picture_of(PixelFormat::kGray, 333, 77, white));
  EXPECT_EQ(frame, Bytes(frame.size(), 255));
}

TEST(PictureFitter, CenterCropCutsTheMiddleOut) {
  Bytes bytes;  // 8 x 4, each pixel its column
  for (int pixel = 0; pixel < 32; ++pixel) bytes.push_back(static_cast<std::uint8_t>(pixel % 8));
  const Preprocess crop{
      .width = 2, .height = 2, .order = "GRAY", .fit = "center_crop", .resize_short_side = 4};
  EXPECT_EQ(fit(crop, picture_of(PixelFormat::kGray, 8, 4, bytes)), (Bytes{3, 4, 3, 4}));
}

TEST(PictureFitter, ALetterboxFillsWhatThePictureLeavesFree) {
  const Bytes bytes = noise(6 * 2);
  Preprocess preprocess = stretch(6, 5, "GRAY");
  preprocess.fit = "letterbox";
  preprocess.padding = 114;
  preprocess.align = "center";
  Bytes expected(6 * 5, 114);
  std::ranges::copy(bytes, expected.begin() + 6);  // (5 - 2) / 2 rows above
  EXPECT_EQ(fit(preprocess, picture_of(PixelFormat::kGray, 6, 2, bytes)), expected);
  preprocess.align = "top_left";
  std::ranges::fill(expected, 114);
  std::ranges::copy(bytes, expected.begin());
  EXPECT_EQ(fit(preprocess, picture_of(PixelFormat::kGray, 6, 2, bytes)), expected);
}

TEST(PictureFitter, PlacementsAreThoseOfThePythonSide) {
  // The same pictures as in tests/edgepipe/frontend/test_preprocess.py.
  Preprocess preprocess = stretch(416, 320, "RGB");
  const auto placed = [&](int width, int height) {
    const Placement found = preprocess.place(width, height);
    return std::array{found.fitted_width, found.fitted_height, found.left, found.top};
  };
  EXPECT_EQ(placed(640, 480), (std::array{416, 320, 0, 0}));
  preprocess.fit = "letterbox";
  preprocess.align = "center";
  EXPECT_EQ(placed(640, 480), (std::array{416, 312, 0, -4}));
  EXPECT_EQ(placed(333, 1000), (std::array{107, 320, -154, 0}));
  EXPECT_EQ(placed(1, 5000), (std::array{1, 320, -207, 0}));
  preprocess.align = "top_left";
  EXPECT_EQ(placed(333, 1000), (std::array{107, 320, 0, 0}));
  preprocess.fit = "center_crop";
  preprocess.resize_short_side = 480;
  EXPECT_EQ(placed(640, 480), (std::array{640, 480, 112, 80}));
  EXPECT_FLOAT_EQ(preprocess.place(640, 480).picture_x(10), 122);
}

TEST(PictureFitter, YuyvAndNv12AreBt601) {
  // Y, U, V of black, white and the pure colours at full saturation.
  const struct {
    std::uint8_t y, u, v;
    Bytes rgb;
  } cases[] = {{16, 128, 128, {0, 0, 0}},
               {235, 128, 128, {255, 255, 255}},
               {81, 90, 240, {255, 0, 0}},
               {145, 54, 34, {0, 255, 0}},
               {41, 240, 110, {0, 0, 255}}};
  for (const auto& colour : cases) {
    const Bytes yuyv{colour.y, colour.u, colour.y, colour.v};
    const Bytes nv12{colour.y, colour.y, colour.y, colour.y, colour.u, colour.v};
    const Bytes from_yuyv = fit(stretch(1, 1, "RGB"), picture_of(PixelFormat::kYuyv, 2, 1, yuyv));
    EXPECT_EQ(from_yuyv, fit(stretch(1, 1, "RGB"), picture_of(PixelFormat::kNv12, 2, 2, nv12)));
    for (std::size_t channel = 0; channel < 3; ++channel) {
      EXPECT_NEAR(from_yuyv[channel], colour.rgb[channel], 1);
    }
  }
}

// All values of Y with many of U and V, also those outside of the ranges that BT.601 names, in rows
// whose length is no multiple of a SIMD register's.
TEST(PictureFitter, EveryPixelOfYuyvIsThatOfTheFormula) {
  constexpr int kWidth = 2 * 257;
  std::mt19937 random(601);
  for (const int width : {2, 14, 16, 18, 30, kWidth}) {
    Bytes yuyv(2 * static_cast<std::size_t>(width));
    std::array<Bytes, 2> expected;
    for (int repeat = 0; repeat < 40; ++repeat) {
      for (Bytes& pixels : expected) pixels.clear();
      for (std::size_t pair = 0; pair < yuyv.size() / 4; ++pair) {
        const auto any = [&] { return static_cast<std::uint8_t>(random() & 255U); };
        const bool extreme = random() % 4 == 0;
        const auto colour = [&] { return extreme ? std::uint8_t(random() % 2 * 255) : any(); };
        const std::uint8_t u = colour();
        const std::uint8_t v = colour();
        const std::uint8_t y[2] = {static_cast<std::uint8_t>(pair), any()};
        for (std::size_t n = 0; n < 2; ++n) {
          yuyv[4 * pair + 2 * n] = y[n];
          const int luma = 298 * (y[n] - 16) + 128;
          const int rgb[3] = {luma + 409 * (v - 128), luma - 100 * (u - 128) - 208 * (v - 128),
                              luma + 516 * (u - 128)};
          for (int channel = 0; channel < 3; ++channel) {
            expected[0].push_back(static_cast<std::uint8_t>(std::clamp(rgb[channel] >> 8, 0, 255)));
            expected[1].push_back(
                static_cast<std::uint8_t>(std::clamp(rgb[2 - channel] >> 8, 0, 255)));
          }
        }
        yuyv[4 * pair + 1] = u;
        yuyv[4 * pair + 3] = v;
      }
      const Picture picture = picture_of(PixelFormat::kYuyv, width, 1, yuyv);
      EXPECT_EQ(fit(stretch(width, 1, "RGB"), picture), expected[0]);
      EXPECT_EQ(fit(stretch(width, 1, "BGR"), picture), expected[1]);
    }
  }
}

TEST(PictureFitter, ReadsRowsWithPaddingAndPicturesOfChangingSize) {
  Result<PictureFitter> fitter = PictureFitter::create(stretch(2, 2, "GRAY"));
  Bytes frame(4);
  const Bytes padded{1, 2, 99, 3, 4};
  Picture picture = picture_of(PixelFormat::kGray, 2, 2, padded);
  picture.row_bytes = 3;
  ASSERT_TRUE(fitter->fit(picture, std::as_writable_bytes(std::span(frame))).ok());
  EXPECT_EQ(frame, (Bytes{1, 2, 3, 4}));
  const Bytes larger(16, 9);
  ASSERT_TRUE(fitter
                  ->fit(picture_of(PixelFormat::kGray, 4, 4, larger),
                        std::as_writable_bytes(std::span(frame)))
                  .ok());
  EXPECT_EQ(frame, Bytes(4, 9));
}

TEST(PictureFitter, RefusesInconsistentPictures) {
  Result<PictureFitter> fitter = PictureFitter::create(stretch(2, 2, "RGB"));
  Bytes frame(12);
  const auto message = [&](const Picture& picture) {
    return fitter->fit(picture, std::as_writable_bytes(std::span(frame))).message();
  };
  const Bytes few(10);
  EXPECT_EQ(message(picture_of(PixelFormat::kRgb, 2, 2, few)),
            "picture rgb 2x2: has 10 bytes, expected 12");
  EXPECT_EQ(message(picture_of(PixelFormat::kYuyv, 3, 1, few)),
            "picture yuyv 3x1: expected an even width");
  EXPECT_EQ(message(picture_of(PixelFormat::kNv12, 2, 3, few)),
            "picture nv12 2x3: expected an even height");
}

TEST(JpegCodec, DecodesWhatItEncodesAndRefusesDamage) {
  if (const std::string why = testing::jpeg_lacks(); !why.empty()) GTEST_SKIP() << why;
  Result<JpegCodec> codec = JpegCodec::create();
  ASSERT_TRUE(codec.ok()) << codec.status().message();
  const Bytes even(std::size_t{32} * 16 * 3, 90);
  Result<std::span<const std::byte>> encoded =
      codec->encode(picture_of(PixelFormat::kRgb, 32, 16, even), 95);
  ASSERT_TRUE(encoded.ok());
  const std::vector<std::byte> file(encoded->begin(), encoded->end());
  Result<Picture> decoded = codec->decode(file);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->width, 32);
  EXPECT_EQ(decoded->height, 16);
  for (const std::byte value : decoded->bytes) EXPECT_NEAR(static_cast<int>(value), 90, 2);
  EXPECT_EQ(codec->decode(std::span(file).first(20)).status().code(), Code::kCorrupt);
  EXPECT_EQ(codec->decode(std::span(file).first(file.size() / 2)).status().code(), Code::kCorrupt);
}

/// A JPEG's header alone: 16384x16384 pixels, baseline, three components.
std::string large_jpeg() {
  return std::string("\xff\xd8\xff\xc0\x00\x11\x08\x40\x00\x40\x00\x03", 12) +
         std::string("\x01\x11\x00\x02\x11\x00\x03\x11\x00", 9) +
         std::string("\xff\xda\x00\x0c\x03\x01\x00\x02\x00\x03\x00\x00\x3f\x00", 14);
}

TEST(PictureFitterJpeg, ALargePictureIsRefusedByItsHeader) {
  if (const std::string why = testing::jpeg_lacks(); !why.empty()) GTEST_SKIP() << why;
  Result<JpegCodec> codec = JpegCodec::create();
  const std::string file = large_jpeg();
  const Status status = codec->decode(std::as_bytes(std::span(file))).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(),
            "JPEG: the picture is 16384x16384 pixels, expected at most 33554432 in all");
}

}  // namespace
}  // namespace edgepipe
