// Painter: boxes and names on a picture in memory, in any packed format of eight bits a channel.
//
//   Painter painter(canvas);
//   painter.outline({.left = 10, .top = 20, .right = 90, .bottom = 60}, 2, class_colour(0));
//   painter.label(10, 20, "person 0.87", 1, class_colour(0));
//
// Whatever is outside of the picture is left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace edgepipe::gstreamer {

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

  /// The inner border of an area, `line` pixels wide.
  void outline(const Area& area, int line, Colour colour);

  /// A line of text on a band of `colour`, above (left, top) if there is room, and inside of the
  /// picture if it is not wider. Each pixel of a letter is `scale` pixels wide. Letters outside of
  /// ASCII become '?'.
  void label(int left, int top, std::string_view text, int scale, Colour colour);

 private:
  Canvas canvas_;
};

}  // namespace edgepipe::gstreamer
