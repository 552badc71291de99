// EmulatedFpga: a fake board with an accelerator. Behind its UIO devices is FpgaModel, on a thread
// of this process.
//
//   EmulatedFpga fpga;
//   auto memory = open_uio_memory(fpga.options());
//   auto device = open_uio_device({}, **memory, fpga.options());
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "device/vta_registers.h"
#include "emulation/fpga_model.h"
#include "emulation/guest_memory.h"
#include "simulator/simulator.h"
#include "support/fake_board.h"

namespace edgepipe::testing {

class EmulatedFpga : private FakeBoard {
 public:
  static constexpr std::size_t kMemoryBytes = std::size_t{16} << 20;

  explicit EmulatedFpga(const Accelerator& accelerator = {}, std::vector<Fault> faults = {}) {
    constexpr std::size_t kResetBytes = vta::kBytesWithReset - vta::kResetRequest;
    add_uio("uio0", "vta", vta::kBytes);
    add_uio("uio1", "vta-reset", kResetBytes);
    add_udmabuf("u-dma-buf", "0", kMemoryBytes);
    // The model needs both devices' pages in one piece.
    void* const reserved =
        ::mmap(nullptr, vta::kBytesWithReset, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    registers_ = std::span(static_cast<std::byte*>(reserved), vta::kBytesWithReset);
    map_over("uio0", 0, vta::kBytes);
    map_over("uio1", vta::kResetRequest, kResetBytes);
    memory_.emplace(*SharedMapping::open((devices / "udmabuf0").string(), {.bytes = kMemoryBytes}),
                    kUdmabufAddress);
    simulator_ = *Simulator::create(accelerator, *memory_);
    model_.emplace(*simulator_, registers_, line_, FpgaModel::Options{.faults = std::move(faults)});
    thread_ = std::thread([this] {
      while (!stop_) {
        const Result<bool> busy = model_->step();
        if (!busy.ok() || !*busy) std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  ~EmulatedFpga() {
    stop_ = true;
    thread_.join();
    ::munmap(registers_.data(), registers_.size());
  }

  /// Options that open its memory and accelerator. Files have no interrupts, so the driver polls.
  [[nodiscard]] UioOptions options() const { return options_at(folder()); }

  /// The same for another process, which knows only the folder.
  [[nodiscard]] static UioOptions options_at(const std::string& folder) {
    UioOptions options{.devices = folder + "/dev", .classes = folder + "/class", .pages = folder};
    options.memory = {.devices = options.devices, .classes = options.classes};
    options.interrupt = false;
    return options;
  }
  [[nodiscard]] std::string folder() const { return root.string(); }

 private:
  class NoInterrupt final : public InterruptLine {
    Status set(bool) override { return {}; }
  };

  void map_over(const char* uio, std::size_t offset, std::size_t bytes) {
    const FileDescriptor file(::open((devices / uio).c_str(), O_RDWR | O_CLOEXEC));
    ::mmap(registers_.data() + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           file.number(), 0);
  }

  std::span<std::byte> registers_;
  std::optional<GuestMemory> memory_;
  std::unique_ptr<Simulator> simulator_;
  NoInterrupt line_;
  std::optional<FpgaModel> model_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace edgepipe::testing
