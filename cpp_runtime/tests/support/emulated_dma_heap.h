// EmulatedDmaHeap: a dma-heap whose ioctl and pagemap are emulated here and whose buffer is a
// memfd.
#pragma once

#include <gtest/gtest.h>
#include <linux/dma-heap.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "memory/dma_heap_memory.h"

namespace edgepipe::testing {

/// One at a time in a process: the folder of its files is named after the process.
class EmulatedDmaHeap {
 public:
  static constexpr std::uint64_t kFrame = 0x6'0000;  // number of its first page

  explicit EmulatedDmaHeap(std::size_t arena_bytes)
      : contiguous(arena_bytes), arena_bytes_(arena_bytes) {
    std::filesystem::create_directories(root / "dev/dma_heap");
    add_heap("linux,cma");
    add_heap("system");
  }
  ~EmulatedDmaHeap() {
    if (buffer >= 0) ::close(buffer);
    std::filesystem::remove_all(root);
  }
  EmulatedDmaHeap(const EmulatedDmaHeap&) = delete;
  EmulatedDmaHeap& operator=(const EmulatedDmaHeap&) = delete;

  void add_heap(const std::string& name) { std::ofstream(root / "dev/dma_heap" / name) << "x"; }

  DmaHeapMemory::Options options() {
    return {.bytes = arena_bytes_,
            .least_bytes = arena_bytes_ / 4,
            .coherent = true,  // so that it runs as a 32-bit program too
            .devices = (root / "dev").string(),
            .ioctl = [this](int file, unsigned long request,
                            void* argument) { return answer(file, request, argument); },
            .read_pagemap =
                [this](std::uint64_t, std::span<std::uint64_t> words) {
                  if (!may_read) return std::size_t{0};
                  for (std::size_t i = 0; i < words.size(); ++i) {
                    words[i] = i < scattered_from ? kPagePresent | (told ? kFrame + i : 0)
                                                  : kPagePresent | 7;
                  }
                  return words.size();
                }};
  }

  int answer(int file, unsigned long request, void* argument) {
    errno = refuse_with;
    auto* const data = static_cast<dma_heap_allocation_data*>(argument);
    if (request != DMA_HEAP_IOCTL_ALLOC || data->len > contiguous) return -1;
    opened = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)).filename();
    buffer = ::memfd_create("buffer", MFD_CLOEXEC);
    if (::ftruncate(buffer, static_cast<off_t>(data->len)) != 0) return -1;
    data->fd = static_cast<std::uint32_t>(::dup(buffer));
    return 0;
  }

  const std::filesystem::path root =
      std::filesystem::path(::testing::TempDir()) / ("dma_heap_test_" + std::to_string(::getpid()));
  std::size_t contiguous;  // as much as there is in one piece
  std::size_t scattered_from = SIZE_MAX;
  int refuse_with = ENOMEM;
  bool may_read = true;
  bool told = true;
  int buffer = -1;  // the memfd, once it is allocated
  std::string opened;

 private:
  static constexpr std::uint64_t kPagePresent = std::uint64_t{1} << 63;

  const std::size_t arena_bytes_;
};

}  // namespace edgepipe::testing
