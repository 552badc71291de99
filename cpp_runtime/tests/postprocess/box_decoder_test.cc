#include "postprocess/box_decoder.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "postprocess/classify.h"

namespace edgepipe {
namespace {

/// One head of stride 8 on a 32x24 picture (4x3 cells), 2 classes, 4 bins, with chosen cells set.
class Head {
 public:
  Head() : scores_(kCells * 2, 0.01F), distances_(kCells * 4 * kBins, 0.0F) {}

  /// A certain box: the whole softmax is at the given bin of each side.
  void set(std::size_t cell, std::size_t label_index, float score,
           std::array<std::size_t, 4> bins) {
    this->score(cell, label_index, score);
    for (std::size_t side = 0; side < 4; ++side) {
      distances_[(cell * 4 + side) * kBins + bins[side]] = 200.0F;
    }
  }

  void score(std::size_t cell, std::size_t label_index, float score) {
    scores_[cell * 2 + label_index] = score;
  }

  std::vector<Detection> decode(float threshold = 0.4F) const {
    BoxDecoder::Level level{.columns = 4, .rows = 3, .step_x = 8, .step_y = 8};
    const HeadShape shape{.columns = 4, .rows = 3};
    level.scores = *locate(std::array<std::int64_t, 3>{1, kCells, 2}, shape);
    level.box = *locate(std::array<std::int64_t, 3>{1, kCells, 4 * kBins}, shape);
    level.box.tensor = 1;
    BoxDecoder decoder({.levels = {level},
                        .width = 32,
                        .height = 24,
                        .bins = kBins,
                        .score_threshold = threshold,
                        .selection = {.iou_threshold = 0.5F}});
    const std::array<std::span<const float>, 2> tensors{scores_, distances_};
    const auto found = decoder.decode(tensors);
    return {found.begin(), found.end()};
  }

 private:
  static constexpr std::size_t kCells = 12;
  static constexpr std::size_t kBins = 4;
  std::vector<float> scores_;
  std::vector<float> distances_;
};

TEST(BoxDecoderTest, SidesAreMeasuredFromTheCellsCentre) {
  Head head;
  head.set(5, 1, 0.9F, {1, 0, 2, 1});  // row 1, column 1: centre (12, 12)
  const std::vector<Detection> boxes = head.decode();
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_FLOAT_EQ(boxes[0].left, 4);
  EXPECT_FLOAT_EQ(boxes[0].top, 12);
  EXPECT_FLOAT_EQ(boxes[0].right, 28);
  EXPECT_FLOAT_EQ(boxes[0].bottom, 20);
  EXPECT_EQ(boxes[0].label_index, 1);
  EXPECT_FLOAT_EQ(boxes[0].score, 0.9F);
}

TEST(BoxDecoderTest, AFlatDistributionIsTheMiddleBin) {
  Head head;
  head.score(5, 0, 0.8F);  // centre (12, 12), 1.5 bins of 8 pixels to each side
  EXPECT_FLOAT_EQ(head.decode()[0].left, 0);
  EXPECT_FLOAT_EQ(head.decode()[0].right, 24);
}

TEST(BoxDecoderTest, BoxesEndAtThePicture) {
  Head head;
  head.set(0, 0, 0.8F, {3, 3, 3, 3});  // centre (4, 4), 24 pixels to each side
  EXPECT_FLOAT_EQ(head.decode()[0].left, 0);
  EXPECT_FLOAT_EQ(head.decode()[0].right, 28);
  EXPECT_FLOAT_EQ(head.decode()[0].bottom, 24) << "cut at the picture's height";
}

TEST(BoxDecoderTest, OverlappingBoxesOfOneClassAreSuppressedOthersKept) {
  Head head;
  head.set(5, 0, 0.7F, {1, 1, 1, 1});
  head.set(6, 0, 0.9F, {2, 1, 0, 1});  // the same box from the next cell
  head.set(9, 1, 0.6F, {1, 2, 1, 0});  // the same box again, of the other class
  const std::vector<Detection> boxes = head.decode();
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_FLOAT_EQ(boxes[0].score, 0.9F);
  EXPECT_EQ(boxes[1].label_index, 1);
}

TEST(BoxDecoderTest, TheThresholdIsInclusive) {
  Head head;
  head.set(5, 0, 0.5F, {1, 1, 1, 1});
  EXPECT_EQ(head.decode(0.5F).size(), 1u);
  EXPECT_EQ(head.decode(0.51F).size(), 0u);
}

TEST(BoxDecoderTest, ABoxWithoutANumberIsLeftOut) {
  Head head;
  head.score(5, 0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(head.decode().empty());
}

TEST(IntersectionOverUnionTest, OfKnownBoxes) {
  const Detection one{.left = 0, .top = 0, .right = 2, .bottom = 2};
  EXPECT_FLOAT_EQ(intersection_over_union(one, one), 1);
  EXPECT_FLOAT_EQ(intersection_over_union(one, {.left = 1, .top = 0, .right = 3, .bottom = 2}),
                  1.0F / 3);
  EXPECT_FLOAT_EQ(intersection_over_union(one, {.left = 2, .top = 0, .right = 3, .bottom = 2}), 0);
}

TEST(TopClassesTest, AreSortedWithTiesToTheLowerIndex) {
  const std::vector<float> scores = {1, 3, 2, 3, -1};
  std::vector<ClassScore> best(3);
  top_classes(scores, Activation::kSoftmax, best);
  EXPECT_EQ(best[0].label_index, 1);
  EXPECT_EQ(best[1].label_index, 3);
  EXPECT_EQ(best[2].label_index, 2);
  EXPECT_FLOAT_EQ(best[0].score, 3);
  EXPECT_NEAR(best[0].probability, 0.39658, 1e-4);  // softmax of the scores above, by numpy
}

TEST(TopClassesTest, ProbabilitiesOfTheNetworkAreKept) {
  const std::vector<float> scores = {0.2F, 0.7F, 0.1F};
  std::vector<ClassScore> best(1);
  top_classes(scores, Activation::kNone, best);
  EXPECT_FLOAT_EQ(best[0].probability, 0.7F);
  top_classes(scores, Activation::kSigmoid, best);
  EXPECT_NEAR(best[0].probability, 0.668188, 1e-6);
}

}  // namespace
}  // namespace edgepipe
