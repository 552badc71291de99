#include "media/pictures/picture_copier.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "media/pictures/pixel_row.h"
#include "stage/core_team.h"

namespace edgepipe {
namespace {

constexpr std::size_t kChannels = 3;

std::uint64_t divided(int side, int reduction) {
  return (static_cast<std::uint64_t>(side) + static_cast<std::uint64_t>(reduction) - 1) /
         static_cast<std::uint64_t>(reduction);
}

/// Adds a row of `width` pixels to the sums of groups of `reduction` pixels.
void add_row(const std::uint8_t* row, std::size_t width, std::size_t reduction,
             std::uint32_t* sums) {
  for (std::size_t first = 0; first < width; first += reduction, sums += kChannels) {
    const std::size_t end = std::min(first + reduction, width);
    for (std::size_t x = first; x < end; ++x, row += kChannels) {
      for (std::size_t channel = 0; channel < kChannels; ++channel) sums[channel] += row[channel];
    }
  }
}

/// The means of `count` sums of `pixels` pixels each, rounded.
void write_means(const std::uint32_t* sums, std::size_t count, std::uint64_t pixels,
                 std::byte* out) {
  constexpr int kShift = 32;
  const std::uint64_t inverse = ((std::uint64_t{1} << kShift) + pixels / 2) / pixels;
  const std::uint64_t half = std::uint64_t{1} << (kShift - 1);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::byte>((sums[i] * inverse + half) >> kShift);
  }
}

}  // namespace

/// A copy that the cores of a stage make together, one band for each call of `run`.
struct PictureCopier::Sharing {
  const Picture& picture;
  std::span<std::byte> pixels;
  std::array<Band, kBands>& scratch;
  std::size_t reduction;
  std::size_t rows;  // of the copy
  std::size_t row_bytes;
  std::size_t bands;

  static int run(void* context, std::size_t band) {
    const Sharing& shared = *static_cast<Sharing*>(context);
    const std::size_t end = shared.rows * (band + 1) / shared.bands;
    for (std::size_t row = shared.rows * band / shared.bands; row < end; ++row) {
      std::byte* const out = shared.pixels.data() + row * shared.row_bytes;
      if (shared.reduction == 1) {
        shared.copy_row(row, out);
      } else {
        shared.reduce_rows(row, shared.scratch[band], out);
      }
    }
    return 0;
  }

  void copy_row(std::size_t row, std::byte* out) const {
    if (picture.format == PixelFormat::kRgb) {
      std::memcpy(out, picture.bytes.data() + row * picture.row_bytes, row_bytes);
      return;
    }
    unpack_row(picture, static_cast<int>(row), ChannelOrder::kRgb,
               {reinterpret_cast<std::uint8_t*>(out), row_bytes});
  }

  void reduce_rows(std::size_t row, Band& own, std::byte* out) const {
    const auto width = static_cast<std::size_t>(picture.width);
    const std::size_t first = row * reduction;
    const std::size_t end = std::min(first + reduction, static_cast<std::size_t>(picture.height));
    std::ranges::fill(own.sums, 0U);
    for (std::size_t source = first; source < end; ++source) {
      unpack_row(picture, static_cast<int>(source), ChannelOrder::kRgb, own.unpacked);
      add_row(own.unpacked.data(), width, reduction, own.sums.data());
    }
    const std::size_t full = width / reduction * kChannels;  // sums of `reduction` columns
    write_means(own.sums.data(), full, (end - first) * reduction, out);
    if (const std::size_t rest = width % reduction; rest != 0) {
      write_means(own.sums.data() + full, kChannels, (end - first) * rest, out + full);
    }
  }
};

int PictureCopier::reduction(int width, int height, std::uint64_t most_pixels) {
  const std::uint64_t most = std::max(most_pixels, kLeastPixels);
  int by = 1;
  while (divided(width, by) * divided(height, by) > most) ++by;
  return by;
}

Picture PictureCopier::copy(const Picture& picture, int reduction, std::vector<std::byte>& pixels) {
  const std::uint64_t width = divided(picture.width, reduction);
  const std::uint64_t height = divided(picture.height, reduction);
  const auto row_bytes = static_cast<std::size_t>(width * kChannels);
  const auto rows = static_cast<std::size_t>(height);
  if (pixels.size() < rows * row_bytes) pixels.resize(rows * row_bytes);
  CoreTeam* const team = CoreTeam::current();
  const std::size_t bands =
      team == nullptr || team->threads() == 1 ? 1 : std::clamp<std::size_t>(rows, 1, kBands);
  if (reduction > 1) {
    for (Band& band : std::span(bands_).first(bands)) {
      band.unpacked.resize(static_cast<std::size_t>(picture.width) * kChannels);
      band.sums.resize(row_bytes);
    }
  }
  Sharing shared{.picture = picture,
                 .pixels = pixels,
                 .scratch = bands_,
                 .reduction = static_cast<std::size_t>(reduction),
                 .rows = rows,
                 .row_bytes = row_bytes,
                 .bands = bands};
  if (bands == 1) {
    Sharing::run(&shared, 0);
  } else {
    team->run(bands, &Sharing::run, &shared);
  }
  return {.format = PixelFormat::kRgb,
          .width = static_cast<int>(width),
          .height = static_cast<int>(height),
          .row_bytes = row_bytes,
          .bytes = std::span(pixels).first(rows * row_bytes)};
}

}  // namespace edgepipe
