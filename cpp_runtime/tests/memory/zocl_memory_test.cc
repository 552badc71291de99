// XRT's buffers, from an emulated driver (emulated_zocl.h).
#include "memory/zocl_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "device/uio_device.h"
#include "device/vta_registers.h"
#include "support/emulated_zocl.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kZoclBytes = 65536;

class Zocl : public ::testing::Test, protected testing::EmulatedZocl {
 protected:
  Zocl() : EmulatedZocl(kZoclBytes) {}
};

TEST_F(Zocl, GivesContiguousCachedMemoryAtTheAddressThatTheDriverNames) {
  const auto memory = *ZoclMemory::open(options());
  EXPECT_EQ(flags, zocl::kContiguous | zocl::kCacheable);
  const Buffer first = *memory->allocate(100);
  const Buffer second = *memory->allocate(100);
  EXPECT_EQ(first.device_address(), kAddress);
  EXPECT_EQ(second.device_address(), kAddress + DeviceMemory::kAlignment);
}

TEST_F(Zocl, SyncsJustTheWindowAndInItsDirection) {
  const auto memory = *ZoclMemory::open(options());
  const Buffer ignored = *memory->allocate(1);
  const Buffer buffer = *memory->allocate(200);
  synced.clear();
  memory->flush(buffer.view());
  memory->invalidate(buffer.view());
  ASSERT_EQ(synced.size(), 2U);
  EXPECT_EQ(synced[0].direction, zocl::kToDevice);
  EXPECT_EQ(synced[1].direction, zocl::kFromDevice);
  for (const zocl::SyncBo& sync : synced) {
    EXPECT_EQ(sync.handle, 7U);
    EXPECT_EQ(sync.offset, DeviceMemory::kAlignment);
    EXPECT_EQ(sync.bytes, 200U);
  }
}

TEST_F(Zocl, CoherentPortNeedsNoSync) {
  ZoclMemory::Options coherent = options();
  coherent.coherent = true;
  const auto memory = *ZoclMemory::open(coherent);
  const Buffer buffer = *memory->allocate(200);
  memory->invalidate(buffer.view());
  EXPECT_TRUE(synced.empty());
}

TEST_F(Zocl, TakesLessIfThereIsLessAndReportsTooLittle) {
  contiguous = kZoclBytes / 2;
  const auto memory = *ZoclMemory::open(options());
  EXPECT_THAT(memory->allocate(kZoclBytes / 2 + 1).status().message(),
              HasSubstr("0 of 32768 bytes are in use"));
  contiguous = kZoclBytes / 8;
  const Status status = ZoclMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("16384 contiguous bytes wanted"));
  EXPECT_EQ(status.hint(), "boot with a larger cma= on the kernel's command line");
}

TEST_F(Zocl, NamesWhatTheDriverRefuses) {
  maps = false;
  refuse_with = EPERM;
  EXPECT_THAT(ZoclMemory::open(options()).status().message(),
              HasSubstr("renderD129: MAP_BO: Operation not permitted"));
  contiguous = 0;
  EXPECT_THAT(ZoclMemory::open(options()).status().message(), HasSubstr("CREATE_BO"));
}

TEST_F(Zocl, MachineWithoutTheDriverHasNone) {
  fs::remove_all(root / "class/drm/renderD129");
  EXPECT_FALSE(ZoclMemory::present(options()));
  const Status status = ZoclMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.hint(), "install XRT");
}

TEST_F(Zocl, AcceleratorUsesItWithoutUdmabuf) {
  const std::string classes = (root / "class").string();
  const std::string devices = (root / "dev").string();
  fs::create_directories(root / "class/uio/uio0/maps/map0");
  std::ofstream(root / "class/uio/uio0/name") << "vta\n";
  std::ofstream(root / "class/uio/uio0/maps/map0/size") << vta::kBytes << "\n";
  std::ofstream(root / "dev/uio0") << std::string(vta::kBytes, '\0');
  const UioOptions uio{.interrupt = false,
                       .memory = {.devices = devices, .classes = classes},
                       .zocl = options(),
                       .devices = devices,
                       .classes = classes};
  const auto memory = open_uio_memory(uio);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_GE((*memory)->allocate(64)->device_address(), kAddress);
  // Registers with nothing behind them: no program ever ends.
  const Status dead = open_uio_device({}, **memory, uio).status();
  EXPECT_EQ(dead.message(), "vta: still runs a program of an earlier process, or hangs in it");
}

TEST_F(Zocl, AFailedSyncIsAnError) {
  const auto memory = *ZoclMemory::open(options());
  const Buffer buffer = *memory->allocate(100);
  EXPECT_TRUE(memory->maintained().ok());
  syncs = false;
  refuse_with = EIO;
  memory->invalidate(buffer.view());
  const Status status = memory->maintained();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_EQ(status.message(), "memory: zocl: SYNC_BO of 100 bytes: Input/output error");
  EXPECT_EQ(status.hint(), "examine the board with `edgepipe doctor`");
}

}  // namespace
}  // namespace edgepipe
