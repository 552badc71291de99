#include "memory/dma_heap_memory.h"

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/open_failure.h"
#include "base/sysfs.h"
#include "memory/cache_maintenance.h"
#include "memory/contiguous.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;

// A word of /proc/PID/pagemap (the kernel's Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPagePresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kFrameNumber = (std::uint64_t{1} << 55) - 1;

/// The heap to take, such as /dev/dma_heap/linux,cma; empty if there is none. The name of
/// CMA's heap depends on the kernel and its command line; the heap "system" is never contiguous.
Result<std::string> find_heap(const DmaHeapMemory::Options& options) {
  const std::string folder = options.devices + "/dma_heap";
  const Result<std::vector<fs::path>> entries = list_folder(folder);
  if (!entries.ok()) return entries.status();
  std::vector<std::string> names;
  for (const fs::path& entry : *entries) {
    const std::string name = entry.filename().string();
    const bool wanted = options.heap.empty() ? !name.starts_with("system") : name == options.heap;
    if (wanted) names.push_back(name);
  }
  if (names.empty()) return std::string();
  return folder + "/" + *std::ranges::min_element(names);
}

/// The physical address of the mapping's first byte, after checking that it is contiguous.
Result<std::uint64_t> physical_address(std::span<std::byte> bytes, const std::string& heap,
                                       const DmaHeapMemory::ReadPagemap& read_pagemap) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // A page has an address only after it has been touched.
  for (std::size_t offset = 0; offset < bytes.size(); offset += page) {
    [[maybe_unused]] const std::byte touched = static_cast<volatile std::byte&>(bytes[offset]);
  }
  std::vector<std::uint64_t> words(bytes.size() / page);
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page;
  const std::size_t known = read_pagemap(first, words);
  const std::uint64_t frame = words.front() & kFrameNumber;
  if (known != words.size() || frame == 0) {
    return Status(
        Code::kDevice,
        "memory: " + heap + ": the kernel hides physical addresses from this process",
        "load the kernel module u-dma-buf, or run the program as root or with CAP_SYS_ADMIN");
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if ((words[i] & kPagePresent) == 0 || (words[i] & kFrameNumber) != frame + i) {
      return Status(Code::kDevice,
                    "memory: " + heap + ": not contiguous at byte " + std::to_string(i * page),
                    "use a heap of CMA, or load the kernel module u-dma-buf");
    }
  }
  return frame * page;
}

}  // namespace

bool DmaHeapMemory::present(const Options& options) {
  const Result<std::string> heap = find_heap(options);
  return !heap.ok() || !heap->empty();  // open() then says why it cannot
}

Result<std::unique_ptr<DmaHeapMemory>> DmaHeapMemory::open(const Options& options) {
  const Result<std::string> found = find_heap(options);
  if (!found.ok()) return found.status().with_context("memory");
  const std::string& heap = *found;
  if (heap.empty()) {
    return Status(Code::kNotFound,
                  "memory: no contiguous dma-heap below " + options.devices + "/dma_heap",
                  "use a kernel with CONFIG_DMABUF_HEAPS_CMA");
  }
  if (!options.coherent && !kMaintainsCaches) {
    return Status(
        Code::kDevice,
        "memory: " + heap + ": user programs cannot maintain the caches of this processor",
        "load the kernel module u-dma-buf");
  }
  const FileDescriptor file(::open(heap.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kNotFound, "memory: " + heap, errno);
  dma_heap_allocation_data allocated{};
  const Status status = allocate_contiguous(
      options.bytes, options.least_bytes, heap, "DMA_HEAP_IOCTL_ALLOC", [&](std::size_t bytes) {
        allocated = {.len = bytes, .fd = 0, .fd_flags = O_RDWR | O_CLOEXEC, .heap_flags = 0};
        return options.ioctl(file.number(), DMA_HEAP_IOCTL_ALLOC, &allocated) == 0;
      });
  if (!status.ok()) return status;
  // The mapping keeps the buffer alive, so the descriptor can be closed.
  const FileDescriptor buffer(static_cast<int>(allocated.fd));
  Result<SharedMapping> mapping =
      SharedMapping::map(buffer.number(), 0, static_cast<std::size_t>(allocated.len), heap);
  if (!mapping.ok()) return mapping.status().with_context("memory");
  Result<std::uint64_t> address = physical_address(mapping->bytes(), heap, options.read_pagemap);
  if (!address.ok()) return address.status();
  return std::unique_ptr<DmaHeapMemory>(
      new DmaHeapMemory(*std::move(mapping), *address, options.coherent));
}

std::size_t DmaHeapMemory::read_own_pagemap(std::uint64_t first, std::span<std::uint64_t> words) {
  const FileDescriptor file(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return 0;
  const ssize_t bytes = ::pread(file.number(), words.data(), words.size_bytes(),
                                static_cast<off_t>(first * sizeof(std::uint64_t)));
  return bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof(std::uint64_t);
}

DmaHeapMemory::DmaHeapMemory(SharedMapping mapping, std::uint64_t address, bool coherent)
    : ArenaMemory(std::move(mapping), address), coherent_(coherent) {}

Status DmaHeapMemory::sync(std::size_t offset, std::size_t bytes, Direction direction) {
  if (!coherent_) {
    clean_caches(mapped().data() + offset, bytes, direction == Direction::kFromDevice);
  }
  return {};
}

}  // namespace edgepipe
