#include "base/url_text.h"

#include <gtest/gtest.h>

namespace edgepipe {
namespace {

TEST(UrlTextTest, ANameAndAPasswordAreLeftOut) {
  EXPECT_EQ(without_password("rtsp://user:secret@door/1"), "rtsp://door/1");
  EXPECT_EQ(without_password("rtsp://user:se@cret@door:554?x=1"), "rtsp://door:554?x=1");
}

TEST(UrlTextTest, AnAddressWithoutThemStays) {
  EXPECT_EQ(without_password("rtsp://door/a@b"), "rtsp://door/a@b");
  EXPECT_EQ(without_password("rtsp://door"), "rtsp://door");
  EXPECT_EQ(without_password("a@b/c"), "a@b/c");
}

TEST(UrlTextTest, EveryOccurrenceIsReplaced) {
  EXPECT_EQ(replaced("aXbXX", "X", "XY"), "aXYbXYXY");
  EXPECT_EQ(replaced("same", "", "x"), "same");
}

}  // namespace
}  // namespace edgepipe
