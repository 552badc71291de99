// Buffers of a dma-heap: the test answers the kernel's ioctl and pagemap; its buffer is a memfd.
#include "memory/dma_heap_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/dma-heap.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "device/uio_device.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kArena = 65536;
constexpr std::uint64_t kFrame = 0x6'0000;
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;

class DmaHeap : public ::testing::Test {
 protected:
  DmaHeap() {
    fs::create_directories(root / "dev/dma_heap");
    add_heap("linux,cma");
    add_heap("system");
  }
  ~DmaHeap() override {
    if (buffer >= 0) ::close(buffer);
    fs::remove_all(root);
  }

  void add_heap(const std::string& name) { std::ofstream(root / "dev/dma_heap" / name) << "x"; }

  DmaHeapMemory::Options options() {
    return {.bytes = kArena,
            .least_bytes = kArena / 4,
            .coherent = true,  // so that the test also runs as a 32-bit program
            .devices = (root / "dev").string(),
            .ioctl = [this](int file, unsigned long request,
                            void* argument) { return answer(file, request, argument); },
            .read_pagemap =
                [this](std::uint64_t, std::span<std::uint64_t> words) {
                  if (!may_read) return std::size_t{0};
                  for (std::size_t i = 0; i < words.size(); ++i) {
                    words[i] =
                        i < scattered_from ? kPresent | (told ? kFrame + i : 0) : kPresent | 7;
                  }
                  return words.size();
                }};
  }

  int answer(int file, unsigned long request, void* argument) {
    errno = refuse_with;
    auto* const data = static_cast<dma_heap_allocation_data*>(argument);
    if (request != DMA_HEAP_IOCTL_ALLOC || data->len > contiguous) return -1;
    opened = fs::read_symlink("/proc/self/fd/" + std::to_string(file)).filename();
    buffer = ::memfd_create("buffer", MFD_CLOEXEC);
    if (::ftruncate(buffer, static_cast<off_t>(data->len)) != 0) return -1;
    data->fd = static_cast<std::uint32_t>(::dup(buffer));
    return 0;
  }

  const fs::path root =
      fs::path(::testing::TempDir()) / ("dma_heap_test_" + std::to_string(::getpid()));
  std::size_t contiguous = kArena;
  std::size_t scattered_from = SIZE_MAX;
  int refuse_with = ENOMEM;
  bool may_read = true;
  bool told = true;
  int buffer = -1;
  std::string opened;
};

TEST_F(DmaHeap, GivesZeroedMemoryAtTheAddressesOfItsPages) {
  const auto memory = *DmaHeapMemory::open(options());
  EXPECT_EQ(opened, "linux,cma") << "not the one that is called system";
  const Buffer first = *memory->allocate(100);
  const Buffer second = *memory->allocate(100);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(first.device_address(), kFrame * page);
  EXPECT_EQ(second.device_address(), kFrame * page + DeviceMemory::kAlignment);
  second.data()[5] = std::byte{42};
  std::byte there{};
  ASSERT_EQ(::pread(buffer, &there, 1, DeviceMemory::kAlignment + 5), 1);
  EXPECT_EQ(there, std::byte{42});
}

TEST_F(DmaHeap, ThatIsNamedIsTaken) {
  add_heap("reserved");
  DmaHeapMemory::Options named = options();
  named.heap = "reserved";
  ASSERT_TRUE(DmaHeapMemory::open(named).ok());
  EXPECT_EQ(opened, "reserved");
  named.heap = "other";
  EXPECT_FALSE(DmaHeapMemory::present(named));
}

#if defined(__aarch64__) || defined(__x86_64__)
TEST_F(DmaHeap, CachesAreMaintainedByTheProcessor) {
  DmaHeapMemory::Options cached = options();
  cached.coherent = false;
  const auto memory = *DmaHeapMemory::open(cached);
  const Buffer buffer = *memory->allocate(200);
  buffer.data()[199] = std::byte{7};
  memory->flush(buffer.view());
  memory->invalidate(buffer.view());
  EXPECT_EQ(buffer.data()[199], std::byte{7});
}
#else
TEST_F(DmaHeap, ProcessorThatCannotMaintainCachesNeedsACoherentPort) {
  DmaHeapMemory::Options cached = options();
  cached.coherent = false;
  const Status status = DmaHeapMemory::open(cached).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("user programs cannot maintain the caches"));
}
#endif

TEST_F(DmaHeap, TakesLessIfThereIsLessAndReportsTooLittle) {
  contiguous = kArena / 2;
  const auto memory = *DmaHeapMemory::open(options());
  EXPECT_THAT(memory->allocate(kArena / 2 + 1).status().message(),
              HasSubstr("0 of 32768 bytes are in use"));
  contiguous = kArena / 8;
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
    EXPECT_THAT(status.message(), HasSubstr("run it as root or with CAP_SYS_ADMIN"));
  }
}

TEST_F(DmaHeap, MemoryInPiecesIsRefused) {
  scattered_from = 3;
  const Status status = DmaHeapMemory::open(options()).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(),
              HasSubstr("not contiguous at byte " + std::to_string(3 * ::sysconf(_SC_PAGESIZE))));
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
  EXPECT_EQ(DmaHeapMemory::open(options()).status().code(), Code::kNotFound);
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
  std::ofstream(root / "class/u-dma-buf/udmabuf0/size") << kArena << "\n";
  std::ofstream(root / "class/u-dma-buf/udmabuf0/phys_addr") << "0x70000000\n";
  EXPECT_THAT(open_uio_memory(uio).status().message(), HasSubstr("dev/udmabuf0"));
}

}  // namespace
}  // namespace edgepipe
