#include "media/pictures/pixel_row.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

namespace edgepipe {
namespace {

// Rows are converted in runs of this many pixels with separate planes: loops of a fixed length over
// narrow integers, which compilers turn into SIMD code (widening multiplications of NEON and SSE2).
constexpr std::size_t kRun = 64;

template <typename Value>
using Plane = std::array<Value, kRun>;

struct Yuv {
  Plane<std::int16_t> y;
  Plane<std::int16_t> u;
  Plane<std::int16_t> v;
};

struct Rgb {
  Plane<std::uint8_t> red;
  Plane<std::uint8_t> green;
  Plane<std::uint8_t> blue;
};

std::uint8_t to_byte(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

/// ITU-R BT.601 with Y in 16..235 and U, V in 16..240, coefficients times 256.
void from_yuv(const Yuv& from, Rgb& to) {
  for (std::size_t x = 0; x < kRun; ++x) {
    const int luma = 298 * static_cast<std::int16_t>(from.y[x] - 16) + 128;
    const auto blue_difference = static_cast<std::int16_t>(from.u[x] - 128);
    const auto red_difference = static_cast<std::int16_t>(from.v[x] - 128);
    to.red[x] = to_byte((luma + 409 * red_difference) >> 8);
    to.green[x] = to_byte((luma - 100 * blue_difference - 208 * red_difference) >> 8);
    to.blue[x] = to_byte((luma + 516 * blue_difference) >> 8);
  }
}

/// The pixels of `from` that fill `to`, which has room for kRun pixels or for the rest of the row.
void pack(const Rgb& from, std::size_t count, ChannelOrder order, std::uint8_t* to) {
  if (order == ChannelOrder::kGray) {
    for (std::size_t x = 0; x < count; ++x) {
      const int weighed = 9798 * from.red[x] + 19235 * from.green[x] + 3735 * from.blue[x];
      to[x] = static_cast<std::uint8_t>((weighed + (1 << 14)) >> 15);
    }
    return;
  }
  const Plane<std::uint8_t>& first = order == ChannelOrder::kRgb ? from.red : from.blue;
  const Plane<std::uint8_t>& third = order == ChannelOrder::kRgb ? from.blue : from.red;
  for (std::size_t x = 0; x < count; ++x) {
    to[3 * x] = first[x];
    to[3 * x + 1] = from.green[x];
    to[3 * x + 2] = third[x];
  }
}

#ifdef __ARM_NEON
/// A colour of eight pixels, from their luma times 298 and their colour difference times its
/// coefficient. Rounds, shifts and saturates as from_yuv does.
uint8x8_t colour(int16x8_t luma, int32x4_t low, int32x4_t high) {
  constexpr std::int16_t kLuma = 298;
  return vqmovn_u16(vcombine_u16(vqrshrun_n_s32(vmlal_n_s16(low, vget_low_s16(luma), kLuma), 8),
                                 vqrshrun_n_s32(vmlal_n_s16(high, vget_high_s16(luma), kLuma), 8)));
}

/// Sixteen pixels from their even and their odd ones.
uint8x16_t interleaved(uint8x8_t even, uint8x8_t odd) {
  const uint8x8x2_t both = vzip_u8(even, odd);
  return vcombine_u8(both.val[0], both.val[1]);
}

/// The first pixels of a YUYV row as bytes in a colour order; returns how many: multiples of 16.
/// Compilers find neither the saturating shift nor that two pixels share their colour differences.
std::size_t unpack_yuyv(const std::uint8_t* line, std::size_t width, ChannelOrder order,
                        std::uint8_t* out) {
  const uint8x8_t black = vdup_n_u8(16);
  const uint8x8_t grey = vdup_n_u8(128);
  std::size_t done = 0;
  for (; done + 16 <= width; done += 16) {
    const uint8x8x4_t four = vld4_u8(line + 2 * done);  // even luma, U, odd luma, V
    const int16x8_t even = vreinterpretq_s16_u16(vsubl_u8(four.val[0], black));
    const int16x8_t odd = vreinterpretq_s16_u16(vsubl_u8(four.val[2], black));
    const int16x8_t u = vreinterpretq_s16_u16(vsubl_u8(four.val[1], grey));
    const int16x8_t v = vreinterpretq_s16_u16(vsubl_u8(four.val[3], grey));
    const auto times = [](int16x4_t value, std::int16_t factor) {
      return vmull_n_s16(value, factor);
    };
    const int16x4_t u_low = vget_low_s16(u);
    const int16x4_t u_high = vget_high_s16(u);
    const int16x4_t v_low = vget_low_s16(v);
    const int16x4_t v_high = vget_high_s16(v);
    const int32x4_t red_low = times(v_low, 409);
    const int32x4_t red_high = times(v_high, 409);
    const int32x4_t green_low = vmlal_n_s16(times(u_low, -100), v_low, -208);
    const int32x4_t green_high = vmlal_n_s16(times(u_high, -100), v_high, -208);
    const int32x4_t blue_low = times(u_low, 516);
    const int32x4_t blue_high = times(u_high, 516);
    uint8x16x3_t pixels;
    const std::size_t red = order == ChannelOrder::kRgb ? 0 : 2;
    pixels.val[red] = interleaved(colour(even, red_low, red_high), colour(odd, red_low, red_high));
    pixels.val[1] =
        interleaved(colour(even, green_low, green_high), colour(odd, green_low, green_high));
    pixels.val[2 - red] =
        interleaved(colour(even, blue_low, blue_high), colour(odd, blue_low, blue_high));
    vst3q_u8(out + 3 * done, pixels);
  }
  return done;
}
#endif

/// One row of a picture; `read` gives pixels [at, at + count) of it as planes.
class Row {
 public:
  Row(const Picture& picture, int row)
      : format_(picture.format),
        line_(reinterpret_cast<const std::uint8_t*>(picture.bytes.data()) +
              static_cast<std::size_t>(row) * picture.row_bytes) {
    if (format_ != PixelFormat::kNv12) return;
    const auto chroma_row =
        static_cast<std::size_t>(picture.height) + static_cast<std::size_t>(row) / 2;
    chroma_ = reinterpret_cast<const std::uint8_t*>(picture.bytes.data()) +
              chroma_row * picture.row_bytes;
  }

  void read(std::size_t at, std::size_t count, Rgb& to) const {
    switch (format_) {
      case PixelFormat::kRgb:
        read_triples(line_ + 3 * at, count, to.red, to.green, to.blue);
        break;
      case PixelFormat::kBgr:
        read_triples(line_ + 3 * at, count, to.blue, to.green, to.red);
        break;
      case PixelFormat::kGray:
        for (std::size_t x = 0; x < count; ++x) {
          to.red[x] = to.green[x] = to.blue[x] = line_[at + x];
        }
        break;
      case PixelFormat::kYuyv:
        for (std::size_t pair = 0; pair < count / 2; ++pair) {
          const std::uint8_t* four = line_ + 2 * at + 4 * pair;
          put(to_yuv_, pair, four[0], four[2], four[1], four[3]);
        }
        from_yuv(to_yuv_, to);
        break;
      case PixelFormat::kNv12:
        for (std::size_t pair = 0; pair < count / 2; ++pair) {
          const std::size_t x = at + 2 * pair;
          put(to_yuv_, pair, line_[x], line_[x + 1], chroma_[x], chroma_[x + 1]);
        }
        from_yuv(to_yuv_, to);
        break;
      case PixelFormat::kJpeg:
      case PixelFormat::kPng:
      case PixelFormat::kBmp:
        break;  // excluded by the contract
    }
  }

 private:
  static void read_triples(const std::uint8_t* from, std::size_t count, Plane<std::uint8_t>& first,
                           Plane<std::uint8_t>& second, Plane<std::uint8_t>& third) {
    for (std::size_t x = 0; x < count; ++x) {
      first[x] = from[3 * x];
      second[x] = from[3 * x + 1];
      third[x] = from[3 * x + 2];
    }
  }

  /// Two pixels that share their colour.
  static void put(Yuv& to, std::size_t pair, std::uint8_t left, std::uint8_t right, std::uint8_t u,
                  std::uint8_t v) {
    to.y[2 * pair] = left;
    to.y[2 * pair + 1] = right;
    to.u[2 * pair] = to.u[2 * pair + 1] = u;
    to.v[2 * pair] = to.v[2 * pair + 1] = v;
  }

  PixelFormat format_;
  const std::uint8_t* line_;
  const std::uint8_t* chroma_ = nullptr;
  mutable Yuv to_yuv_{};
};

}  // namespace

void unpack_row(const Picture& picture, int row, ChannelOrder order, std::span<std::uint8_t> out) {
  const Row source(picture, row);
  const std::size_t channels = order == ChannelOrder::kGray ? 1 : 3;
  const auto width = static_cast<std::size_t>(picture.width);
  Rgb pixels{};
  std::size_t first = 0;
#ifdef __ARM_NEON
  if (picture.format == PixelFormat::kYuyv && order != ChannelOrder::kGray) {
    first = unpack_yuyv(reinterpret_cast<const std::uint8_t*>(picture.bytes.data()) +
                            static_cast<std::size_t>(row) * picture.row_bytes,
                        width, order, out.data());
  }
#endif
  for (std::size_t at = first; at < width; at += kRun) {
    const std::size_t count = std::min(kRun, width - at);
    source.read(at, count, pixels);
    pack(pixels, count, order, out.data() + at * channels);
  }
}

}  // namespace edgepipe
