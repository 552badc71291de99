// The board's parts of the driver on folders that look like the kernel's (fake_board.h).
#include "device/uio_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/file_descriptor.h"
#include "device/uio.h"
#include "device/vta_registers.h"
#include "memory/range_allocator.h"
#include "memory/udmabuf_memory.h"
#include "support/fake_board.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FakeBoard : public ::testing::Test, protected testing::FakeBoard {
 protected:
  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = 1 << 16});
};

TEST_F(FakeBoard, UioDevicesAreFoundByName) {
  add_uio("uio0", "axi-pmon", 4096);
  add_uio("uio3", "vta", vta::kBytes);
  const Result<UioInfo> info = find_uio("vta", classes, devices);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->path, devices / "uio3");
  EXPECT_EQ(info->bytes, vta::kBytes);
  EXPECT_EQ(find_uio("vga", classes, devices).status().code(), Code::kNotFound);
  EXPECT_THAT(find_uio("vga", classes, devices).status().message(),
              ::testing::AllOf(HasSubstr("no device named 'vga', found "), HasSubstr("axi-pmon")));
}

TEST_F(FakeBoard, OfSeveralAcceleratorsTheIndexChooses) {
  add_uio("uio10", "vta", vta::kBytes);
  add_uio("uio9", "vta", vta::kBytes);
  EXPECT_EQ(find_uio("vta", classes, devices, 0)->path, devices / "uio9");
  EXPECT_EQ(find_uio("vta", classes, devices, 1)->path, devices / "uio10");
  EXPECT_EQ(find_uio("vta", classes, devices, 2).status().message(),
            "uio: no device 2 named 'vta', found vta, vta");
  UioOptions second = uio_options();
  second.index = 1;
  EXPECT_TRUE(uio_device_present(second));
}

TEST_F(FakeBoard, MachineWithoutUioHasNoAccelerator) {
  EXPECT_FALSE(uio_device_present(uio_options()));
  EXPECT_THAT(open_uio_device({}, *memory_, uio_options()).status().message(),
              HasSubstr("found none"));
}

TEST_F(FakeBoard, AResetWaitsUntilTheVirtualBoardsModelHasEndedItsProgram) {
  add_uio("uio1", "vta-reset", vta::kBytesWithReset - vta::kResetRequest);
  const Result<UioInfo> info = find_uio("vta-reset", classes, devices);
  const Result<std::unique_ptr<UioReset>> reset = UioReset::open(*info);
  ASSERT_TRUE(reset.ok()) << reset.status().message();
  std::thread model([&] {
    const FileDescriptor page(::open(info->path.c_str(), O_RDWR | O_CLOEXEC));
    std::uint32_t request = 0;
    while (request == 0) {
      EXPECT_EQ(::pread(page.number(), &request, sizeof request, 0), 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // a long program
    EXPECT_EQ(::pwrite(page.number(), &request, sizeof request,
                       vta::kResetAcknowledge - vta::kResetRequest),
              4);
  });
  const Status status = (*reset)->reset();
  EXPECT_TRUE(status.ok()) << status.message();
  model.join();
}

TEST_F(FakeBoard, RegistersAreTheDevicesMemoryAndHaveOneUser) {
  add_uio("uio0", "vta", vta::kBytes);
  const Result<UioInfo> info = find_uio("vta", classes, devices);
  Result<std::unique_ptr<UioRegisters>> registers = UioRegisters::open(*info, vta::kBytes);
  ASSERT_TRUE(registers.ok());
  (*registers)->write(vta::kFetchCount, 0x01020304);
  EXPECT_EQ((*registers)->read(vta::kFetchCount), 0x01020304);
  std::ifstream file(info->path, std::ios::binary);
  file.seekg(vta::kFetchCount);
  EXPECT_EQ(file.get(), 4);
  const Status taken = UioRegisters::open(*info, vta::kBytes).status();
  EXPECT_THAT(taken.message(), HasSubstr("another process uses it"));
  EXPECT_EQ(taken.hint(), "stop that process: `fuser " + info->path + "` shows its number");
  registers->reset();
  EXPECT_TRUE(UioRegisters::open(*info, vta::kBytes).ok());
}

TEST_F(FakeBoard, RegistersOfAnotherSizeAreRefused) {
  add_uio("uio0", "vta", 4096);
  EXPECT_THAT(open_uio_device({}, *memory_, uio_options()).status().message(),
              HasSubstr("its registers have 4096 bytes, expected 16384"));
}

TEST_F(FakeBoard, UdmabufGivesPhysicalAddresses) {
  add_udmabuf("u-dma-buf");
  Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open(memory_options());
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  const Buffer first = *(*memory)->allocate(100);
  const Buffer second = *(*memory)->allocate(8192);
  EXPECT_EQ(first.device_address(), 0x7000'0000);
  EXPECT_EQ(second.device_address(), 0x7000'1000);
  EXPECT_THAT((*memory)->translate(0x7000'1010, 8192).status().message(),
              HasSubstr("are not in any allocation"));
}

TEST_F(FakeBoard, UdmabufMaintainsTheCachesOfExactlyTheBuffer) {
  add_udmabuf("u-dma-buf");
  Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open(memory_options());
  Buffer first = *(*memory)->allocate(4096);
  Buffer second = *(*memory)->allocate(100);
  // Offset in bits 63:32, bytes in multiples of 16, direction 1 or 2 in bits 3:2, and 1.
  (*memory)->flush(second.view());
  EXPECT_EQ(attribute("sync_for_device"), "0x100000000075");
  (*memory)->invalidate(second.view());
  EXPECT_EQ(attribute("sync_for_cpu"), "0x100000000079");
}

TEST_F(FakeBoard, AFailedSyncIsAnErrorFromThenOn) {
  add_udmabuf("u-dma-buf");
  const fs::path sync = classes / "u-dma-buf/udmabuf0/sync_for_cpu";
  fs::remove(sync);
  fs::create_symlink("/dev/full", sync);
  const auto memory = *UdmabufMemory::open(memory_options());
  const Buffer buffer = *memory->allocate(100);
  EXPECT_TRUE(memory->maintained().ok());
  memory->invalidate(buffer.view());
  memory->flush(buffer.view());
  const Status status = memory->maintained();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(),
            "memory: u-dma-buf: sync_for_cpu of 100 bytes: No space left on device");
  EXPECT_EQ(status.hint(), "examine the board with `edgepipe doctor`");
}

TEST_F(FakeBoard, MemoryThatTheAcceleratorMayWriteToIsNotHandedOutAgain) {
  add_udmabuf("u-dma-buf");
  const auto memory = *UdmabufMemory::open(memory_options());
  const std::uint64_t first = memory->allocate(100)->device_address();
  EXPECT_EQ(memory->allocate(100)->device_address(), first) << "it was released";
  memory->keep_released();
  EXPECT_EQ(memory->allocate(100)->device_address(), first);
  EXPECT_NE(memory->allocate(100)->device_address(), first);
}

TEST_F(FakeBoard, CoherentMemoryNeedsNoMaintenance) {
  add_udmabuf("u-dma-buf", "1");
  Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open(memory_options());
  Buffer buffer = *(*memory)->allocate(100);
  (*memory)->flush(buffer.view());
  EXPECT_EQ(attribute("sync_for_device"), "");
}

TEST_F(FakeBoard, UdmabufOfOldDriversIsFoundToo) {
  add_udmabuf("udmabuf");
  EXPECT_TRUE(UdmabufMemory::open(memory_options()).ok());
}

TEST_F(FakeBoard, MissingOrFullUdmabufIsAnError) {
  EXPECT_THAT(UdmabufMemory::open(memory_options()).status().message(),
              HasSubstr("no u-dma-buf named 'udmabuf0'"));
  EXPECT_EQ(UdmabufMemory::open(memory_options()).status().hint(),
            "load its kernel module, u-dma-buf");
  add_udmabuf("u-dma-buf");
  Result<std::unique_ptr<UdmabufMemory>> memory = UdmabufMemory::open(memory_options());
  Buffer buffer = *(*memory)->allocate(60000);
  const Status full = (*memory)->allocate(10000).status();
  EXPECT_EQ(full.code(), Code::kOutOfMemory);
  EXPECT_THAT(full.message(), HasSubstr("10000 bytes wanted, 61440 of 65536 bytes are in use"));
  EXPECT_EQ(full.hint(),
            "use fewer slots, stop other pipelines, or give the board a larger buffer");
}

TEST(RangeAllocatorTest, FreedRangesAreUsedAgainFirstFit) {
  RangeAllocator ranges(3 * 4096);
  EXPECT_EQ(ranges.allocate(0), 0U);
  EXPECT_EQ(ranges.allocate(4097), 4096U);
  EXPECT_EQ(ranges.allocate(1), std::nullopt);
  const std::uint64_t generation = ranges.generation();
  ranges.release(0);
  EXPECT_NE(ranges.generation(), generation);
  EXPECT_FALSE(ranges.contains(0, 1));
  EXPECT_EQ(ranges.allocate(4096), 0U);
  EXPECT_TRUE(ranges.contains(4096 + 4000, 97));
  EXPECT_FALSE(ranges.contains(4096 + 4000, 98));
}

}  // namespace
}  // namespace edgepipe
