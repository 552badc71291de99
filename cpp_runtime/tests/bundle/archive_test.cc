#include "bundle/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using testing::bytes_of;
using testing::Files;
using ::testing::HasSubstr;
using testing::ustar;
using testing::ustar_member;

const std::string kEnd(1024, '\0');

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string error_of(const std::string& archive) {
  return Archive::parse(bytes_of(archive)).status().message();
}

TEST(ArchiveTest, FindsEveryFileWithItsContent) {
  const Files files = {{"a.txt", ""}, {"b/c.bin", std::string(512, 'c')}, {"d", "one more"}};
  const std::string bytes = ustar(files);
  const Result<Archive> archive = Archive::parse(bytes_of(bytes));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(archive->entries().size(), files.size());
  for (const auto& [path, content] : files) {
    ASSERT_NE(archive->find(path), nullptr) << path;
    EXPECT_EQ(text_of(archive->find(path)->content), content);
  }
  EXPECT_EQ(archive->find("b"), nullptr);
}

TEST(ArchiveTest, FoldersAreSkippedAndPaddingAtTheEndIsAllowed) {
  const std::string bytes =
      ustar_member("stages/", "", '5') + ustar_member("stages/x", "1") + std::string(10240, '\0');
  const Result<Archive> archive = Archive::parse(bytes_of(bytes));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(archive->entries().size(), 1u);
}

TEST(ArchiveTest, RefusesWhatABundleCannotHold) {
  EXPECT_THAT(error_of(ustar_member("../x", "") + kEnd), HasSubstr("'../x' is not a plain"));
  EXPECT_THAT(error_of(ustar_member("/etc/x", "") + kEnd), HasSubstr("not a plain relative path"));
  EXPECT_THAT(error_of(ustar_member("a//b", "") + kEnd), HasSubstr("not a plain relative path"));
  EXPECT_THAT(error_of(ustar_member("link", "", '2') + kEnd), HasSubstr("is of type '2'"));
  EXPECT_THAT(error_of(ustar_member("h", "", 'x') + kEnd), HasSubstr("expected a regular file"));
  EXPECT_THAT(error_of(ustar_member("a", "1") + ustar_member("a", "2") + kEnd),
              HasSubstr("'a' appears twice"));
  EXPECT_THAT(error_of(std::string(2048, 'z')), HasSubstr("no ustar header"));
}

TEST(ArchiveTest, EveryTruncationIsNoticed) {
  const std::string bytes = ustar({{"a", std::string(600, 'a')}, {"b", "b"}});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_EQ(Archive::parse(bytes_of(cut)).status().code(), Code::kCorrupt) << length;
  }
}

TEST(ArchiveTest, EveryFlippedBitOfAHeaderIsNoticed) {
  const std::string bytes = ustar({{"a", "content"}});
  for (std::size_t bit = 0; bit < 512 * 8; ++bit) {
    std::string altered = bytes;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    const Result<Archive> archive = Archive::parse(bytes_of(altered));
    // A number may end with a space or a NUL, and the checksum counts itself as spaces, so there a
    // flipped bit may have no effect.
    if (!archive.ok()) continue;
    EXPECT_TRUE(bit / 8 >= 148 && bit / 8 < 156) << "bit " << bit;
    EXPECT_EQ(text_of(archive->find("a")->content), "content");
  }
}

TEST(ArchiveTest, RandomDamageNeverReadsOutOfBounds) {
  // Intended for -fsanitize=address; without it, checks only that views stay inside the bytes.
  const std::string original = ustar({{"a", std::string(700, 'a')}, {"b/c", "b"}, {"d", ""}});
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = original;
    for (int change = 0; change < 4; ++change) {
      bytes[random() % bytes.size()] = "017 \0x/.\xff"[random() % 9];
    }
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % bytes.size());
    std::unique_ptr<char[]> exact(new char[bytes.size()]);  // no slack after the last byte
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const auto view = std::as_bytes(std::span(exact.get(), bytes.size()));
    const Result<Archive> archive = Archive::parse(view);
    if (!archive.ok()) continue;
    for (const Archive::Entry& entry : archive->entries()) {
      EXPECT_GE(entry.content.data(), view.data());
      EXPECT_LE(entry.content.data() + entry.content.size(), view.data() + view.size());
    }
  }
}

}  // namespace
}  // namespace edgepipe
