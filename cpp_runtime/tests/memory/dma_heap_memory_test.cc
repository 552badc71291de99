// Buffers of an emulated dma-heap (emulated_dma_heap.h).
#include "memory/dma_heap_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "device/uio_device.h"
#include "support/emulated_dma_heap.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kHeapBytes = 65536;

class DmaHeap : public ::testing::Test, protected testing::EmulatedDmaHeap {
 protected:
  DmaHeap() : EmulatedDmaHeap(kHeapBytes) {}
};

TEST_F(DmaHeap, GivesMemoryAtTheAddressesOfItsPages) {
  const auto memory = *DmaHeapMemory::open(options());
  EXPECT_EQ(opened, "linux,cma") << "not the one that is called system";
  const Buffer first = *memory->allocate(100);
  const Buffer second = *memory->allocate(100);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(first.device_address(), kFrame * page);
  EXPECT_EQ(second.device_address(), kFrame * page + DeviceMemory::kAlignment);
}

TEST_F(DmaHeap, TakesTheNamedHeap) {
  add_heap("reserved");
  DmaHeapMemory::Options named = options();
  named.heap = "reserved";
  ASSERT_TRUE(DmaHeapMemory::open(named).ok());
  EXPECT_EQ(opened, "reserved");
  named.heap = "other";
  EXPECT_FALSE(DmaHeapMemory::present(named));
}

#if !defined(__aarch64__) && !defined(__x86_64__)
TEST_F(DmaHeap, ProcessorThatCannotMaintainCachesNeedsACoherentPort) {
  DmaHeapMemory::Options cached = options();
  cached.coherent = false;
  const Status status = DmaHeapMemory::open(cached).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("user programs cannot maintain the caches"));
  EXPECT_EQ(status.hint(), "load the kernel module u-dma-buf");
}
#endif

TEST_F(DmaHeap, TakesLessIfThereIsLessAndReportsTooLittle) {
  contiguous = kHeapBytes / 2;
  const auto memory = *DmaHeapMemory::open(options());
  EXPECT_THAT(memory->allocate(kHeapBytes / 2 + 1).status().message(),
              HasSubstr("0 of 32768 bytes are in use"));
  contiguous = kHeapBytes / 8;
  const Status status = DmaHeapMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("linux,cma: 16384 contiguous bytes wanted"));
}

TEST_F(DmaHeap, ProcessWithoutRightsToAddressesGetsARemedy) {
  for (const bool readable : {false, true}) {
    may_read = readable;
    told = false;  // without CAP_SYS_ADMIN the kernel returns frame numbers of 0
    const Status status = DmaHeapMemory::open(options()).status();
    EXPECT_EQ(status.code(), Code::kDevice);
    EXPECT_THAT(status.message(), HasSubstr("the kernel hides physical addresses"));
    EXPECT_EQ(status.hint(),
              "load the kernel module u-dma-buf, or run the program as root or with CAP_SYS_ADMIN");
  }
}

TEST_F(DmaHeap, MemoryInPiecesIsRefused) {
  scattered_from = 3;
  const Status status = DmaHeapMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(),
              HasSubstr("not contiguous at byte " + std::to_string(3 * ::sysconf(_SC_PAGESIZE))));
  EXPECT_EQ(status.hint(), "use a heap of CMA, or load the kernel module u-dma-buf");
}

TEST_F(DmaHeap, NamesWhatTheKernelRefuses) {
  contiguous = 0;
  refuse_with = EPERM;
  EXPECT_THAT(DmaHeapMemory::open(options()).status().message(),
              HasSubstr("linux,cma: DMA_HEAP_IOCTL_ALLOC: Operation not permitted"));
}

TEST_F(DmaHeap, MachineWithoutAContiguousOneHasNone) {
  fs::remove(root / "dev/dma_heap/linux,cma");
  EXPECT_FALSE(DmaHeapMemory::present(options()));
  const Status status = DmaHeapMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.hint(), "use a kernel with CONFIG_DMABUF_HEAPS_CMA");
}

TEST_F(DmaHeap, AcceleratorUsesItWithoutUdmabufAndZocl) {
  const std::string classes = (root / "class").string();
  const std::string devices = (root / "dev").string();
  const UioOptions uio{.memory = {.devices = devices, .classes = classes},
                       .zocl = {.devices = devices, .classes = classes},
                       .heap = options()};
  const auto memory = open_uio_memory(uio);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_GE((*memory)->allocate(64)->device_address(), kFrame);
  // An unusable u-dma-buf is an error; no other source replaces it.
  fs::create_directories(root / "class/u-dma-buf/udmabuf0");
  std::ofstream(root / "class/u-dma-buf/udmabuf0/size") << kHeapBytes << "\n";
  std::ofstream(root / "class/u-dma-buf/udmabuf0/phys_addr") << "0x70000000\n";
  EXPECT_THAT(open_uio_memory(uio).status().message(), HasSubstr("dev/udmabuf0"));
}

}  // namespace
}  // namespace edgepipe
