// HostMemory: what memory_conformance_test.cc does not test.
#include "edgepipe/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<HostMemory> arena(std::size_t bytes) {
  return *HostMemory::create({.arena_bytes = bytes, .base_address = 0x4000'0000});
}

TEST(HostMemory, AddressesBeginAtTheBase) {
  EXPECT_EQ(arena(8192)->allocate(1)->device_address(), 0x4000'0000U);
}

TEST(HostMemory, ReportsItsLargestGap) {
  const auto memory = arena(8192);
  const Buffer buffer = *memory->allocate(5000);
  const Status refused = memory->allocate(1).status();
  EXPECT_THAT(refused.message(), HasSubstr("1 bytes wanted, widest gap of the arena of 8192 is 0"));
  EXPECT_EQ(refused.hint(), "use fewer slots, or give the session more memory");
}

TEST(HostMemory, RefusesAnArenaThatNoMachineHas) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const Status status = HostMemory::create({.arena_bytes = kMost / 16 * 15}).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.hint(), "free memory on this machine");
}

TEST(HostMemory, RefusesAMisalignedBase) {
  EXPECT_EQ(HostMemory::create({.base_address = 16}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace edgepipe
