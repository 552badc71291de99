#include "base/remedy.h"

#include <gtest/gtest.h>

namespace edgepipe {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(RemedyTest, EveryKindOfFailureHasOne) {
  EXPECT_EQ(remedy(Code::kOk), "");
  for (int code = 1; code <= static_cast<int>(Code::kOtherVersion); ++code) {
    EXPECT_FALSE(remedy(static_cast<Code>(code)).empty()) << code;
  }
}

TEST(RemedyTest, AFailureIsALineOfErrorAndALineOfHint) {
  CaptureStderr();
  print_failure("edgepipe-run", Status(Code::kDevice, "frame 3: no answer"));
  EXPECT_EQ(GetCapturedStderr(),
            "edgepipe-run: error: frame 3: no answer\nhint: examine the board with `edgepipe "
            "doctor`\n");
}

}  // namespace
}  // namespace edgepipe
