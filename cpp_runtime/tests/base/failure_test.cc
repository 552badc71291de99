#include "base/failure.h"

#include <gtest/gtest.h>

namespace edgepipe {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(FailureTest, IsALineOfErrorAndALineOfHint) {
  CaptureStderr();
  print_failure("edgepipe-run", Status(Code::kDevice, "frame 3: no answer", "examine the board"));
  EXPECT_EQ(GetCapturedStderr(),
            "edgepipe-run: error: frame 3: no answer\nhint: examine the board\n");
}

TEST(FailureTest, WithoutAHintIsToBeReported) {
  CaptureStderr();
  print_failure("edgepipe-run", Status(Code::kInternal, "no answer"));
  EXPECT_EQ(GetCapturedStderr(),
            "edgepipe-run: error: no answer\n"
            "hint: if the text does not help, report it with the command\n");
}

TEST(StatusTest, KeepsItsHintWhenContextIsAdded) {
  const Status status = Status(Code::kNotFound, "net: no such file", "check the name");
  EXPECT_EQ(status.with_context("stage 'a'").hint(), "check the name");
  EXPECT_EQ(status.advised("build it").hint(), "check the name") << "the first hint is the nearest";
  EXPECT_EQ(Status(Code::kCorrupt, "damaged").advised("copy it again").hint(), "copy it again");
  EXPECT_EQ(Status().advised("copy it again").hint(), "");
}

TEST(StatusTest, AResultIsAdvisedAsItsStatusIs) {
  EXPECT_EQ(Result<int>(Status(Code::kCorrupt, "damaged")).advised("copy it").status().hint(),
            "copy it");
  EXPECT_EQ(*Result<int>(3).advised("copy it"), 3);
}

}  // namespace
}  // namespace edgepipe
