#include "session/crews.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread.h"

namespace edgepipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A bundle whose stages are of these kinds.
Manifest stages(const std::vector<std::string>& kinds) {
  Manifest manifest;
  for (const std::string& kind : kinds) manifest.stages.push_back({.name = kind, .kind = kind});
  return manifest;
}

/// The threads of such a bundle on a board: ARM stages on cores 1 and 2, the others on core 0.
std::vector<Pipeline::StageThread> threads(const Manifest& manifest) {
  std::vector<Pipeline::StageThread> made;
  for (const StageSpec& stage : manifest.stages) {
    const bool on_vta = stage.kind == "vta";
    made.push_back({.cores = on_vta ? std::vector{0} : std::vector{1, 2},
                    .realtime_priority = on_vta ? 20 : 10});
  }
  return made;
}

const std::vector<std::string> kFive = {"arm", "vta", "arm", "vta", "arm"};

TEST(CrewsTest, StagesThatHaveCoresOfTheirOwnNeedNone) {
  const Manifest manifest = stages({"arm", "vta", "arm"});
  EXPECT_THAT(crews_for(manifest, threads(manifest), 1), IsEmpty());
}

TEST(CrewsTest, MoreArmStagesThanCoresShareOneThreadForEachCore) {
  const Manifest manifest = stages(kFive);
  const std::vector<Pipeline::Crew> crews = crews_for(manifest, threads(manifest), 1);
  ASSERT_EQ(crews.size(), 2U);
  EXPECT_EQ(crews[0].name, "arm");
  EXPECT_THAT(crews[0].stages, ElementsAre(0U, 2U, 4U));
  ASSERT_EQ(crews[0].threads.size(), 2U);
  EXPECT_THAT(crews[0].threads[0].cores, ElementsAre(1));
  EXPECT_THAT(crews[0].threads[1].cores, ElementsAre(2));
  EXPECT_EQ(crews[0].threads[1].realtime_priority, 10);
  EXPECT_EQ(crews[1].name, "vta");
  EXPECT_THAT(crews[1].stages, ElementsAre(1U, 3U));
  ASSERT_EQ(crews[1].threads.size(), 1U);
  EXPECT_THAT(crews[1].threads[0].cores, ElementsAre(0));
  EXPECT_EQ(crews[1].threads[0].realtime_priority, 20);
}

TEST(CrewsTest, EveryAcceleratorHasAThread) {
  const Manifest manifest = stages(kFive);
  EXPECT_EQ(crews_for(manifest, threads(manifest), 2).at(1).threads.size(), 2U);
  EXPECT_EQ(crews_for(manifest, threads(manifest), 9).at(1).threads.size(), 2U)
      << "not more than stages";
}

TEST(CrewsTest, AwayFromTheBoardArmStagesShareAllCoresOfTheProcess) {
  const std::vector<std::string> kinds(Thread::cores().size() + 1, "arm");
  const std::vector<Pipeline::Crew> crews = crews_for(stages(kinds), {}, 0);
  ASSERT_EQ(crews.size(), 1U) << "no stage needs an accelerator";
  EXPECT_EQ(crews[0].threads.size(), Thread::cores().size());
}

}  // namespace
}  // namespace edgepipe
