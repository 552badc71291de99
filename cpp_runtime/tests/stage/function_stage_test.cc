#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "edgepipe/stage.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;
using Views = FunctionStage::Views;

extern "C" int double_or_fail(void* context, const EpStageBuffer* inputs, uint32_t input_count,
                              const EpStageBuffer* outputs, uint32_t output_count, char* error,
                              uint64_t error_bytes) {
  ++*static_cast<int*>(context);
  if (input_count != 1 || output_count != 1) return 3;
  if (inputs[0].data[0] > 127) {
    std::snprintf(error, error_bytes, "%d is too much", inputs[0].data[0]);
    return 1;
  }
  outputs[0].data[0] = static_cast<uint8_t>(2 * inputs[0].data[0]);
  return 0;
}

TEST(FunctionStageTest, ACFunctionGetsItsContextAndTheSlotsBuffers) {
  int calls = 0;
  const auto stage = FunctionStage::create("double", double_or_fail, &calls);
  std::array<std::array<std::byte, 2>, 2> memory{};
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const BufferView in{.data = &memory[slot][0], .bytes = 1};
    const BufferView out{.data = &memory[slot][1], .bytes = 1};
    ASSERT_TRUE(stage->bind(slot, std::span(&in, 1), std::span(&out, 1)).ok());
    memory[slot][0] = static_cast<std::byte>(slot + 20);
  }
  EXPECT_TRUE(stage->run(1).ok());
  EXPECT_EQ(memory[1][1], std::byte{42});
  EXPECT_EQ(memory[0][1], std::byte{0});
  memory[0][0] = std::byte{200};
  EXPECT_EQ(stage->run(0).message(), "200 is too much");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(stage->run(2).message(), "double: slot 2 is not bound");
}

TEST(FunctionStageTest, ACodeWithoutATextIsStillAnError) {
  int calls = 0;
  const auto stage = FunctionStage::create("double", double_or_fail, &calls);
  ASSERT_TRUE(stage->bind(0, {}, {}).ok());
  EXPECT_EQ(stage->run(0).message(), "returned 3");
}

TEST(FunctionStageTest, AnExceptionIsTheFramesError) {
  FunctionStage throws("throws", [](Views, Views) -> Status { throw std::runtime_error("no"); });
  ASSERT_TRUE(throws.bind(0, {}, {}).ok());
  EXPECT_EQ(throws.run(0).code(), Code::kInternal);
  EXPECT_EQ(throws.run(0).message(), "exception: no");
  FunctionStage odd("odd", [](Views, Views) -> Status { throw 7; });
  ASSERT_TRUE(odd.bind(0, {}, {}).ok());
  EXPECT_THAT(odd.run(0).message(), HasSubstr("not a std::exception"));
  FunctionStage starved("starved", [](Views, Views) -> Status { throw std::bad_alloc(); });
  ASSERT_TRUE(starved.bind(0, {}, {}).ok());
  EXPECT_EQ(starved.run(0).code(), Code::kOutOfMemory);
}

TEST(FunctionStageTest, MoreTensorsThanACFunctionTakesIsAnError) {
  int calls = 0;
  const auto stage = FunctionStage::create("double", double_or_fail, &calls);
  const std::vector<BufferView> many(65);
  ASSERT_TRUE(stage->bind(0, many, {}).ok());
  EXPECT_EQ(stage->run(0).message(), "a C function takes at most 64 tensors, found 65");
}

TEST(FunctionStageTest, AMissingLibraryOrFunctionIsNotFound) {
  const Status missing = FunctionStage::open("f", "nowhere.so", "f").status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.hint(), "check its path, and that it is built for this machine");
  const Status status = FunctionStage::open("f", EDGEPIPE_TEST_KERNELS, "no_such").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no function 'no_such'"));
  EXPECT_EQ(status.hint(), "check its name, and declare it extern \"C\"");
}

}  // namespace
}  // namespace edgepipe
