// The Verilated accelerator as a driver: the functions of upstream's vta/driver.h, and a few of its
// own (VtaRtl...), for the C++ runtime (--device driver:PATH@REVISION) and for Python.
//
// Memory is an arena of this process, at physical addresses from kFirstAddress on. The accelerator
// may access nothing else: its window is the arena. Thread rules: one caller at a time for each
// device; the memory functions are for any thread.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "axi_memory.h"
#include "core_model.h"
#include "registers.h"

namespace {

using vta_rtl::CoreModel;
using vta_rtl::MemoryCosts;

constexpr std::uint64_t kFirstAddress = 0x1000'0000;
constexpr std::size_t kArenaBytes = std::size_t{1} << 30;  // reserved; used page by page
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kStart = 1;
constexpr std::uint32_t kAutoRestart = 0x80;
constexpr std::uint32_t kAbort = 1;
constexpr std::uint32_t kIdle = 1;
constexpr std::uint32_t kAnyInterrupt = 7;
constexpr std::uint32_t kDoneInterrupt = 1;

/// VTADeviceRun's results.
enum RunResult { kRanToFinish = 0, kOutOfTime = 1, kError = 2 };

class ArenaMemory {
 public:
  static ArenaMemory& instance() {
    static ArenaMemory memory;
    return memory;
  }

  [[nodiscard]] vta_rtl::Arena arena() const { return {kFirstAddress, {base_, kArenaBytes}}; }

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = std::max<std::size_t>((bytes + kPage - 1) / kPage * kPage, kPage);
    std::size_t begin = 0;
    for (const auto& [offset, used] : blocks_) {
      if (offset - begin >= size) break;
      begin = offset + used;
    }
    if (base_ == nullptr || size > kArenaBytes || begin > kArenaBytes - size) return nullptr;
    blocks_.emplace(begin, size);
    return base_ + begin;
  }

  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(offset_of(memory));
    if (found == blocks_.end()) return;
    // New pages are zero.
    ::madvise(base_ + found->first, found->second, MADV_DONTNEED);
    blocks_.erase(found);
  }

  [[nodiscard]] std::uint32_t address_of(const void* memory) const {
    return static_cast<std::uint32_t>(kFirstAddress + offset_of(memory));
  }

 private:
  ArenaMemory() {
    void* const mapped = ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) base_ = static_cast<std::byte*>(mapped);
  }

  [[nodiscard]] std::size_t offset_of(const void* memory) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(memory) - base_);
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::map<std::size_t, std::size_t> blocks_;  // bytes by offset
};

/// What memory costs unless VtaRtlSetMemoryCosts says otherwise; from memory_costs.py.
constexpr MemoryCosts kDefaultCosts = {VTA_RTL_DEFAULT_MEMORY_COSTS};

class RtlDevice {
 public:
  RtlDevice() : model_(ArenaMemory::instance().arena(), kDefaultCosts) {
    model_.write(vta_rtl::kWindowFirst, static_cast<std::uint32_t>(kFirstAddress));
    model_.write(vta_rtl::kWindowLast, static_cast<std::uint32_t>(kFirstAddress + kArenaBytes - 1));
    model_.write(vta_rtl::kInterruptEnable, kAnyInterrupt);
  }

  CoreModel& model() { return model_; }

  /// In the order of HardwareDevice::start, with the interrupt that this device has.
  RunResult run(std::uint32_t address, std::uint32_t count, std::uint32_t most_cycles) {
    model_.write(vta_rtl::kInterruptStatus, kAnyInterrupt);
    model_.write(vta_rtl::kInsnCount, count);
    model_.write(vta_rtl::kInsnAddr, address);
    for (const std::uint32_t control :
         {vta_rtl::kLoadControl, vta_rtl::kComputeControl, vta_rtl::kStoreControl}) {
      model_.write(control, kStart | kAutoRestart);
    }
    model_.write(vta_rtl::kFetchControl, kStart);
    for (std::uint32_t cycle = 0; cycle < most_cycles; ++cycle) {
      if (model_.interrupted()) {
        const bool done = model_.read(vta_rtl::kInterruptStatus) == kDoneInterrupt;
        if (!done) stop();
        return done ? kRanToFinish : kError;
      }
      model_.cycle();
    }
    model_.write(vta_rtl::kCommand, kAbort);
    stop();
    return kOutOfTime;
  }

 private:
  /// Waits for the end of an abort: after it nothing of the program is left.
  void stop() {
    while ((model_.read(vta_rtl::kState) & kIdle) == 0) model_.cycle();
  }

  CoreModel model_;
};

RtlDevice& device_of(void* handle) { return *static_cast<RtlDevice*>(handle); }

}  // namespace

extern "C" {

void* VTAMemAlloc(std::size_t bytes, int /*cached*/) {
  return ArenaMemory::instance().allocate(bytes);
}

void VTAMemFree(void* memory) { ArenaMemory::instance().release(memory); }

std::uint32_t VTAMemGetPhyAddr(void* memory) { return ArenaMemory::instance().address_of(memory); }

void VTAMemCopyFromHost(void* memory, const void* source, std::size_t bytes) {
  std::memcpy(memory, source, bytes);
}

void VTAMemCopyToHost(void* target, const void* memory, std::size_t bytes) {
  std::memcpy(target, memory, bytes);
}

void VTAFlushCache(void* /*memory*/, std::uint32_t /*address*/, int /*bytes*/) {}

void VTAInvalidateCache(void* /*memory*/, std::uint32_t /*address*/, int /*bytes*/) {}

void* VTADeviceAlloc() { return new (std::nothrow) RtlDevice; }

void VTADeviceFree(void* handle) { delete &device_of(handle); }

// wait_cycles counts cycles of the accelerator's clock.
int VTADeviceRun(void* handle, std::uint32_t instructions, std::uint32_t count,
                 std::uint32_t wait_cycles) {
  return device_of(handle).run(instructions, count, wait_cycles);
}

/// Sets what memory costs from the next run on.
void VtaRtlSetMemoryCosts(void* handle, const MemoryCosts* costs) {
  device_of(handle).model().memory().set_costs(*costs);
}

/// Records the transfers of the runs to come if `on` is not 0, and forgets those before.
void VtaRtlRecordTransfers(void* handle, int on) {
  device_of(handle).model().memory().record_transfers(on != 0);
}

/// Cycles since the reset.
std::uint64_t VtaRtlCycles(void* handle) { return device_of(handle).model().cycles(); }

/// Writes all signals to a file (VCD) from a cycle since the reset on; null: no longer. Returns 0,
/// or 1 if the file cannot be written or the library was built without waveforms.
int VtaRtlRecordWaveform(void* handle, const char* path, std::uint64_t first_cycle) {
  CoreModel& model = device_of(handle).model();
  if (path == nullptr) {
    model.stop_waveform();
    return 0;
  }
  return model.record_waveform(path, first_cycle) ? 0 : 1;
}

/// Copies the first `most` recorded transfers; returns how many there are.
std::size_t VtaRtlTransfers(void* handle, vta_rtl::Transfer* target, std::size_t most) {
  const auto transfers = device_of(handle).model().memory().transfers();
  std::ranges::copy(transfers.first(std::min(most, transfers.size())), target);
  return transfers.size();
}

/// Reads a register, which takes cycles of the accelerator.
std::uint32_t VtaRtlReadRegister(void* handle, std::uint32_t offset) {
  return device_of(handle).model().read(offset);
}

/// Writes a register. The driver sets the window, the interrupt and the control registers itself.
void VtaRtlWriteRegister(void* handle, std::uint32_t offset, std::uint32_t value) {
  device_of(handle).model().write(offset, value);
}

}  // extern "C"
