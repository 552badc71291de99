// edgepipe-board-conformance: the conformance suites on a board's own accelerator and buffers.
//
//   CI=1 edgepipe-board-conformance --accelerator=accelerator.json   (default: the Ultra96's)
//
// Tests of hardware that a board lacks are skipped, or fail if CI is set; --gtest_filter excludes
// them.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "device/uio_device.h"
#include "edgepipe/conformance/device_suite.h"
#include "edgepipe/conformance/memory_suite.h"
#include "support/accelerator_file.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kHeapBytes = std::size_t{16} << 20;

Accelerator& board_accelerator() {
  static Accelerator accelerator;
  return accelerator;
}

template <typename Memory>
Result<std::unique_ptr<DeviceMemory>> as_device_memory(Result<std::unique_ptr<Memory>> memory) {
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<DeviceMemory>(*std::move(memory));
}

using OpenMemory = Result<std::unique_ptr<DeviceMemory>> (*)();

Result<std::unique_ptr<DeviceMemory>> udmabuf() {
  return as_device_memory(UdmabufMemory::open({}));
}
Result<std::unique_ptr<DeviceMemory>> zocl() {
  return as_device_memory(ZoclMemory::open({.bytes = kHeapBytes}));
}
Result<std::unique_ptr<DeviceMemory>> dma_heap() {
  return as_device_memory(DmaHeapMemory::open({.bytes = kHeapBytes}));
}
Result<std::unique_ptr<DeviceMemory>> any_memory() { return open_uio_memory({}); }

/// The accelerator with one of the board's memories, and its view of that memory.
class OnBoard final : public DeviceUnderTest, public MemoryUnderTest {
 public:
  static Result<std::unique_ptr<OnBoard>> open(OpenMemory open_memory, bool interrupt) {
    Result<std::unique_ptr<DeviceMemory>> memory = open_memory();
    if (!memory.ok()) return memory.status();
    Result<std::unique_ptr<HardwareDevice>> device =
        open_uio_device(board_accelerator(), **memory, {.interrupt = interrupt});
    if (!device.ok()) return device.status();
    Result<std::unique_ptr<DeviceView>> view = DeviceView::create(**device);
    if (!view.ok()) return view.status();
    return std::unique_ptr<OnBoard>(
        new OnBoard(*std::move(memory), *std::move(device), *std::move(view)));
  }

  Device& device() override { return *device_; }
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  OnBoard(std::unique_ptr<DeviceMemory> memory, std::unique_ptr<HardwareDevice> device,
          std::unique_ptr<DeviceView> view)
      : memory_(std::move(memory)), device_(std::move(device)), view_(std::move(view)) {}

  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<HardwareDevice> device_;
  std::unique_ptr<DeviceView> view_;
};

template <typename Subject>
Implementation<Subject> implementation(const char* name, OpenMemory memory, bool interrupt) {
  return {.name = name, .create = [=]() -> Created<Subject> {
            Result<std::unique_ptr<OnBoard>> board = OnBoard::open(memory, interrupt);
            if (!board.ok()) return board.status();
            return *std::move(board);
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Board, DeviceConformance,
                         ::testing::Values(implementation<DeviceUnderTest>("Uio", any_memory, true),
                                           implementation<DeviceUnderTest>("UioThatIsPolled",
                                                                           any_memory, false)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    Board, MemoryConformance,
    ::testing::Values(implementation<MemoryUnderTest>("Udmabuf", udmabuf, true),
                      implementation<MemoryUnderTest>("Zocl", zocl, true),
                      implementation<MemoryUnderTest>("DmaHeap", dma_heap, true)),
    name_of);

}  // namespace edgepipe::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kOption = "--accelerator=";
  if (argc > 2 || (argc == 2 && !std::string_view(argv[1]).starts_with(kOption))) {
    std::fprintf(stderr, "usage: edgepipe-board-conformance [--accelerator=FILE.json]\n");
    return 2;
  }
  if (argc == 2) {
    const edgepipe::Result<edgepipe::Accelerator> accelerator =
        edgepipe::testing::read_accelerator(argv[1] + kOption.size());
    if (!accelerator.ok()) {
      std::fprintf(stderr, "edgepipe-board-conformance: %s: %s\n", argv[1],
                   accelerator.status().message().c_str());
      return 1;
    }
    edgepipe::conformance::board_accelerator() = *accelerator;
  }
  return RUN_ALL_TESTS();
}
