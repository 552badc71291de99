#include "base/console.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace edgepipe {
namespace {

// First and last; the host SDK has the same ranges in vta_stages/printable.py.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> kControls{{
    {0x00, 0x08},      // C0 without the tab
    {0x0A, 0x1F},      // ...
    {0x7F, 0x9F},      // DEL and C1
    {0x061C, 0x061C},  // marks of the writing direction
    {0x200E, 0x200F},  // ...
    {0x2028, 0x202E},  // line breaks, embeddings and overrides
    {0x2066, 0x2069},  // ...
}};

struct Character {
  std::uint32_t code;
  std::size_t bytes;
};

/// The character at the start of `text`; nothing if that is not valid UTF-8.
std::optional<Character> first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::uint32_t head = byte(0);
  if (head < 0x80) return Character{head, 1};
  const std::size_t bytes = head >= 0xF0 ? 4 : head >= 0xE0 ? 3 : 2;
  if (head < 0xC2 || head > 0xF4 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = head & (0x7FU >> bytes);
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) return std::nullopt;
    code = (code << 6) | (byte(at) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || is_surrogate) return std::nullopt;
  return Character{code, bytes};
}

bool is_control(std::uint32_t code) {
  return std::ranges::any_of(
      kControls, [code](const auto& range) { return range.first <= code && code <= range.second; });
}

std::string escape(const char* head, std::uint32_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = head;
  for (int digit = digits; digit-- > 0;) text += kDigits[(value >> (4 * digit)) & 0xFU];
  return text;
}

std::string escaped(std::string_view text, bool keep_line_breaks) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Character> found = first_character(text);
    const std::size_t bytes = found ? found->bytes : 1;
    if (!found) {
      safe += escape("\\x", static_cast<unsigned char>(text[0]), 2);
    } else if (is_control(found->code) && !(keep_line_breaks && text[0] == '\n')) {
      safe += escape("\\u", found->code, 4);
    } else {
      safe += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return safe;
}

// Nothing can be done about a terminal or a pipe that takes no more.
void print(std::FILE* file, const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), file));
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

void print_line(std::FILE* file, std::string_view text) { print(file, printable(text) + "\n"); }

void print_lines(std::FILE* file, std::string_view text) { print(file, escaped(text, true)); }

void draw(std::FILE* file, const char* sequence) { print(file, sequence); }

void print_failure(std::string_view program, const Status& status) {
  const std::string hint = status.hint().empty()
                               ? "if the text does not help, report it with the command"
                               : status.hint();
  print(stderr, printable(std::string(program) + ": error: " + status.message()) +
                    "\nhint: " + printable(hint) + "\n");
}

}  // namespace edgepipe
