#include "edgepipe/device_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/builtin_devices.h"

namespace edgepipe {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<DeviceGroup> open_nothing(const DeviceRequest&) { return DeviceGroup(); }

TEST(DeviceRegistryTest, ReadsAKindWithIndices) {
  DeviceRegistry registry;
  const Result<DeviceChoice> one = registry.parse("uio");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->kind, "uio");
  EXPECT_THAT(one->indices, ElementsAre(0));
  const Result<DeviceChoice> two = registry.parse("uio:2+0");
  ASSERT_TRUE(two.ok());
  EXPECT_THAT(two->indices, ElementsAre(2, 0));
  EXPECT_EQ(registry.parse("auto:1")->indices.front(), 1U);
}

TEST(DeviceRegistryTest, ReadsAKindWithAnArgument) {
  DeviceRegistry registry;
  const Result<DeviceChoice> choice = registry.parse("driver:/lib/a+b:c.so");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kind, "driver");
  EXPECT_EQ(choice->argument, "/lib/a+b:c.so");
}

TEST(DeviceRegistryTest, ReadsAKindThatIsShared) {
  DeviceRegistry registry;
  EXPECT_FALSE(registry.parse("uio")->shared);
  const Result<DeviceChoice> first = registry.parse("uio:shared");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->shared);
  EXPECT_EQ(first->priority, 0);
  EXPECT_THAT(first->indices, ElementsAre(0));
  const Result<DeviceChoice> second = registry.parse("uio:1,shared,priority=-9");
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->shared);
  EXPECT_EQ(second->priority, -9);
  EXPECT_THAT(second->indices, ElementsAre(1));
  EXPECT_TRUE(registry.parse("auto:shared")->shared);
}

TEST(DeviceRegistryTest, AChoiceThatCannotBeReadListsTheKinds) {
  DeviceRegistry registry;
  for (const char* text : {"gpu",
                           "",
                           "uio:",
                           "uio:x",
                           "uio:1+",
                           "uio:1+1",
                           "uio:64",
                           "uio:-1",
                           "driver",
                           "driver:",
                           ":1",
                           "auto:x",
                           "simulator:shared",
                           "model:0,shared",
                           "uio:shared,",
                           "uio:,shared",
                           "uio:shared,1",
                           "uio:priority=1",
                           "uio:shared,shared",
                           "uio:shared,priority=10",
                           "uio:shared,priority="}) {
    const Result<DeviceChoice> choice = registry.parse(text);
    EXPECT_EQ(choice.status().code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(choice.status().message(),
                StartsWith(std::string("found device '") + text +
                           "', expected auto, simulator, timed, uio, model"))
        << text;
    EXPECT_THAT(choice.status().message(), HasSubstr("driver:PATH@REVISION")) << text;
  }
}

TEST(DeviceRegistryTest, AProgramAddsItsOwnKind) {
  DeviceRegistry registry;
  ASSERT_TRUE(registry.add({.name = "own", .help = "a test's", .open = open_nothing}).ok());
  EXPECT_EQ(registry.parse("own:1")->kind, "own");
  EXPECT_EQ(registry.find("own")->help, "a test's");
  EXPECT_EQ(registry.kinds().back().name, "own");
  EXPECT_THAT(registry.choices(), HasSubstr(" or own; "));
}

TEST(DeviceRegistryTest, ANameIsRegisteredOnce) {
  DeviceRegistry registry;
  for (const char* name : {"auto", "simulator", "driver"}) {
    const Status status = registry.add({.name = name, .help = "", .open = open_nothing});
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), EndsWith("the name is taken"));
  }
}

TEST(DeviceRegistryTest, AKindNeedsANameAndAFunction) {
  DeviceRegistry registry;
  for (const char* name : {"", "a:b", "a b", "a+b"}) {
    EXPECT_THAT(registry.add({.name = name, .help = "", .open = open_nothing}).message(),
                HasSubstr("expected a name of letters, digits, - and _"));
  }
  EXPECT_THAT(registry.add({.name = "empty", .help = "", .open = {}}).message(),
              HasSubstr("no function that opens it"));
}

TEST(DeviceRegistryTest, AutoIsTheFirstKindThatIsPresent) {
  DeviceRegistry registry;
  const std::string without = registry.detect();  // this machine's
  EXPECT_TRUE(without == "simulator" || without == "uio") << without;
  ASSERT_TRUE(
      registry
          .add({.name = "found", .help = "", .present = [] { return true; }, .open = open_nothing})
          .ok());
  EXPECT_EQ(registry.detect(), without == "simulator" ? "found" : without);
}

TEST(DeviceRegistryTest, OnlyTheModelInjectsFaults) {
  for (const DeviceKind& kind : builtin_devices()) {
    EXPECT_EQ(kind.injects_faults, kind.name == "model") << kind.name;
    EXPECT_FALSE(kind.help.empty()) << kind.name;
  }
}

}  // namespace
}  // namespace edgepipe
