// Boxes and classes that a user selects by score and label.
#include "postprocess/result_selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace edgepipe {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<std::string> kLabels{"person", "bicycle", "car"};

Postprocess boxes() {
  Postprocess postprocess;
  postprocess.kind = "own";
  postprocess.gives = "boxes";
  postprocess.score_threshold = 0.4;
  return postprocess;
}

Postprocess classes() {
  Postprocess postprocess;
  postprocess.kind = "classify";
  postprocess.top = 3;
  return postprocess;
}

ResultSelector selector(const ResultSelection& selection, const Postprocess& postprocess) {
  Result<ResultSelector> made = ResultSelector::create(selection, postprocess, kLabels, 4, 8);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

Status refusal(const ResultSelection& selection, const Postprocess& postprocess,
               const std::vector<std::string>& labels = kLabels) {
  return ResultSelector::create(selection, postprocess, labels, 4, 8).status();
}

Detection box(float score, int label_index) {
  return {.right = 1, .bottom = 1, .score = score, .label_index = label_index};
}

TEST(ResultSelectorTest, KeepsEverythingByDefault) {
  ResultSelector selected = selector({}, boxes());
  const std::array found{box(0.9F, 0), box(0.4F, 7)};
  EXPECT_THAT(selected.select({.kind = ResultKind::kDetections, .detections = found}).detections,
              SizeIs(2));
}

TEST(ResultSelectorTest, LeavesOutBoxesWithTheirPoints) {
  ResultSelector selected = selector({.least_score = 0.5, .labels = {"car", "person"}}, boxes());
  const std::array found{box(0.9F, 0), box(0.8F, 1), box(0.5F, 2), box(0.4F, 2)};
  const std::array points{Point{.x = 0}, Point{.x = 1}, Point{.x = 2}, Point{.x = 3},
                          Point{.x = 4}, Point{.x = 5}, Point{.x = 6}, Point{.x = 7}};
  const FrameResult kept =
      selected.select({.kind = ResultKind::kDetections, .detections = found, .points = points});
  EXPECT_THAT(kept.detections,
              ElementsAre(Field(&Detection::label_index, 0), Field(&Detection::label_index, 2)));
  EXPECT_THAT(kept.points, ElementsAre(Field(&Point::x, 0), Field(&Point::x, 1),
                                       Field(&Point::x, 4), Field(&Point::x, 5)));
  EXPECT_THAT(selected.select({.kind = ResultKind::kDetections}).detections, IsEmpty());
}

TEST(ResultSelectorTest, LeavesOutClassesByProbability) {
  ResultSelector selected = selector({.least_score = 0.5}, classes());
  const std::array found{ClassScore{.label_index = 2, .score = 3, .probability = 0.7F},
                         ClassScore{.label_index = 1, .score = 2, .probability = 0.2F}};
  EXPECT_THAT(selected.select({.kind = ResultKind::kClasses, .classes = found}).classes,
              ElementsAre(Field(&ClassScore::label_index, 2)));
}

TEST(ResultSelectorTest, ClassesWithoutNamesHaveNumbers) {
  EXPECT_TRUE(refusal({.labels = {"7"}}, boxes(), {}).ok());
  EXPECT_EQ(refusal({.labels = {"car"}}, boxes(), {}).message(),
            "the bundle has no class 'car', expected a number, because its classes have no names");
}

TEST(ResultSelectorTest, AnUnknownClassIsRefused) {
  const Status refused = refusal({.labels = {"zebra"}}, boxes());
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "the bundle has no class 'zebra', expected one of person, bicycle, car");
  EXPECT_EQ(refused.hint(), "name classes as the results do");
  EXPECT_EQ(refusal({.labels = {"2"}}, boxes()).message(),
            "the bundle has no class '2', expected one of person, bicycle, car");
  const std::vector<std::string> many(80, "dog");
  EXPECT_EQ(refusal({.labels = {"zebra"}}, boxes(), many).message(),
            "the bundle has no class 'zebra', expected one of dog, dog, dog, dog, dog, dog, dog, "
            "dog ... (80 classes)");
}

TEST(ResultSelectorTest, AScoreBelowThatOfTheBundleIsRefused) {
  const Status refused = refusal({.least_score = 0.25}, boxes());
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "least score 0.25, expected at least 0.4, below which the bundle itself leaves boxes "
            "out");
  EXPECT_EQ(refused.hint(), "lower score_threshold in the description and build the bundle again");
  EXPECT_TRUE(refusal({.least_score = 0.4}, boxes()).ok());
}

TEST(ResultSelectorTest, ResultsWithoutScoresAreRefused) {
  Postprocess text;
  text.kind = "ctc";
  const Status refused = refusal({.least_score = 0.5}, text);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "results of the kind 'ctc' cannot be selected by score or label, expected boxes or "
            "classes");
  EXPECT_EQ(refused.hint(), "take all results of this bundle");
}

}  // namespace
}  // namespace edgepipe
