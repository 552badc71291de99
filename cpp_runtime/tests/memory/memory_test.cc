// HostMemory: allocations, addresses and releases.
#include "edgepipe/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<HostMemory> arena(std::size_t bytes) {
  return *HostMemory::create({.arena_bytes = bytes, .base_address = 0x4000'0000});
}

TEST(HostMemory, AllocationsAreAlignedZeroedAndApart) {
  const auto memory = arena(1 << 20);
  std::vector<Buffer> buffers;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5000}}) {
    buffers.push_back(*memory->allocate(bytes));
    EXPECT_EQ(buffers.back().device_address() % DeviceMemory::kAlignment, 0U);
    EXPECT_GE(buffers.back().device_address(), 0x4000'0000U);
    for (std::size_t n = 0; n < bytes; ++n) EXPECT_EQ(buffers.back().data()[n], std::byte{0});
    std::memset(buffers.back().data(), 0xff, bytes);
  }
}

TEST(HostMemory, RandomAllocationsNeverOverlap) {
  const auto memory = arena(1 << 22);
  std::mt19937 random(5);
  std::vector<Buffer> live;
  for (int round = 0; round < 2000; ++round) {
    if (live.empty() || random() % 2 == 0) {
      auto buffer = memory->allocate(random() % 50'000);
      if (!buffer.ok()) continue;
      for (const Buffer& other : live) {
        const bool apart = buffer->device_address() + buffer->bytes() <= other.device_address() ||
                           other.device_address() + other.bytes() <= buffer->device_address();
        ASSERT_TRUE(apart);
      }
      live.push_back(*std::move(buffer));
    } else {
      std::swap(live[random() % live.size()], live.back());
      live.pop_back();
    }
  }
}

TEST(HostMemory, TranslatesOnlyInsideOneLiveAllocation) {
  const auto memory = arena(1 << 20);
  Buffer first = *memory->allocate(4096);
  const Buffer second = *memory->allocate(100);
  const std::uint64_t address = first.device_address();
  EXPECT_EQ(*memory->translate(address + 10, 4086), first.data() + 10);
  EXPECT_EQ(memory->translate(address, 4097).status().code(), Code::kDevice);
  EXPECT_FALSE(memory->translate(second.device_address(), 101).ok());
  EXPECT_FALSE(memory->translate(address - 1, 1).ok());
  EXPECT_FALSE(memory->translate(~std::uint64_t{0}, 2).ok());
  first = Buffer();
  EXPECT_FALSE(memory->translate(address, 1).ok());
}

TEST(HostMemory, ReusesWhatWasReleasedAndZeroesIt) {
  const auto memory = arena(8192);
  Buffer first = *memory->allocate(8192);
  std::memset(first.data(), 1, first.bytes());
  const auto refused = memory->allocate(1);
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
  EXPECT_THAT(refused.status().message(), HasSubstr("widest gap of the arena of 8192 is 0"));
  first = Buffer();
  const Buffer second = *memory->allocate(8192);
  EXPECT_EQ(second.data()[8191], std::byte{0});
}

TEST(HostMemory, GenerationChangesWithAllocations) {
  const auto memory = arena(8192);
  const std::uint64_t before = memory->generation();
  Buffer buffer = *memory->allocate(1);
  const std::uint64_t with = memory->generation();
  buffer = Buffer();
  EXPECT_NE(before, with);
  EXPECT_NE(with, memory->generation());
}

TEST(HostMemory, RefusesAMisalignedBase) {
  EXPECT_EQ(HostMemory::create({.base_address = 16}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace edgepipe
