#include "programs/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace edgepipe::programs {
namespace {

using testing::HasSubstr;

class OptionTableTest : public testing::Test {
 protected:
  OptionTableTest() {
    table_.positional("bundle", bundle_);
    table_.section("first")
        .value("--input", "FILE", "read FILE", to_text(input_))
        .value("--slots", "N", "how many slots", to_number<std::size_t>(slots_, 1, 8, "1 to 8"));
    table_.section("second")
        .flag("--quiet", "print less", to_true(quiet_))
        .value("--rate", "R", "pictures per second", to_number(rate_, 0.5, 2.0, "0.5 to 2"));
    table_.epilogue("the end\n");
  }

  std::string parse(const std::vector<std::string>& arguments) { return table_.parse(arguments); }

  std::string bundle_;
  std::optional<std::string> input_;
  std::size_t slots_ = 0;
  bool quiet_ = false;
  double rate_ = 0;
  OptionTable table_{"program", "BUNDLE [options]", "Does a thing."};
};

TEST_F(OptionTableTest, SetsWhatTheArgumentsName) {
  EXPECT_EQ(parse({"--input", "a=b", "net", "--slots=3", "--quiet"}), "");
  EXPECT_EQ(bundle_, "net");
  EXPECT_EQ(input_, "a=b");
  EXPECT_EQ(slots_, 3U);
  EXPECT_TRUE(quiet_);
}

TEST_F(OptionTableTest, AValueMayBeEmptyOrBeginWithADash) {
  EXPECT_EQ(parse({"net", "--input="}), "");
  EXPECT_EQ(input_, "");
  EXPECT_EQ(parse({"--input", "-"}), "");
  EXPECT_EQ(input_, "-");
}

TEST_F(OptionTableTest, WrongUseNamesTheOption) {
  EXPECT_EQ(parse({}), "no bundle was given");
  EXPECT_EQ(parse({"net", "other"}), "found a second bundle, 'other'");
  EXPECT_EQ(parse({"--fast"}), "unknown option '--fast'");
  EXPECT_EQ(parse({"--fast=1"}), "unknown option '--fast'");
  EXPECT_EQ(parse({"--input"}), "--input needs a value: --input FILE");
  EXPECT_EQ(parse({"--quiet=1"}), "--quiet takes no value");
}

TEST_F(OptionTableTest, AnUnknownOptionIsAnsweredWithTheNearestOne) {
  EXPECT_EQ(parse({"--slot", "3"}), "unknown option '--slot'; did you mean --slots?");
  EXPECT_EQ(parse({"--inptu=x"}), "unknown option '--inptu'; did you mean --input?");
  EXPECT_EQ(parse({"-quiet"}), "unknown option '-quiet'; did you mean --quiet?");
  EXPECT_EQ(parse({"-x"}), "unknown option '-x'");
}

TEST(OneOf, ListsTheNamesAndAsksForTheNearestOne) {
  EXPECT_EQ(one_of("text", {"raw", "ppm"}), "raw or ppm");
  EXPECT_EQ(one_of("jpg", {"rgb", "nv12", "jpeg"}), "rgb, nv12 or jpeg; did you mean jpeg?");
}

TEST_F(OptionTableTest, ANumberOutsideItsRangeIsRefused) {
  for (const char* text : {"0", "9", "-1", "3x", "", "1e1"}) {
    EXPECT_EQ(parse({"--slots", text}),
              std::string("--slots: found '") + text + "', expected 1 to 8");
  }
  for (const char* text : {"nan", "inf", "0.4", "2.1"}) {
    EXPECT_THAT(parse({"--rate", text}), HasSubstr("expected 0.5 to 2")) << text;
  }
  EXPECT_EQ(slots_, 0U);
}

TEST_F(OptionTableTest, HelpIsMadeFromTheDeclarations) {
  EXPECT_EQ(table_.help(),
            "usage: program BUNDLE [options]\n\n"
            "Does a thing.\n\n"
            "first\n"
            "  --input FILE    read FILE\n"
            "  --slots N       how many slots\n\n"
            "second\n"
            "  --quiet         print less\n"
            "  --rate R        pictures per second\n\n"
            "the end\n");
}

TEST_F(OptionTableTest, LongHelpIsWrappedAndListsAreIndented) {
  std::string words = "word";
  for (int count = 0; count < 60; ++count) words += " word";
  OptionTable table("p", "", words);
  std::string text;
  table.section("s")
      .value("--a-long-name", "ARGUMENT", words, to_text(text))
      .value("--list", "L", "one of:\nfirst      " + words, to_text(text));
  std::istringstream lines(table.help());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(table.help(), HasSubstr("\n  --a-long-name ARGUMENT\n                  word word"));
  EXPECT_THAT(table.help(), HasSubstr("\n  --list L        one of:\n"
                                      "                  first      word"));
  EXPECT_THAT(table.help(), HasSubstr("\n                             word"));
}

}  // namespace
}  // namespace edgepipe::programs
