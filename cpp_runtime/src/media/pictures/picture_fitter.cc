#include "media/pictures/picture_fitter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "media/pictures/axis_taps.h"
#include "media/pictures/bitmap.h"
#include "media/pictures/orientation.h"
#include "media/pictures/pixel_row.h"
#include "stage/core_team.h"

namespace edgepipe {
namespace {

constexpr int kShift = 2 * AxisTaps::kUnityLog2;
constexpr std::uint32_t kHalf = std::uint32_t{1} << (kShift - 1);

/// The lanes of a SIMD register that hold a pixel's colours. The fourth is the next pixel's first.
using Lanes = std::uint32_t __attribute__((vector_size(16)));

/// Resizes a row of sums of source rows, at most 255 * 2048 each, to the frame's width. One sum
/// follows the last pixel.
template <std::size_t kChannels>
void resize_row(const std::uint32_t* sums, const AxisTaps& columns, std::size_t count,
                std::byte* out) {
  for (std::size_t column = 0; column < count; ++column) {
    const std::uint32_t* source =
        sums + static_cast<std::size_t>(columns.first(column)) * kChannels;
    Lanes total = {kHalf, kHalf, kHalf, kHalf};
    for (const std::uint32_t weight : columns.weights(column)) {
      Lanes pixel;
      std::memcpy(&pixel, source, sizeof pixel);
      total += weight * pixel;
      source += kChannels;
    }
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      *out++ = static_cast<std::byte>(total[channel] >> kShift);
    }
  }
}

template <>
void resize_row<1>(const std::uint32_t* sums, const AxisTaps& columns, std::size_t count,
                   std::byte* out) {
  for (std::size_t column = 0; column < count; ++column) {
    const std::uint32_t* source = sums + columns.first(column);
    std::uint32_t total = kHalf;
    for (const std::uint32_t weight : columns.weights(column)) total += weight * *source++;
    out[column] = static_cast<std::byte>(total >> kShift);
  }
}

/// Into how many bands of rows cores divide a frame: more than they are, because a core that is
/// busy with other work takes fewer. Bands that touch both convert the source row between them.
constexpr std::size_t kSharedBands = 8;

/// What fitting a band of rows needs, so that bands can be fitted at the same time.
struct Band {
  std::vector<std::uint8_t> unpacked[2];  // source rows, by parity
  int unpacked_row[2] = {-1, -1};
  std::vector<std::uint32_t> sums;  // of weighed source rows, and 0
};

}  // namespace

/// Everything that depends on the size of the pictures.
struct PictureFitter::Plan {
  ChannelOrder order = ChannelOrder::kRgb;
  Placement placement;  // of the pictures
  AxisTaps columns;
  AxisTaps rows;
  std::array<Band, kSharedBands> bands;

  [[nodiscard]] std::size_t channels() const { return order == ChannelOrder::kGray ? 1 : 3; }
  const std::uint8_t* unpacked_row(const Picture& picture, int row, Band& band) const;
};

/// A frame that the cores of a stage fit together, one band for each call of `run`.
struct PictureFitter::Sharing {
  const PictureFitter& fitter;
  const Picture& picture;
  std::span<std::byte> frame;
  std::size_t rows;   // of the picture in the frame
  std::size_t bands;  // that divide them

  static int run(void* context, std::size_t band) {
    const Sharing& shared = *static_cast<Sharing*>(context);
    shared.fitter.fit_rows(shared.picture, shared.frame, band, shared.rows * band / shared.bands,
                           shared.rows * (band + 1) / shared.bands);
    return 0;
  }
};

PictureFitter::PictureFitter(const Preprocess& preprocess, std::uint64_t most_pixels,
                             std::unique_ptr<Plan> plan)
    : preprocess_(preprocess), most_pixels_(most_pixels), plan_(std::move(plan)) {}
PictureFitter::PictureFitter(PictureFitter&&) noexcept = default;
PictureFitter& PictureFitter::operator=(PictureFitter&&) noexcept = default;
PictureFitter::~PictureFitter() = default;

Result<PictureFitter> PictureFitter::create(const Preprocess& preprocess,
                                            std::uint64_t most_pixels) {
  const int longer = std::max(preprocess.width, preprocess.height);
  if (preprocess.fit == "center_crop" && preprocess.resize_short_side < longer) {
    return Status(Code::kInvalidArgument, "preprocess: resize_short_side is " +
                                              std::to_string(preprocess.resize_short_side) +
                                              ", expected at least " + std::to_string(longer));
  }
  auto plan = std::make_unique<Plan>();
  plan->order = preprocess.order == "GRAY"  ? ChannelOrder::kGray
                : preprocess.order == "BGR" ? ChannelOrder::kBgr
                                            : ChannelOrder::kRgb;
  return PictureFitter(preprocess, most_pixels, std::move(plan));
}

void PictureFitter::plan_for(const Picture& picture) {
  Plan& plan = *plan_;
  for (Band& band : plan.bands) {
    for (int& row : band.unpacked_row) row = -1;  // invalid for a new picture
  }
  Placement& placed = plan.placement;
  if (picture.width == placed.width && picture.height == placed.height) return;
  placed = preprocess_.place(picture.width, picture.height);
  const bool shrinking =
      placed.fitted_width < picture.width && placed.fitted_height < picture.height;
  const auto method = shrinking ? AxisTaps::Method::kArea : AxisTaps::Method::kLinear;
  const int columns = std::min(preprocess_.width, placed.fitted_width);
  const int rows = std::min(preprocess_.height, placed.fitted_height);
  plan.columns =
      AxisTaps(method, picture.width, placed.fitted_width, std::max(placed.left, 0), columns);
  plan.rows = AxisTaps(method, picture.height, placed.fitted_height, std::max(placed.top, 0), rows);
  const std::size_t values = static_cast<std::size_t>(picture.width) * plan.channels();
  for (Band& band : plan.bands) {
    for (auto& row : band.unpacked) row.resize(values);
    band.sums.assign(values + 1, 0);
  }
}

const Placement& PictureFitter::placement() const { return plan_->placement; }

/// A source row as bytes in the network's order. Neighbouring frame rows share at most two source
/// rows, so two are kept.
const std::uint8_t* PictureFitter::Plan::unpacked_row(const Picture& picture, int row,
                                                      Band& band) const {
  const std::size_t keep = static_cast<std::size_t>(row) & 1;
  std::vector<std::uint8_t>& unpacked = band.unpacked[keep];
  if (band.unpacked_row[keep] != row) {
    band.unpacked_row[keep] = row;
    unpack_row(picture, row, order, unpacked);
  }
  return unpacked.data();
}

Status PictureFitter::fit(const Picture& picture, std::span<std::byte> frame) {
  if (Status status = check(picture); !status.ok()) return status;
  Result<Picture> pixels = decoded(picture);
  if (!pixels.ok()) return pixels.status();
  pixels_ = *pixels;
  return fit_pixels(pixels_, frame);
}

Result<Picture> PictureFitter::decoded(const Picture& picture) {
  if (picture.format == PixelFormat::kPng) {
    if (!png_) {
      Result<PngDecoder> decoder = PngDecoder::create();
      if (!decoder.ok()) return decoder.status();
      png_ = *std::move(decoder);
    }
    Result<Picture> pixels = png_->decode(picture.bytes, most_pixels_);
    if (!pixels.ok()) return pixels;
    return turned(*pixels, png_orientation(picture.bytes), upright_);
  }
  if (picture.format == PixelFormat::kBmp) {
    return decode_bitmap(picture.bytes, most_pixels_, upright_);
  }
  if (picture.format != PixelFormat::kJpeg) return picture;
  if (!jpeg_) {
    Result<JpegCodec> codec = JpegCodec::create();
    if (!codec.ok()) return codec.status();
    jpeg_ = std::move(*codec);
  }
  Result<Picture> pixels = jpeg_->decode(picture.bytes, most_pixels_);
  if (!pixels.ok()) return pixels;
  return turned(*pixels, exif_orientation(picture.bytes), upright_);
}

Status PictureFitter::fit_pixels(const Picture& picture, std::span<std::byte> frame) {
  const std::size_t expected = static_cast<std::size_t>(preprocess_.width) *
                               static_cast<std::size_t>(preprocess_.height) * plan_->channels();
  if (frame.size() != expected) {
    return Status(Code::kInvalidArgument, "the frame has " + std::to_string(frame.size()) +
                                              " bytes, expected " + std::to_string(expected));
  }
  plan_for(picture);
  const Placement& placed = plan_->placement;
  const auto rows = static_cast<std::size_t>(std::min(preprocess_.height, placed.fitted_height));
  const auto columns = static_cast<std::size_t>(std::min(preprocess_.width, placed.fitted_width));
  if (columns * rows * plan_->channels() < expected) {
    std::ranges::fill(frame, static_cast<std::byte>(preprocess_.padding));
  }
  CoreTeam* const team = CoreTeam::current();
  const std::size_t bands =
      team == nullptr || team->threads() == 1 ? 1 : std::clamp<std::size_t>(rows, 1, kSharedBands);
  Sharing shared{.fitter = *this, .picture = picture, .frame = frame, .rows = rows, .bands = bands};
  if (bands == 1) {
    Sharing::run(&shared, 0);
  } else {
    team->run(bands, &Sharing::run, &shared);
  }
  return {};
}

void PictureFitter::fit_rows(const Picture& picture, std::span<std::byte> frame, std::size_t band,
                             std::size_t first, std::size_t end) const {
  const Plan& plan = *plan_;
  Band& own = plan_->bands[band];
  const std::size_t values = own.sums.size() - 1;
  const Placement& placed = plan.placement;
  const auto columns = static_cast<std::size_t>(std::min(preprocess_.width, placed.fitted_width));
  const std::size_t frame_row = static_cast<std::size_t>(preprocess_.width) * plan.channels();
  const std::size_t begin = static_cast<std::size_t>(std::max(-placed.top, 0)) * frame_row +
                            static_cast<std::size_t>(std::max(-placed.left, 0)) * plan.channels();
  std::uint32_t* const sums = own.sums.data();
  for (std::size_t row = first; row < end; ++row) {
    std::fill_n(sums, values, 0U);
    int source_row = plan.rows.first(row);
    for (const std::uint32_t weight : plan.rows.weights(row)) {
      const std::uint8_t* const source = plan.unpacked_row(picture, source_row++, own);
      for (std::size_t value = 0; value < values; ++value) sums[value] += weight * source[value];
    }
    std::byte* const out = frame.data() + begin + row * frame_row;
    if (plan.channels() == 1) {
      resize_row<1>(sums, plan.columns, columns, out);
    } else {
      resize_row<3>(sums, plan.columns, columns, out);
    }
  }
}

}  // namespace edgepipe
