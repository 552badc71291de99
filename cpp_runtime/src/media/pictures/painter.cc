#include "media/pictures/painter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "media/pictures/glyphs.h"

namespace edgepipe {
namespace {

constexpr Colour kBlack{};
constexpr Colour kWhite{.red = 255, .green = 255, .blue = 255};

constexpr int kMargin = 1;   // around a text, in pixels of its letters
constexpr int kAdvance = 6;  // from one letter to the next

std::uint64_t glyph_of(char letter) {
  const bool printable = letter >= ' ' && letter <= '~';
  return kGlyphs[static_cast<std::size_t>((printable ? letter : '?') - ' ')];
}

/// The number of characters in UTF-8, of which all but the first byte of each begin with bits 10.
bool begins_character(char letter) { return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U; }

}  // namespace

std::uint8_t Colour::luma() const {
  return static_cast<std::uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

Colour class_colour(int label_index) {
  // Steps of the golden ratio keep the hues of neighbours apart.
  constexpr double kStep = 0.618034;
  constexpr double kSaturation = 0.85;
  constexpr double kValue = 0.95;
  const double turns = label_index * kStep;
  const double hue = (turns - std::floor(turns)) * 6;
  const auto channel = [hue](double shift) {
    const double place = std::fmod(shift + hue, 6.0);
    const double part = std::clamp(std::min(place, 4 - place), 0.0, 1.0);
    return static_cast<std::uint8_t>((kValue - kValue * kSaturation * part) * 255);
  };
  return {.red = channel(5), .green = channel(3), .blue = channel(1)};
}

DrawingSizes drawing_sizes(int picture_width, int picture_height) {
  const int shorter = std::min(picture_width, picture_height);
  return {.line = std::max(1, (shorter + 150) / 300),
          .letter = std::max(1, (shorter + 180) / 360),
          .dot = std::max(2, (shorter + 75) / 150)};
}

Area Painter::within(const Area& area) const {
  return {std::max(area.left, 0), std::max(area.top, 0), std::min(area.right, canvas_.width),
          std::min(area.bottom, canvas_.height)};
}

void Painter::fill(const Area& area, Colour colour) {
  const auto [left, top, right, bottom] = within(area);
  const std::uint8_t grey = colour.luma();
  for (int row = top; row < bottom; ++row) {
    std::uint8_t* pixel = canvas_.pixels + row * canvas_.row_bytes + left * canvas_.pixel_bytes;
    for (int column = left; column < right; ++column, pixel += canvas_.pixel_bytes) {
      pixel[canvas_.channels[0]] = canvas_.grey ? grey : colour.red;
      pixel[canvas_.channels[1]] = canvas_.grey ? grey : colour.green;
      pixel[canvas_.channels[2]] = canvas_.grey ? grey : colour.blue;
    }
  }
}

void Painter::tint(const Area& area, Colour colour) {
  const auto [left, top, right, bottom] = within(area);
  const std::uint8_t grey = colour.luma();
  const std::array<int, 3> own = canvas_.grey
                                     ? std::array<int, 3>{grey, grey, grey}
                                     : std::array<int, 3>{colour.red, colour.green, colour.blue};
  const std::size_t channels = canvas_.grey ? 1 : 3;
  for (int row = top; row < bottom; ++row) {
    std::uint8_t* pixel = canvas_.pixels + row * canvas_.row_bytes + left * canvas_.pixel_bytes;
    for (int column = left; column < right; ++column, pixel += canvas_.pixel_bytes) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        std::uint8_t& value = pixel[canvas_.channels[channel]];
        value = static_cast<std::uint8_t>((value + own[channel]) / 2);
      }
    }
  }
}

void Painter::dot(int x, int y, int radius, Colour colour) {
  int half = radius;  // of the row's width
  for (int down = 0; down <= radius; ++down) {
    while (half * half + down * down > radius * radius) --half;
    fill({x - half, y + down, x + half + 1, y + down + 1}, colour);
    fill({x - half, y - down, x + half + 1, y - down + 1}, colour);
  }
}

void Painter::outline(const Area& area, int line, Colour colour) {
  const int across = std::min(line, area.right - area.left);
  const int down = std::min(line, area.bottom - area.top);
  fill({area.left, area.top, area.right, area.top + down}, colour);
  fill({area.left, area.bottom - down, area.right, area.bottom}, colour);
  fill({area.left, area.top, area.left + across, area.bottom}, colour);
  fill({area.right - across, area.top, area.right, area.bottom}, colour);
}

Area Painter::label_area(int left, int top, std::string_view text, int scale) const {
  const auto letters = static_cast<int>(std::ranges::count_if(text, begins_character));
  const int width = (letters * kAdvance - 1 + 2 * kMargin) * scale;
  const int height = (kGlyphHeight + 2 * kMargin) * scale;
  const int x = std::max(0, std::min(left, canvas_.width - width));
  const int y = top >= height ? top - height : top;
  return {x, y, x + width, y + height};
}

void Painter::label(int left, int top, std::string_view text, int scale, Colour colour) {
  const Area area = label_area(left, top, text, scale);
  fill(area, colour);
  constexpr int kBright = 127;  // a background on which black letters are easier to read
  const Colour ink = colour.luma() > kBright ? kBlack : kWhite;
  int at = area.left + kMargin * scale;
  for (const char letter : text) {
    if (!begins_character(letter)) continue;
    const std::uint64_t glyph = glyph_of(letter);
    for (int pixel = 0; pixel < kGlyphWidth * kGlyphHeight; ++pixel) {
      if ((glyph >> (kGlyphWidth * kGlyphHeight - 1 - pixel) & 1U) == 0) continue;
      const int column = at + pixel % kGlyphWidth * scale;
      const int row = area.top + (kMargin + pixel / kGlyphWidth) * scale;
      fill({column, row, column + scale, row + scale}, ink);
    }
    at += kAdvance * scale;
  }
}

}  // namespace edgepipe
