#include "media/pictures/pnm_header.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace edgepipe {
namespace {

const std::atomic<bool> kGoOn{false};

/// A header's fields and the number of bytes left after it, or the error.
std::string from_memory(const std::string& text) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  const Result<PnmHeader> header = take_pnm_header(bytes);
  if (!header.ok()) return header.status().message();
  return std::string(header->gray ? "gray " : "colour ") + std::to_string(header->width) + "x" +
         std::to_string(header->height) + ", " + std::to_string(bytes.size()) + " left";
}

std::string from_pipe(const std::string& text) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  ByteStream stream((FileDescriptor(ends[0])));
  {
    const FileDescriptor input(ends[1]);
    EXPECT_EQ(::write(input.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  Result<std::optional<PnmHeader>> header = read_pnm_header(stream, kGoOn);
  if (!header.ok()) return header.status().message();
  if (!*header) return "the end";
  std::size_t left = 0;
  for (std::byte byte{}; *stream.read(std::span(&byte, 1), kGoOn);) ++left;
  return std::string((*header)->gray ? "gray " : "colour ") + std::to_string((*header)->width) +
         "x" + std::to_string((*header)->height) + ", " + std::to_string(left) + " left";
}

struct Case {
  const char* text;
  const char* found;
};

class PnmHeaderTest : public ::testing::TestWithParam<Case> {};

TEST_P(PnmHeaderTest, IsReadAlikeFromMemoryAndFromAPipe) {
  EXPECT_EQ(from_memory(GetParam().text), GetParam().found);
  EXPECT_EQ(from_pipe(GetParam().text), GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, PnmHeaderTest,
    ::testing::Values(Case{"P6 12 7 255\nrgb", "colour 12x7, 3 left"},
                      Case{"P5\n# a comment 1\n12\t# another\n\n7\r\n255 \n", "gray 12x7, 1 left"},
                      Case{"P6 12 7 255", "the input ends inside the picture's header"},
                      Case{"P", "the input ends inside the picture's header"},
                      Case{"P6 12 7 65535\n", "the maximum value is 65535, expected 255"},
                      Case{"P3 12 7 255\n", "not a binary PPM (P6) or PGM (P5) picture"},
                      Case{"GIF89a", "not a binary PPM (P6) or PGM (P5) picture"},
                      Case{"P6 1234567 7 255\n", "the picture's header is damaged"},
                      Case{"P6 12# 7 255\n", "the picture's header is damaged"},
                      Case{"P6 -12 7 255\n", "the picture's header is damaged"}));

TEST(PnmHeaderEndTest, AStreamMayEndBeforeAHeaderAndAFileMayNot) {
  EXPECT_EQ(from_pipe(""), "the end");
  EXPECT_EQ(from_memory(""), "the input ends inside the picture's header");
}

}  // namespace
}  // namespace edgepipe
