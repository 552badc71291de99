// A user's own decoder: what its function gets, and what its exceptions become.
#include "postprocess/own_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

// Compiled libraries step through arrays of these.
static_assert(sizeof(EpDecoderTensor) == 4 * sizeof(void*));
static_assert(sizeof(EpBox) == 24);
static_assert(sizeof(EpPoint) == 12);
static_assert(sizeof(EpClass) == 12);

/// What the functions below give. They have no context.
int fault = 0;

int one_class(const EpDecoderInput* input, EpDecoderOutput* output, char* /*error*/,
              std::uint64_t /*error_bytes*/) {
  if (fault == 1) throw std::runtime_error("no");
  if (fault == 2) throw 7;
  if (fault == 3) throw std::bad_alloc();
  if (fault == 4) return 9;
  const EpDecoderTensor& tensor = input->tensors[1];
  output->classes[0] = {.label_index = static_cast<std::int32_t>(input->label_count),
                        .score = tensor.values[2],
                        .probability = static_cast<float>(tensor.shape[tensor.rank - 1])};
  output->class_count = 1;
  if (fault == 5) output->class_count = 3;
  if (fault == 6) output->classes[0].label_index = -2;
  if (fault == 7) output->classes[0].probability = 1 / 0.0F;
  if (fault == 8) output->box_count = 1;
  return 0;
}

/// Decodes two tensors, float32[1, 2] and float32[1, 3].
Result<ClassScore> decode(int injected) {
  fault = injected;
  Manifest manifest;
  manifest.tensors = {
      {.name = "a", .dtype = "float32", .shape = {1, 2}, .layout = "nchw", .bytes = 8},
      {.name = "b", .dtype = "float32", .shape = {1, 3}, .layout = "nchw", .bytes = 12}};
  manifest.postprocess.kind = "own";
  manifest.postprocess.gives = "classes";
  manifest.postprocess.most = 2;
  manifest.postprocess.outputs = {0, 1};
  const std::unique_ptr<Decoder> decoder = make_own_decoder(manifest, 4, one_class);
  EXPECT_EQ(decoder->most_detections(), 0U);
  const std::array<float, 2> first{1, 2};
  const std::array<float, 3> second{3, 4, 5};
  const std::array<std::span<const float>, 2> tensors{first, second};
  Result<FrameResult> found = decoder->decode(tensors);
  if (!found.ok()) return found.status();
  EXPECT_EQ(found->kind, ResultKind::kClasses);
  EXPECT_EQ(found->classes.size(), 1U);
  return found->classes[0];
}

TEST(OwnDecoderTest, TheFunctionGetsTheTensorsInTheirOrder) {
  const Result<ClassScore> found = decode(0);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->label_index, 4);
  EXPECT_EQ(found->score, 5);
  EXPECT_EQ(found->probability, 3);
}

TEST(OwnDecoderTest, AnExceptionIsTheFramesError) {
  EXPECT_EQ(decode(1).status().message(), "own decoder: exception: no");
  EXPECT_EQ(decode(2).status().message(), "own decoder: exception that is not a std::exception");
  EXPECT_EQ(decode(3).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(decode(4).status().message(), "own decoder: returned 9");
}

TEST(OwnDecoderTest, WrongResultsAreRefused) {
  const Status many = decode(5).status();
  EXPECT_EQ(many.message(), "own decoder: found 3 classes, expected at most 2");
  EXPECT_EQ(many.hint(),
            "report only the best results, or raise `most` in the description and build the "
            "bundle again");
  const Status negative = decode(6).status();
  EXPECT_EQ(negative.message(), "own decoder: class 0 has label_index -2, expected 0 or more");
  EXPECT_EQ(negative.hint(), "correct the bundle's own decoder and build the bundle again");
  EXPECT_THAT(decode(7).status().message(), HasSubstr("class 0 has a value that is not a finite"));
  EXPECT_THAT(decode(8).status().message(), HasSubstr("found 1 boxes, expected at most 0"));
}

}  // namespace
}  // namespace edgepipe
