#include "device/foreign_memory.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

namespace edgepipe {

ForeignMemory::~ForeignMemory() { end_run(); }

Result<Buffer> ForeignMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::string name = "driver " + driver_.path() + ": VTAMemAlloc of " + std::to_string(bytes);
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  // The driver's cache functions count bytes in an int.
  if (bytes > INT_MAX - kAlignment) return Status(Code::kOutOfMemory, name + " bytes: too large");
  MutexLock lock(mutex_);
  const ForeignDriver::Functions& functions = driver_.functions();
  void* const driver_memory = functions.mem_alloc(rounded, ForeignDriver::kCached);
  if (driver_memory == nullptr) {
    return Status(Code::kOutOfMemory, name + " bytes failed",
                  "use fewer slots, or give the driver more memory");
  }
  const std::uint64_t address = functions.mem_get_phy_addr(driver_memory);
  if (address % kAlignment != 0) {
    functions.mem_free(driver_memory);
    return Status(Code::kUnsupported, name + " bytes is at address " + std::to_string(address) +
                                          ", expected a multiple of " + std::to_string(kAlignment));
  }
  auto* const copy = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (copy == nullptr) {
    functions.mem_free(driver_memory);
    return Status(Code::kOutOfMemory, "memory: " + std::to_string(rounded) + " bytes wanted");
  }
  std::memset(copy, 0, rounded);
  const Block block{
      .driver_memory = static_cast<std::byte*>(driver_memory), .copy = copy, .bytes = bytes};
  functions.mem_copy_from_host(block.driver_memory, copy, rounded);
  functions.flush_cache(block.driver_memory, static_cast<ForeignDriver::PhysicalAddress>(address),
                        static_cast<int>(rounded));
  blocks_.emplace(address, block);
  ++generation_;
  return Buffer(this, {.data = copy, .device_address = address, .bytes = bytes});
}

void ForeignMemory::release(const BufferView& view) noexcept {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(view.device_address);
  if (found == blocks_.end()) return;
  ++generation_;
  if (running_) {
    found->second.released = true;
    return;
  }
  give_back(found->second);
  blocks_.erase(found);
}

void ForeignMemory::give_back(const Block& block) {
  driver_.functions().mem_free(block.driver_memory);
  std::free(block.copy);
}

void ForeignMemory::begin_run() {
  MutexLock lock(mutex_);
  running_ = true;
}

void ForeignMemory::end_run() {
  MutexLock lock(mutex_);
  running_ = false;
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (block->second.released) {
      give_back(block->second);
      block = blocks_.erase(block);
    } else {
      ++block;
    }
  }
}

ForeignMemory::Blocks::const_iterator ForeignMemory::find(std::uint64_t address,
                                                          std::size_t bytes) const {
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return blocks_.end();
  --found;
  const std::uint64_t inside = address - found->first;
  const bool fits = inside <= found->second.bytes && bytes <= found->second.bytes - inside;
  return fits && !found->second.released ? found : blocks_.end();
}

Result<std::byte*> ForeignMemory::translate(std::uint64_t address, std::size_t bytes) const {
  MutexLock lock(mutex_);
  const auto found = find(address, bytes);
  if (found == blocks_.end()) {
    return Status(Code::kDevice, "memory: " + std::to_string(bytes) + " bytes at " +
                                     std::to_string(address) + " are not in any allocation");
  }
  return found->second.copy + static_cast<std::size_t>(address - found->first);
}

std::uint64_t ForeignMemory::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

std::byte* ForeignMemory::driver_side(const BufferView& view) const {
  const auto found = find(view.device_address, view.bytes);
  if (found == blocks_.end()) return nullptr;
  return found->second.driver_memory + static_cast<std::size_t>(view.device_address - found->first);
}

void ForeignMemory::flush(const BufferView& view) {
  MutexLock lock(mutex_);
  std::byte* const target = driver_side(view);
  if (target == nullptr) return;
  driver_.functions().mem_copy_from_host(target, view.data, view.bytes);
  driver_.functions().flush_cache(target,
                                  static_cast<ForeignDriver::PhysicalAddress>(view.device_address),
                                  static_cast<int>(view.bytes));
}

void ForeignMemory::invalidate(const BufferView& view) {
  MutexLock lock(mutex_);
  std::byte* const source = driver_side(view);
  if (source == nullptr) return;
  driver_.functions().invalidate_cache(
      source, static_cast<ForeignDriver::PhysicalAddress>(view.device_address),
      static_cast<int>(view.bytes));
  driver_.functions().mem_copy_to_host(view.data, source, view.bytes);
}

}  // namespace edgepipe
