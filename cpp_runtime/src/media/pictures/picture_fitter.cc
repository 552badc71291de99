#include "media/pictures/picture_fitter.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "media/pictures/axis_taps.h"
#include "media/pictures/pixel_row.h"

namespace edgepipe {
namespace {

/// Resizes a row of pixels to the frame's width; the sums of a pixel stay in registers.
template <std::size_t kChannels>
void filter(std::span<const std::uint8_t> row, const AxisTaps& columns,
            std::span<std::uint32_t> filtered) {
  std::uint32_t* out = filtered.data();
  for (std::size_t column = 0; column < filtered.size() / kChannels; ++column) {
    const std::uint8_t* source =
        row.data() + static_cast<std::size_t>(columns.first(column)) * kChannels;
    std::uint32_t sums[kChannels] = {};
    for (const std::uint32_t weight : columns.weights(column)) {
      for (std::size_t channel = 0; channel < kChannels; ++channel) {
        sums[channel] += weight * *source++;
      }
    }
    for (const std::uint32_t sum : sums) *out++ = sum;
  }
}

}  // namespace

/// Everything that depends on the size of the pictures.
struct PictureFitter::Plan {
  ChannelOrder order = ChannelOrder::kRgb;
  int width = 0;  // of the pictures, pixels
  int height = 0;
  AxisTaps columns;
  AxisTaps rows;
  std::vector<std::uint8_t> unpacked;      // one source row
  std::vector<std::uint32_t> total;        // one frame row
  std::vector<std::uint32_t> filtered[2];  // source rows resized to the frame's width, by parity
  int filtered_row[2] = {-1, -1};
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
  const auto values =
      static_cast<std::size_t>(preprocess.width) * static_cast<std::size_t>(preprocess.channels());
  plan->total.resize(values);
  for (auto& row : plan->filtered) row.resize(values);
  return PictureFitter(preprocess, most_pixels, std::move(plan));
}

void PictureFitter::plan_for(const Picture& picture) {
  Plan& plan = *plan_;
  for (int& row : plan.filtered_row) row = -1;  // invalid for a new picture
  if (picture.width == plan.width && picture.height == plan.height) return;
  plan.width = picture.width;
  plan.height = picture.height;
  int fitted_width = preprocess_.width;
  int fitted_height = preprocess_.height;
  if (preprocess_.fit == "center_crop") {
    // Rounds half to even, like the Python side.
    const double ratio = static_cast<double>(preprocess_.resize_short_side) /
                         std::min(picture.width, picture.height);
    const auto fitted = [&](int side, int least) {
      return std::max(static_cast<int>(std::nearbyint(side * ratio)), least);
    };
    fitted_width = fitted(picture.width, preprocess_.width);
    fitted_height = fitted(picture.height, preprocess_.height);
  }
  const bool shrinking = fitted_width < picture.width && fitted_height < picture.height;
  const auto method = shrinking ? AxisTaps::Method::kArea : AxisTaps::Method::kLinear;
  plan.columns = AxisTaps(method, picture.width, fitted_width,
                          (fitted_width - preprocess_.width) / 2, preprocess_.width);
  plan.rows = AxisTaps(method, picture.height, fitted_height,
                       (fitted_height - preprocess_.height) / 2, preprocess_.height);
  plan.unpacked.resize(static_cast<std::size_t>(picture.width) *
                       static_cast<std::size_t>(preprocess_.channels()));
}

/// A source row resized to the frame's width: at most 255 * 2048. Neighbouring frame rows share at
/// most two source rows, so two are kept.
std::span<const std::uint32_t> PictureFitter::filtered_row(const Picture& picture, int row) {
  Plan& plan = *plan_;
  const std::size_t keep = static_cast<std::size_t>(row) & 1;
  std::vector<std::uint32_t>& filtered = plan.filtered[keep];
  if (plan.filtered_row[keep] == row) return filtered;
  plan.filtered_row[keep] = row;
  unpack_row(picture, row, plan.order, plan.unpacked);
  if (preprocess_.channels() == 1) {
    filter<1>(plan.unpacked, plan.columns, filtered);
  } else {
    filter<3>(plan.unpacked, plan.columns, filtered);
  }
  return filtered;
}

Status PictureFitter::fit(const Picture& picture, std::span<std::byte> frame) {
  if (Status status = check(picture); !status.ok()) return status;
  if (picture.format != PixelFormat::kJpeg) return fit_pixels(picture, frame);
  if (!jpeg_) {
    Result<JpegCodec> codec = JpegCodec::create();
    if (!codec.ok()) return codec.status();
    jpeg_ = std::move(*codec);
  }
  Result<Picture> decoded = jpeg_->decode(picture.bytes, most_pixels_);
  return decoded.ok() ? fit_pixels(*decoded, frame) : decoded.status();
}

Status PictureFitter::fit_pixels(const Picture& picture, std::span<std::byte> frame) {
  const std::size_t row_values = plan_->total.size();
  const std::size_t expected = row_values * static_cast<std::size_t>(preprocess_.height);
  if (frame.size() != expected) {
    return Status(Code::kInvalidArgument, "the frame has " + std::to_string(frame.size()) +
                                              " bytes, expected " + std::to_string(expected));
  }
  plan_for(picture);
  constexpr int kShift = 2 * AxisTaps::kUnityLog2;
  std::vector<std::uint32_t>& total = plan_->total;
  for (std::size_t row = 0; row < static_cast<std::size_t>(preprocess_.height); ++row) {
    std::fill(total.begin(), total.end(), std::uint32_t{1} << (kShift - 1));
    int source_row = plan_->rows.first(row);
    for (const std::uint32_t weight : plan_->rows.weights(row)) {
      const std::span<const std::uint32_t> source = filtered_row(picture, source_row++);
      for (std::size_t value = 0; value < row_values; ++value) {
        total[value] += weight * source[value];
      }
    }
    std::byte* out = frame.data() + row * row_values;
    for (std::size_t value = 0; value < row_values; ++value) {
      out[value] = static_cast<std::byte>(total[value] >> kShift);
    }
  }
  return {};
}

}  // namespace edgepipe
