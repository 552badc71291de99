#include "base/console.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace edgepipe {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(PrintableTest, EscapesWhatControlsATerminal) {
  EXPECT_EQ(printable("arm0"), "arm0");
  EXPECT_EQ(printable("\x1b[2J\a\r\n\x7f"), "\\u001b[2J\\u0007\\u000d\\u000a\\u007f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J")
      << "CSI, one of the C1 controls";
  EXPECT_EQ(printable("gnp.\xe2\x80\xae"
                      "exe"),
            "gnp.\\u202eexe")
      << "right-to-left override";
  EXPECT_EQ(printable("a\xe2\x80\xa8"
                      "b"),
            "a\\u2028b")
      << "line separator";
}

TEST(PrintableTest, KeepsTabsAndEveryOtherCharacter) {
  const std::string text =
      "a\tb Gr\xc3\xbc\xc3\x9f"
      "e \xe7\x8a\xac \xf0\x9f\x90\x95 \\";
  EXPECT_EQ(printable(text), text);
}

TEST(PrintableTest, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\x9b"
                      "b"),
            "a\\x9bb")
      << "CSI for a terminal of 8 bits";
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80") << "cut off";
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "longer than necessary";
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "beyond U+10FFFF";
}

TEST(PrintTest, ALineStaysOneLineAndLinesKeepTheirBreaks) {
  CaptureStderr();
  print_line(stderr, "source: camera\npage: http://evil/\x1b[A");
  EXPECT_EQ(GetCapturedStderr(), "source: camera\\u000apage: http://evil/\\u001b[A\n");
  CaptureStderr();
  print_lines(stderr, "one\ntwo\x1b[A");
  EXPECT_EQ(GetCapturedStderr(), "one\ntwo\\u001b[A");
}

TEST(FailureTest, EscapesNamesInTheErrorAndTheHint) {
  CaptureStderr();
  print_failure("edgepipe-run", Status(Code::kCorrupt, "stage 'a\x1b[2J\nb'",
                                       "known: \x9b"
                                       "A"));
  EXPECT_EQ(GetCapturedStderr(),
            "edgepipe-run: error: stage 'a\\u001b[2J\\u000ab'\nhint: known: \\x9bA\n");
}

TEST(FailureTest, PrintsOneLineForTheErrorAndOneForTheHint) {
  CaptureStderr();
  print_failure("edgepipe-run", Status(Code::kDevice, "frame 3: no answer", "examine the board"));
  EXPECT_EQ(GetCapturedStderr(),
            "edgepipe-run: error: frame 3: no answer\nhint: examine the board\n");
}

TEST(FailureTest, WithoutAHintAsksForAReport) {
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

TEST(StatusTest, AResultIsAdvisedLikeItsStatus) {
  EXPECT_EQ(Result<int>(Status(Code::kCorrupt, "damaged")).advised("copy it").status().hint(),
            "copy it");
  EXPECT_EQ(*Result<int>(3).advised("copy it"), 3);
}

}  // namespace
}  // namespace edgepipe
