// Every memory of this repository that can be emulated in this process, against the promises of
// memory.h.
#include <memory>
#include <string>
#include <utility>

#include "edgepipe/conformance/memory_suite.h"
#include "emulation/model_device.h"
#include "memory/cache_maintenance.h"
#include "memory/non_coherent_memory.h"
#include "support/emulated_dma_heap.h"
#include "support/emulated_zocl.h"
#include "support/fake_board.h"
#include "support/file_view.h"
#include "support/foreign_test_driver.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kMemoryArenaBytes = std::size_t{8} << 20;

class Host final : public MemoryUnderTest {
 public:
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return view_; }

 private:
  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = kMemoryArenaBytes});
  TranslatedView view_{*memory_};
};

class NonCoherent final : public MemoryUnderTest {
 public:
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return view_; }

 private:
  std::unique_ptr<NonCoherentMemory> memory_ =
      *NonCoherentMemory::create({.arena_bytes = kMemoryArenaBytes});
  TranslatedView view_{memory_->device_side()};
};

/// The same memory, seen by a real or simulated accelerator.
class NonCoherentOfADevice final : public MemoryUnderTest {
 public:
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  std::unique_ptr<NonCoherentMemory> memory_ =
      *NonCoherentMemory::create({.arena_bytes = kMemoryArenaBytes});
  std::unique_ptr<ModelDevice> device_ =
      *ModelDevice::create({}, *memory_, memory_->device_side(), {});
  std::unique_ptr<DeviceView> view_ = *DeviceView::create(*device_);
};

class Udmabuf final : public MemoryUnderTest {
 public:
  explicit Udmabuf(const std::string& kernel_coherent) {
    board_.add_udmabuf("u-dma-buf", kernel_coherent, kMemoryArenaBytes);
    memory_ = *UdmabufMemory::open(board_.memory_options());
    view_ = std::make_unique<testing::FileView>((board_.devices / "udmabuf0").string(), 0,
                                                testing::FakeBoard::kUdmabufAddress);
  }
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  testing::FakeBoard board_;
  std::unique_ptr<UdmabufMemory> memory_;
  std::unique_ptr<testing::FileView> view_;
};

class Zocl final : public MemoryUnderTest {
 public:
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return view_; }

 private:
  testing::EmulatedZocl driver_{kMemoryArenaBytes};
  std::unique_ptr<ZoclMemory> memory_ = *ZoclMemory::open(driver_.options());
  testing::EmulatedZocl::View view_{driver_};
};

class DmaHeap final : public MemoryUnderTest {
 public:
  DmaHeap() {
    DmaHeapMemory::Options options = heap_.options();
    options.coherent = !kMaintainsCaches;
    memory_ = *DmaHeapMemory::open(options);
    view_ = std::make_unique<testing::FileView>(
        "/proc/self/fd/" + std::to_string(heap_.buffer), 0,
        testing::EmulatedDmaHeap::kFrame * static_cast<std::uint64_t>(::getpagesize()));
  }
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  testing::EmulatedDmaHeap heap_{kMemoryArenaBytes};
  std::unique_ptr<DmaHeapMemory> memory_;
  std::unique_ptr<testing::FileView> view_;
};

class Foreign final : public MemoryUnderTest {
 public:
  DeviceMemory& memory() override { return device_->memory(); }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  std::unique_ptr<Device> device_ = *testing::open_test_driver("0.0.1");
  std::unique_ptr<DeviceView> view_ = *DeviceView::create(*device_);
};

template <typename Subject, typename... Options>
MemoryImplementation implementation(const char* name, Options... options) {
  return {.name = name, .create = [=] { return std::make_unique<Subject>(options...); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Memory, MemoryConformance,
    ::testing::Values(implementation<Host>("Host"), implementation<NonCoherent>("NonCoherent"),
                      implementation<NonCoherentOfADevice>("NonCoherentSeenByADevice"),
                      implementation<Udmabuf>("Udmabuf", "0"),
                      implementation<Udmabuf>("UdmabufOnACoherentPort", "1"),
                      implementation<Zocl>("Zocl"), implementation<DmaHeap>("DmaHeap"),
                      implementation<Foreign>("ForeignDriver")),
    name_of);

}  // namespace edgepipe::conformance
