#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "edgepipe/picture_source.h"
#include "media/sources/pacer.h"
#include "media/sources/picture_pool.h"

namespace edgepipe {
namespace {

struct Disc {
  int radius_per_mille;  // of the picture's height
  int speed_x;           // pixels per 16 pictures
  int speed_y;
  std::array<std::uint8_t, 3> colour;
};

constexpr std::array<Disc, 4> kDiscs{{
    {170, 61, 37, {242, 95, 76}},
    {110, -83, 53, {250, 200, 80}},
    {80, 97, -71, {120, 220, 180}},
    {55, -113, -101, {235, 235, 245}},
}};

/// A position that bounces between `least` and `most`.
int bounce(std::uint64_t number, int speed, int least, int most) {
  const std::int64_t span = std::max(1, most - least);
  std::int64_t way = static_cast<std::int64_t>(number % (1U << 24)) * speed / 16 % (2 * span);
  if (way < 0) way += 2 * span;
  return least + static_cast<int>(way < span ? way : 2 * span - way);
}

class SyntheticPictures final : public PictureSource {
 public:
  SyntheticPictures(int width, int height, const Pace& pace)
      : width_(width), height_(height), pacer_(pace) {}

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    if (!pacer_.wait(stop)) return false;
    lease.release();
    lease = pool_->lend({.format = PixelFormat::kRgb, .width = width_, .height = height_});
    draw(PicturePool::writable(lease), number_++);
    return true;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = number_, .taken = number_, .steps = pacer_.steps()};
  }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return "synthetic#" + std::to_string(number);
  }

  [[nodiscard]] std::string description() const override {
    return "synthetic pictures, " + std::to_string(width_) + "x" + std::to_string(height_);
  }

 private:
  void draw(std::span<std::byte> picture, std::uint64_t number) const {
    const int drift = static_cast<int>(number % 512);
    const int swing = drift < 256 ? drift : 511 - drift;
    auto* const pixels = reinterpret_cast<std::uint8_t*>(picture.data());
    std::uint8_t* out = pixels;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        *out++ = static_cast<std::uint8_t>(24 + 40 * x / width_);
        *out++ = static_cast<std::uint8_t>(40 + 70 * y / height_);
        *out++ = static_cast<std::uint8_t>(70 + swing / 4 + 50 * (x + y) / (width_ + height_));
      }
    }
    for (const Disc& disc : kDiscs) draw(pixels, disc, number);
  }

  void draw(std::uint8_t* pixels, const Disc& disc, std::uint64_t number) const {
    const int radius = std::max(1, height_ * disc.radius_per_mille / 1000);
    const int centre_x = bounce(number, disc.speed_x, radius, width_ - radius);
    const int centre_y = bounce(number, disc.speed_y, radius, height_ - radius);
    for (int y = std::max(0, centre_y - radius); y < std::min(height_, centre_y + radius); ++y) {
      for (int x = std::max(0, centre_x - radius); x < std::min(width_, centre_x + radius); ++x) {
        const int away_x = x - centre_x;
        const int away_y = y - centre_y;
        if (away_x * away_x + away_y * away_y >= radius * radius) continue;
        const auto pixel = static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                           static_cast<std::size_t>(x);
        std::copy(disc.colour.begin(), disc.colour.end(), pixels + 3 * pixel);
      }
    }
  }

  int width_;
  int height_;
  std::shared_ptr<PicturePool> pool_ = std::make_shared<PicturePool>();
  Pacer pacer_;
  std::atomic<std::uint64_t> number_{0};
};

}  // namespace

std::unique_ptr<PictureSource> make_synthetic_pictures(int width, int height, const Pace& pace) {
  return std::make_unique<SyntheticPictures>(width, height, pace);
}

}  // namespace edgepipe
