"""Pages made from C++ headers show what is public, with its comments, and nothing else."""

from __future__ import annotations

from docs.generate.header_pages import declarations, members, public_part, render, summary

HEADER = """\
// Lamp: a light that can be on or off. It starts off.
//
//   Lamp lamp(3);
//   lamp.toggle();
#pragma once

#include <string>

namespace edgepipe {

class Wire;

/// What a lamp is made of.
enum class Glass { kClear, kMilky };

inline constexpr int kSockets = 4;  // of a board

class [[nodiscard]] Lamp final {
 public:
  explicit Lamp(int socket) : socket_(socket), name_{"lamp"} {}
  Lamp(Lamp&& other) noexcept : name_(std::exchange(other.name_, {})) {}

  /// Changes the state; `*_bytes` are unaffected.
  bool toggle() {
    if (on_) { on_ = false; }
    return on_;
  }
  const std::string& name() const& { return name_; }

 private:
  int socket_;
  bool on_ = false;
};

/// Returns the sum of
/// both powers.
[[nodiscard]] inline int watts(const Lamp& a,
                               const Lamp& b) {
  return a.watts() + b.watts();
}

}  // namespace edgepipe
"""


def test_declarations_have_their_names_and_comments() -> None:
    found = [(d.name, d.comment) for d in declarations(HEADER) if not d.is_forward]
    assert found == [
        ("Glass", "What a lamp is made of."),
        ("kSockets", "of a board"),
        ("Lamp", ""),
        ("watts", "Returns the sum of\nboth powers."),
    ]


def test_private_members_and_bodies_are_left_out() -> None:
    (lamp,) = [d for d in declarations(HEADER) if d.name == "Lamp"]
    assert public_part(lamp.code) == (
        "class [[nodiscard]] Lamp final {\n"
        " public:\n"
        "  explicit Lamp(int socket);\n"
        "  Lamp(Lamp&& other) noexcept;\n"
        "\n"
        "  /// Changes the state; `*_bytes` are unaffected.\n"
        "  bool toggle();\n"
        "  const std::string& name() const&;\n"
        "};"
    )
    assert [member.name for member in members(lamp.code)] == ["Lamp", "Lamp", "toggle", "name"]


def test_what_follows_a_nested_class_is_public() -> None:
    code = """\
class Turns {
 public:
  class Turn {
   public:
    ~Turn();

   private:
    Turns* turns_;
  };

  Turn take();

 private:
  bool taken_ = false;
};"""
    assert public_part(code) == (
        "class Turns {\n public:\n  class Turn {\n   public:\n    ~Turn();\n  };\n\n"
        "  Turn take();\n};"
    )


def test_a_page_begins_with_the_headers_own_comment() -> None:
    assert summary(HEADER) == "Lamp: a light that can be on or off."
    page = render(HEADER, "edgepipe/lamp.h")
    assert page.startswith("# `edgepipe/lamp.h`\n\nLamp: a light that can be on or off. It starts")
    assert "```cpp\nLamp lamp(3);\nlamp.toggle();\n```" in page
    assert (
        "## watts\n\nReturns the sum of\nboth powers.\n\n```cpp\n[[nodiscard]] inline int" in page
    )
    assert "Wire" not in page


def test_a_c_header_is_read_likewise() -> None:
    header = (
        '/* Point: two numbers. */\n#pragma once\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        "/* Where it is,\n * in pixels. */\ntypedef struct Point {\n"
        "  int x; /* right */\n} Point;\n"
        "#ifdef __cplusplus\n}\n#endif\n"
    )
    (point,) = declarations(header)
    assert (point.name, point.comment) == ("Point", "Where it is,\nin pixels.")
