#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace edgepipe {
namespace {

const std::vector<std::string> kOptions = {"--score", "--slots", "--source", "--source-timeout"};

TEST(NearestWord, ASlipAddsRemovesReplacesOrExchangesACharacter) {
  EXPECT_EQ(slips_between("slots", "slots"), 0U);
  EXPECT_EQ(slips_between("slotss", "slots"), 1U);
  EXPECT_EQ(slips_between("slts", "slots"), 1U);
  EXPECT_EQ(slips_between("slats", "slots"), 1U);
  EXPECT_EQ(slips_between("solts", "slots"), 1U);
  EXPECT_EQ(slips_between("", "slots"), 5U);
  EXPECT_EQ(slips_between("slots", ""), 5U);
  EXPECT_EQ(slips_between("abcdef", "badcfe"), 3U);
}

TEST(NearestWord, TheWordWithTheFewestSlipsIsNearest) {
  EXPECT_EQ(nearest_word("--slot", kOptions), "--slots");
  EXPECT_EQ(nearest_word("--scoer", kOptions), "--score");
  EXPECT_EQ(nearest_word("--soruce", kOptions), "--source");
  EXPECT_EQ(nearest_word("--source-timout", kOptions), "--source-timeout");
}

TEST(NearestWord, TheFirstOfSeveralIsTaken) {
  EXPECT_EQ(nearest_word("bat", std::vector<std::string>{"cat", "hat"}), "cat");
}

TEST(NearestWord, AWordThatIsMoreThanAThirdSlipsIsNotNear) {
  EXPECT_EQ(nearest_word("--fast", kOptions), "");
  EXPECT_EQ(nearest_word("--slo", kOptions), "");
  EXPECT_EQ(nearest_word("", kOptions), "");
  EXPECT_EQ(nearest_word("--slots", {}), "");
}

TEST(NearestWord, LeadingDashesDoNotCount) {
  EXPECT_EQ(nearest_word("-slots", kOptions), "--slots");
  EXPECT_EQ(nearest_word("slots", kOptions), "--slots");
  EXPECT_EQ(nearest_word("-x", std::vector<std::string>{"-h", "-v"}), "");
}

TEST(NearestWord, TheQuestionEndsAnErrorsText) {
  EXPECT_EQ(did_you_mean("--slot", kOptions), "; did you mean --slots?");
  EXPECT_EQ(did_you_mean("--fast", kOptions), "");
}

}  // namespace
}  // namespace edgepipe
