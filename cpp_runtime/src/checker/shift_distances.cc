#include "checker/shift_distances.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace edgepipe {
namespace {

ShiftDistances::Lanes lanes_of(const std::byte* entry, std::size_t bytes) {
  constexpr std::uint32_t kSign = 1U << 4;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t lane = 0;
    std::memcpy(&lane, entry + at, sizeof(lane));
    if ((lane & kSign) != 0) return ShiftDistances::Lanes::kLeft;
  }
  return ShiftDistances::Lanes::kRight;
}

}  // namespace

ShiftDistances::ShiftDistances(const Accelerator& accelerator) : accelerator_(accelerator) {
  if (accelerator.implementation == Implementation::kChisel) {
    lanes_.assign(accelerator.acc_depth(), Lanes::kUnknown);
  }
}

void ShiftDistances::load(const Instruction& i, const std::byte* constants) {
  if (!are_limited()) return;
  const std::size_t row = i.x_pad_0 + i.x_size + i.x_pad_1;
  const std::size_t rows = i.y_pad_0 + i.y_size + i.y_pad_1;
  const auto first = lanes_.begin() + i.sram_base;
  const auto written = first + static_cast<std::ptrdiff_t>(rows * row);
  if (constants == nullptr) return std::fill(first, written, Lanes::kUnknown);
  std::fill(first, written, Lanes::kRight);  // pads are zeros
  const std::size_t bytes = accelerator_.acc_bytes();
  for (std::size_t y = 0; y < i.y_size; ++y) {
    const auto inside = first + static_cast<std::ptrdiff_t>((i.y_pad_0 + y) * row + i.x_pad_0);
    for (std::size_t x = 0; x < i.x_size; ++x) {
      inside[static_cast<std::ptrdiff_t>(x)] =
          lanes_of(constants + (y * i.x_stride + x) * bytes, bytes);
    }
  }
}

void ShiftDistances::overwrite(std::span<const Interval> entries) {
  if (!are_limited()) return;
  for (const Interval& each : entries) {
    std::fill(lanes_.begin() + each.begin, lanes_.begin() + each.end, Lanes::kUnknown);
  }
}

std::optional<ShiftDistances::Unsafe> ShiftDistances::find_unsafe(
    std::span<const Interval> entries) const {
  if (!are_limited()) return std::nullopt;
  for (const Interval& each : entries) {
    for (std::uint32_t n = each.begin; n < each.end; ++n) {
      if (lanes_[n] != Lanes::kRight) return Unsafe{.entry = n, .lanes = lanes_[n]};
    }
  }
  return std::nullopt;
}

}  // namespace edgepipe
