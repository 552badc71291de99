#include "edgepipe/conformance/memory_suite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kAlignment = DeviceMemory::kAlignment;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBytes = 256;  // of the buffers whose accelerator side is compared
constexpr std::byte kMark{0x3C};

/// The part [offset, offset + bytes) of a buffer.
BufferView part_of(const Buffer& buffer, std::size_t offset, std::size_t bytes) {
  return {.data = buffer.data() + offset,
          .device_address = buffer.device_address() + offset,
          .bytes = bytes};
}

std::vector<std::byte> contents(const Buffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.bytes()};
}

/// Bytes that all differ from zero and from their neighbours.
std::vector<std::byte> pattern(std::uint32_t seed) {
  std::vector<std::byte> bytes;
  for (std::uint32_t n = 0; n < kBytes; ++n) {
    bytes.push_back(static_cast<std::byte>(1 + (n * 7 + seed) % 255));
  }
  return bytes;
}

std::vector<std::byte> seen_by(AcceleratorView& accelerator, const Buffer& buffer) {
  std::vector<std::byte> bytes(kBytes);
  const Status status = accelerator.read(buffer.device_address(), bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

void write_by(AcceleratorView& accelerator, const Buffer& buffer,
              std::span<const std::byte> bytes) {
  const Status status = accelerator.write(buffer.device_address(), bytes);
  EXPECT_TRUE(status.ok()) << status.message();
}

void fill(const Buffer& buffer, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, buffer.data());
}

}  // namespace

// ---- allocate and release ----------------------------------------------------------------------

TEST_P(MemoryConformance, AllocationsAreAlignedOnBothSides) {
  std::vector<Buffer> buffers;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, kAlignment, kAlignment + 1}) {
    Result<Buffer> buffer = memory().allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(buffer->device_address() % kAlignment, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % kAlignment, 0U);
    buffers.push_back(*std::move(buffer));
  }
}

TEST_P(MemoryConformance, AllocationsAreZeroForTheCpu) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, 3 * kAlignment}) {
    for (int round = 0; round < 2; ++round) {
      Buffer buffer = *memory().allocate(bytes);
      EXPECT_TRUE(same(contents(buffer), std::vector<std::byte>(bytes))) << "round " << round;
      std::ranges::fill(std::span(buffer.data(), bytes), kMark);
      memory().flush(buffer.view());
    }
  }
}

TEST_P(MemoryConformance, AllocationsAreZeroForTheAccelerator) {
  for (int round = 0; round < 3; ++round) {  // later rounds reuse the memory of the first
    const Buffer buffer = *memory().allocate(kBytes);
    EXPECT_TRUE(same(seen_by(accelerator(), buffer), std::vector<std::byte>(kBytes)))
        << "round " << round;
    EXPECT_TRUE(same(contents(buffer), std::vector<std::byte>(kBytes))) << "round " << round;
    write_by(accelerator(), buffer, pattern(1));
    memory().invalidate(buffer.view());
  }
}

TEST_P(MemoryConformance, LiveAllocationsNeverOverlap) {
  std::mt19937 random(5);
  std::vector<Buffer> live;
  for (int round = 0; round < 1000; ++round) {
    if (live.empty() || random() % 2 == 0) {
      Result<Buffer> buffer = memory().allocate(random() % 20'000);
      if (!buffer.ok()) {
        ASSERT_EQ(buffer.status().code(), Code::kOutOfMemory) << buffer.status().message();
        live.clear();
        continue;
      }
      for (const Buffer& other : live) {
        ASSERT_TRUE(buffer->device_address() + buffer->bytes() <= other.device_address() ||
                    other.device_address() + other.bytes() <= buffer->device_address());
        ASSERT_TRUE(buffer->data() + buffer->bytes() <= other.data() ||
                    other.data() + other.bytes() <= buffer->data());
      }
      live.push_back(*std::move(buffer));
    } else {
      std::swap(live[random() % live.size()], live.back());
      live.pop_back();
    }
  }
}

TEST_P(MemoryConformance, ZeroBytesCountAsOne) {
  const Buffer first = *memory().allocate(0);
  const Buffer second = *memory().allocate(0);
  EXPECT_EQ(first.bytes(), 1U);
  EXPECT_NE(first.device_address(), second.device_address());
  EXPECT_EQ(first.data()[0], std::byte{0});
  EXPECT_TRUE(memory().translate(first.device_address(), 1).ok());
}

TEST_P(MemoryConformance, ReportsTheRequestWhenItIsFullAndContinues) {
  constexpr std::size_t kMostBuffers = 1024;
  std::vector<Buffer> buffers;
  Status status;
  while (buffers.size() < kMostBuffers) {
    Result<Buffer> buffer = memory().allocate(kMiB);
    status = buffer.status();
    if (!buffer.ok()) break;
    buffers.push_back(*std::move(buffer));
  }
  ASSERT_GE(buffers.size(), 1U) << status.message();
  ASSERT_LT(buffers.size(), kMostBuffers) << "give the suite a memory of less than 1 GiB";
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_NE(status.message().find(std::to_string(kMiB)), std::string::npos) << status.message();
  buffers.pop_back();
  EXPECT_TRUE(memory().allocate(kMiB).ok()) << "what was released can be had again";
}

TEST_P(MemoryConformance, RefusesMoreThanAnyMachineHas) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {kMost, kMost - 1, kMost - kAlignment + 1, kMost / 2 + 1}) {
    const Status status = memory().allocate(bytes).status();
    EXPECT_EQ(status.code(), Code::kOutOfMemory) << bytes << " bytes";
  }
  EXPECT_TRUE(memory().allocate(1).ok());
}

TEST_P(MemoryConformance, ReusesReleasedMemory) {
  for (int round = 0; round < 256; ++round) {
    const Result<Buffer> buffer = memory().allocate(kMiB);
    ASSERT_TRUE(buffer.ok()) << "round " << round << ": " << buffer.status().message();
  }
}

TEST_P(MemoryConformance, AMovedBufferIsReleasedOnce) {
  Buffer first = *memory().allocate(kBytes);
  const std::uint64_t address = first.device_address();
  std::byte* const data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.device_address(), address);
  EXPECT_EQ(*memory().translate(address, kBytes), data);
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(*memory().translate(address, kBytes), data);
  third = Buffer();
  EXPECT_FALSE(memory().translate(address, 1).ok());
  const std::uint64_t generation = memory().generation();
  first = Buffer();
  second = Buffer();
  EXPECT_EQ(memory().generation(), generation) << "it was released more than once";
}

// ---- translate and generation ------------------------------------------------------------------

TEST_P(MemoryConformance, TranslatesInsideOneLiveAllocation) {
  const Buffer buffer = *memory().allocate(5000);
  const std::uint64_t address = buffer.device_address();
  EXPECT_EQ(*memory().translate(address, 5000), buffer.data());
  EXPECT_EQ(*memory().translate(address + 10, 4990), buffer.data() + 10);
  EXPECT_EQ(*memory().translate(address + 4999, 1), buffer.data() + 4999);
}

TEST_P(MemoryConformance, TranslatesNothingElse) {
  Buffer buffer = *memory().allocate(5000);
  const Buffer other = *memory().allocate(2 * kAlignment);
  const std::uint64_t address = buffer.device_address();
  const auto refused = [&](std::uint64_t from, std::size_t bytes) {
    const Status status = memory().translate(from, bytes).status();
    return status.code() == Code::kDevice && !status.message().empty();
  };
  EXPECT_TRUE(refused(address, 5001)) << "beyond its end";
  EXPECT_TRUE(refused(address + 4999, 2)) << "across its end";
  EXPECT_TRUE(refused(address, 4 * kAlignment)) << "into the next one";
  EXPECT_TRUE(refused(address - 1, 2)) << "across its beginning";
  EXPECT_TRUE(refused(0, 1)) << "address 0";
  EXPECT_TRUE(refused(address, std::numeric_limits<std::size_t>::max())) << "size overflow";
  EXPECT_TRUE(refused(~std::uint64_t{0}, 2)) << "address overflow";
  buffer = Buffer();
  EXPECT_TRUE(refused(address, 1)) << "after its release";
  EXPECT_TRUE(memory().translate(other.device_address(), 2 * kAlignment).ok());
}

TEST_P(MemoryConformance, TheGenerationChangesWithEveryAllocateAndRelease) {
  std::vector<std::uint64_t> generations{memory().generation()};
  Buffer first = *memory().allocate(1);
  generations.push_back(memory().generation());
  Buffer second = *memory().allocate(1);
  generations.push_back(memory().generation());
  first = Buffer();
  generations.push_back(memory().generation());
  first = *memory().allocate(1);
  generations.push_back(memory().generation());
  std::ranges::sort(generations);
  EXPECT_EQ(std::ranges::adjacent_find(generations), generations.end()) << "one came twice";
}

TEST_P(MemoryConformance, TheGenerationStaysMeanwhile) {
  const Buffer buffer = *memory().allocate(kBytes);
  const std::uint64_t generation = memory().generation();
  memory().flush(buffer.view());
  memory().invalidate(buffer.view());
  EXPECT_TRUE(memory().translate(buffer.device_address(), 1).ok());
  EXPECT_FALSE(memory().translate(buffer.device_address(), kBytes + 1).ok());
  EXPECT_EQ(memory().generation(), generation);
}

// ---- flush and invalidate ----------------------------------------------------------------------

TEST_P(MemoryConformance, FlushShowsTheAcceleratorWhatTheCpuWrote) {
  const Buffer buffer = *memory().allocate(kBytes);
  for (std::uint32_t round = 0; round < 3; ++round) {
    fill(buffer, pattern(round));
    memory().flush(buffer.view());
    EXPECT_TRUE(same(seen_by(accelerator(), buffer), pattern(round))) << "round " << round;
    EXPECT_TRUE(same(contents(buffer), pattern(round))) << "the CPU sees what it wrote";
  }
}

TEST_P(MemoryConformance, InvalidateShowsTheCpuWhatTheAcceleratorWrote) {
  const Buffer buffer = *memory().allocate(kBytes);
  for (std::uint32_t round = 0; round < 3; ++round) {
    write_by(accelerator(), buffer, pattern(round));
    memory().invalidate(buffer.view());
    EXPECT_TRUE(same(contents(buffer), pattern(round))) << "round " << round;
  }
}

TEST_P(MemoryConformance, MaintainsPartsOfABuffer) {
  const Buffer buffer = *memory().allocate(kBytes);
  const std::vector<std::byte> written = pattern(9);
  fill(buffer, written);
  memory().flush(part_of(buffer, 3, 100));
  std::vector<std::byte> seen = seen_by(accelerator(), buffer);
  EXPECT_TRUE(std::equal(seen.begin() + 3, seen.begin() + 103, written.begin() + 3));
  memory().flush(buffer.view());
  const std::vector<std::byte> answer = pattern(77);
  write_by(accelerator(), buffer, answer);
  memory().invalidate(part_of(buffer, 130, 61));
  EXPECT_TRUE(std::equal(answer.begin() + 130, answer.begin() + 191, buffer.data() + 130));
}

TEST_P(MemoryConformance, InvalidateKeepsWhatWasFlushed) {
  const Buffer buffer = *memory().allocate(kBytes);
  fill(buffer, pattern(4));
  memory().flush(buffer.view());
  memory().invalidate(buffer.view());
  EXPECT_TRUE(same(contents(buffer), pattern(4)));
  EXPECT_TRUE(same(seen_by(accelerator(), buffer), pattern(4)));
}

TEST_P(MemoryConformance, MaintenanceLeavesOtherBuffersAlone) {
  const Buffer before = *memory().allocate(kBytes);
  const Buffer buffer = *memory().allocate(kBytes);
  const Buffer after = *memory().allocate(kBytes);
  fill(before, pattern(1));
  fill(after, pattern(2));
  fill(buffer, pattern(3));
  memory().flush(buffer.view());
  write_by(accelerator(), buffer, pattern(5));
  memory().invalidate(buffer.view());
  EXPECT_TRUE(same(contents(before), pattern(1))) << "not yet flushed, and the CPU's own";
  EXPECT_TRUE(same(contents(after), pattern(2)));
  memory().flush(before.view());
  memory().flush(after.view());
  EXPECT_TRUE(same(seen_by(accelerator(), before), pattern(1)));
  EXPECT_TRUE(same(seen_by(accelerator(), buffer), pattern(5)));
  EXPECT_TRUE(same(seen_by(accelerator(), after), pattern(2)));
}

TEST_P(MemoryConformance, MaintenanceOfNoBytesIsHarmless) {
  const Buffer buffer = *memory().allocate(kBytes);
  fill(buffer, pattern(6));
  memory().flush(buffer.view());
  memory().flush(part_of(buffer, 0, 0));
  memory().invalidate(part_of(buffer, kBytes, 0));
  EXPECT_TRUE(same(contents(buffer), pattern(6)));
  EXPECT_TRUE(same(seen_by(accelerator(), buffer), pattern(6)));
}

// ---- threads -----------------------------------------------------------------------------------

TEST_P(MemoryConformance, ServesAnyThread) {
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint32_t round = 0; round < 200; ++round) {
        Result<Buffer> buffer = memory().allocate(kBytes + 1000 * thread);
        ASSERT_TRUE(buffer.ok()) << buffer.status().message();
        fill(*buffer, pattern(thread));
        memory().flush(buffer->view());
        memory().invalidate(buffer->view());
        ASSERT_EQ(*memory().translate(buffer->device_address(), kBytes), buffer->data());
        ASSERT_TRUE(std::ranges::equal(pattern(thread), std::span(buffer->data(), kBytes)));
        static_cast<void>(memory().generation());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace edgepipe::conformance
