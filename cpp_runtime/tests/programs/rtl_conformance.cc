// edgepipe-rtl-conformance: the conformance suites on edgepipe's own hardware, compiled by
// Verilator, behind the board's driver.
//
//   edgepipe-rtl-conformance --library=LIBRARY [--accelerator=FILE.json]   (default: the Ultra96's)
//
// vta_rtl/README.md says how the library is built. StageConformance needs the Ultra96's
// accelerator, and MemoryConformance one with square blocks.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "edgepipe/conformance/device_suite.h"
#include "edgepipe/conformance/memory_suite.h"
#include "emulation/rtl_device.h"
#include "support/accelerator_file.h"
#include "support/small_stages.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{16} << 20;

/// What the command line names.
struct Hardware {
  Accelerator accelerator;
  std::string library;
};

Hardware& hardware() {
  static Hardware named;
  return named;
}

Result<std::unique_ptr<RtlDevice>> open(HostMemory& memory, const RtlDevice::Options& options) {
  if (hardware().library.empty()) return Status(Code::kNotFound, "--library names none");
  return RtlDevice::create(hardware().accelerator, memory, hardware().library, options);
}

/// The accelerator, its memory, and how it sees that memory.
class OnRtl final : public DeviceUnderTest {
 public:
  OnRtl(std::unique_ptr<HostMemory> memory, std::unique_ptr<Device> device)
      : memory_(std::move(memory)), device_(std::move(device)) {}
  Device& device() override { return *device_; }

 private:
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Device> device_;
};

class HostSeenByRtl final : public MemoryUnderTest {
 public:
  HostSeenByRtl(std::unique_ptr<HostMemory> memory, std::unique_ptr<Device> device,
                std::unique_ptr<DeviceView> view)
      : memory_(std::move(memory)), device_(std::move(device)), view_(std::move(view)) {}
  DeviceMemory& memory() override { return *memory_; }
  AcceleratorView& accelerator() override { return *view_; }

 private:
  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceView> view_;
};

Created<DeviceUnderTest> device(const RtlDevice::Options& options) {
  auto memory = *HostMemory::create({.arena_bytes = kArenaBytes});
  Result<std::unique_ptr<RtlDevice>> opened = open(*memory, options);
  if (!opened.ok()) return opened.status();
  return std::make_unique<OnRtl>(std::move(memory), *std::move(opened));
}

Created<MemoryUnderTest> memory() {
  auto memory = *HostMemory::create({.arena_bytes = kArenaBytes});
  Result<std::unique_ptr<RtlDevice>> opened = open(*memory, {});
  if (!opened.ok()) return opened.status();
  Result<std::unique_ptr<DeviceView>> view = DeviceView::create(**opened);
  if (!view.ok()) return view.status();
  return std::make_unique<HostSeenByRtl>(std::move(memory), *std::move(opened), *std::move(view));
}

Created<StageUnderTest> stage() {
  if (hardware().accelerator != Accelerator{}) {
    return Status(Code::kUnsupported, "its program is for the Ultra96's accelerator");
  }
  auto memory = *HostMemory::create({.arena_bytes = testing::kStageArenaBytes});
  Result<std::unique_ptr<RtlDevice>> opened = open(*memory, {});
  if (!opened.ok()) return opened.status();
  return std::make_unique<testing::OnVta>(std::move(memory), *std::move(opened));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    Rtl, DeviceConformance,
    ::testing::Values(DeviceImplementation{.name = "Rtl", .create = [] { return device({}); }},
                      DeviceImplementation{.name = "RtlThatIsPolled",
                                           .create = [] { return device({.interrupt = false}); }},
                      DeviceImplementation{.name = "RtlWithoutAReset",
                                           .create = [] { return device({.reset = false}); }}),
    name_of);

INSTANTIATE_TEST_SUITE_P(Rtl, MemoryConformance,
                         ::testing::Values(MemoryImplementation{.name = "HostSeenByRtl",
                                                                .create = memory}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    Rtl, StageConformance,
    ::testing::Values(StageImplementation{
        .name = "VtaOnRtl",
        .create = stage,
        .deviations = {{"AllocatesNothingInARun",
                        "the model of DRAM has queues of bursts, on its own thread"}}}),
    name_of);

}  // namespace edgepipe::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kLibrary = "--library=";
  constexpr std::string_view kAccelerator = "--accelerator=";
  for (int n = 1; n < argc; ++n) {
    const std::string_view argument = argv[n];
    if (argument.starts_with(kLibrary)) {
      edgepipe::conformance::hardware().library = argument.substr(kLibrary.size());
    } else if (argument.starts_with(kAccelerator)) {
      const edgepipe::Result<edgepipe::Accelerator> accelerator =
          edgepipe::testing::read_accelerator(argv[n] + kAccelerator.size());
      if (!accelerator.ok()) {
        std::fprintf(stderr, "edgepipe-rtl-conformance: %s: %s\n", argv[n],
                     accelerator.status().message().c_str());
        return 1;
      }
      edgepipe::conformance::hardware().accelerator = *accelerator;
    } else {
      std::fprintf(stderr,
                   "usage: edgepipe-rtl-conformance --library=LIBRARY [--accelerator=FILE.json]\n");
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
