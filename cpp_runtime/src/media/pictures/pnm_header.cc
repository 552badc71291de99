#include "media/pictures/pnm_header.h"

#include <array>
#include <string>

namespace edgepipe {
namespace {

constexpr int kMostDigits = 6;

Status corrupt(const std::string& text) { return Status(Code::kCorrupt, text); }

Status cut_short() { return corrupt("the input ends inside the picture's header"); }

bool is_space(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
}

/// Parses a header byte by byte: P and a digit, then width, height and the maximum value.
class Parser {
 public:
  /// True if the byte was the last of the header.
  Result<bool> take(std::byte byte) {
    const char letter = static_cast<char>(byte);
    if (start_.size() < 2) {
      start_ += letter;
      if (start_ == "P" || start_ == "P5" || start_ == "P6") return false;
      return corrupt("not a binary PPM (P6) or PGM (P5) picture");
    }
    if (in_comment_) {
      in_comment_ = letter != '\n';
    } else if (letter >= '0' && letter <= '9' && digits_ < kMostDigits) {
      numbers_[number_] = numbers_[number_] * 10 + (letter - '0');
      ++digits_;
    } else if (letter == '#' && digits_ == 0) {
      in_comment_ = true;
    } else if (!is_space(letter)) {
      return corrupt("the picture's header is damaged");
    } else if (digits_ > 0) {
      digits_ = 0;
      ++number_;
    }
    if (number_ < numbers_.size()) return false;
    if (numbers_[2] == 255) return true;
    return corrupt("the maximum value is " + std::to_string(numbers_[2]) + ", expected 255");
  }

  [[nodiscard]] PnmHeader header() const {
    return {.gray = start_ == "P5", .width = numbers_[0], .height = numbers_[1]};
  }

 private:
  std::string start_;
  std::array<int, 3> numbers_{};
  std::size_t number_ = 0;  // index of the current number
  int digits_ = 0;          // read so far
  bool in_comment_ = false;
};

}  // namespace

Result<std::optional<PnmHeader>> read_pnm_header(ByteStream& stream,
                                                 const std::atomic<bool>& stop) {
  Parser parser;
  for (bool first = true;; first = false) {
    std::byte byte{};
    Result<bool> more = stream.read(std::span(&byte, 1), stop);
    if (!more.ok()) return more.status();
    if (!*more) return first || stop ? Result(std::optional<PnmHeader>()) : cut_short();
    Result<bool> complete = parser.take(byte);
    if (!complete.ok()) return complete.status();
    if (*complete) return std::optional(parser.header());
  }
}

Result<PnmHeader> take_pnm_header(std::span<const std::byte>& bytes) {
  Parser parser;
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    Result<bool> complete = parser.take(bytes[index]);
    if (!complete.ok()) return complete.status();
    if (!*complete) continue;
    bytes = bytes.subspan(index + 1);
    return parser.header();
  }
  return cut_short();
}

}  // namespace edgepipe
