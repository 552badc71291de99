// Painter: boxes, names and dots on a picture in memory, in any packed format of eight bits a
// channel.
//
//   Painter painter(canvas);
//   const DrawingSizes sizes = drawing_sizes(canvas.width, canvas.height);
//   painter.outline({10, 20, 90, 60}, sizes.line, class_colour(0));
//   painter.label(10, 20, "person 0.87", sizes.letter, class_colour(0));
//
// Whatever is outside of the picture is left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace edgepipe {

/// Borrowed memory of a picture. `channels` are the offsets of red, green and blue in a pixel, all
/// the same in a grey picture.
struct Canvas {
  std::uint8_t* pixels = nullptr;
  int width = 0;   // pixels
  int height = 0;  // pixels
  std::ptrdiff_t row_bytes = 0;
  std::ptrdiff_t pixel_bytes = 0;
  std::array<std::ptrdiff_t, 3> channels = {};
  bool grey = false;
};

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  /// By BT.601, as pictures become grey for a network.
  [[nodiscard]] std::uint8_t luma() const;
};

/// The class's colour, the same as in the pictures of `edgepipe run` and on the live page.
Colour class_colour(int label_index);

/// What suits a picture, in pixels: the width of a box's line and of a letter's pixels, and a dot's
/// radius.
struct DrawingSizes {
  int line = 1;
  int letter = 1;
  int dot = 2;
};

DrawingSizes drawing_sizes(int picture_width, int picture_height);

/// Pixels from left-top to before right-bottom.
struct Area {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

class Painter {
 public:
  explicit Painter(const Canvas& canvas) : canvas_(canvas) {}

  void fill(const Area& area, Colour colour);

  /// Each pixel becomes the mean of itself and `colour`.
  void tint(const Area& area, Colour colour);

  /// A filled circle.
  void dot(int x, int y, int radius, Colour colour);

  /// The inner border of an area, `line` pixels wide.
  void outline(const Area& area, int line, Colour colour);

  /// A line of text on a band of `colour`, above (left, top) if there is room, and inside of the
  /// picture if it is not wider. Each pixel of a letter is `scale` pixels wide. Letters outside of
  /// ASCII become '?'.
  void label(int left, int top, std::string_view text, int scale, Colour colour);

  /// What label() fills, perhaps beyond the picture's right and lower edge.
  [[nodiscard]] Area label_area(int left, int top, std::string_view text, int scale) const;

 private:
  [[nodiscard]] Area within(const Area& area) const;

  Canvas canvas_;
};

}  // namespace edgepipe
