#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "edgepipe/memory.h"
#include "memory/range_allocator.h"

namespace edgepipe {
namespace {

std::string hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

Result<std::unique_ptr<HostMemory>> HostMemory::create(const Options& options) {
  if (options.base_address % kAlignment != 0 || options.arena_bytes == 0) {
    return Status(Code::kInvalidArgument,
                  "host memory: base address " + hex(options.base_address) + ", arena " +
                      std::to_string(options.arena_bytes) +
                      " bytes; expected a base on a 4096-byte boundary and a non-empty arena");
  }
  Options rounded = options;
  rounded.arena_bytes = aligned_bytes(options.arena_bytes);
  void* arena = mmap(nullptr, rounded.arena_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) {
    return Status(Code::kOutOfMemory,
                  "host memory: cannot reserve " + std::to_string(rounded.arena_bytes) + " bytes",
                  "free memory on this machine");
  }
  return std::unique_ptr<HostMemory>(new HostMemory(static_cast<std::byte*>(arena), rounded));
}

HostMemory::HostMemory(std::byte* arena, const Options& options)
    : arena_(arena), options_(options) {}

HostMemory::~HostMemory() { munmap(arena_, options_.arena_bytes); }

Result<Buffer> HostMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;  // end of the allocation before the gap under test
  std::size_t widest = 0;
  auto next = live_.begin();
  for (;;) {
    const std::size_t gap = (next == live_.end() ? options_.arena_bytes : next->first) - offset;
    widest = std::max(widest, gap);
    if (gap >= bytes) break;
    if (next == live_.end()) {
      return Status(Code::kOutOfMemory,
                    "host memory: " + std::to_string(bytes) +
                        " bytes wanted, widest gap of the arena of " +
                        std::to_string(options_.arena_bytes) + " is " + std::to_string(widest),
                    "use fewer slots, or give the session more memory");
    }
    offset = next->first + aligned_bytes(next->second);
    ++next;
  }
  live_.emplace_hint(next, offset, bytes);
  ++generation_;
  return Buffer(
      this,
      {.data = arena_ + offset, .device_address = options_.base_address + offset, .bytes = bytes});
}

Result<std::byte*> HostMemory::translate(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (address >= options_.base_address && address - options_.base_address <= options_.arena_bytes) {
    const auto offset = static_cast<std::size_t>(address - options_.base_address);
    auto found = live_.upper_bound(offset);
    if (found != live_.begin()) {
      --found;
      const std::size_t inside = offset - found->first;
      if (inside <= found->second && bytes <= found->second - inside) return arena_ + offset;
    }
  }
  return Status(Code::kDevice, "device memory [" + hex(address) + ", " + hex(address + bytes) +
                                   ") is not inside one allocation");
}

std::uint64_t HostMemory::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

// The simulator uses the same mapping as the CPU, so there is nothing to maintain.
void HostMemory::flush(const BufferView& /*view*/) {}
void HostMemory::invalidate(const BufferView& /*view*/) {}

void HostMemory::release(const BufferView& view) noexcept {
  // Dropping the pages ensures that the next owner gets zeroes.
  madvise(view.data, aligned_bytes(view.bytes), MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  live_.erase(static_cast<std::size_t>(view.device_address - options_.base_address));
  ++generation_;
}

}  // namespace edgepipe
