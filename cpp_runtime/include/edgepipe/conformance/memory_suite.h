// MemoryConformance: the promises of DeviceMemory and Buffer (edgepipe/memory.h) as tests.
//
//   class MyMemoryUnderTest final : public MemoryUnderTest {
//    public:
//     edgepipe::DeviceMemory& memory() override { return memory_; }
//     AcceleratorView& accelerator() override { return view_; }
//    private:
//     MyMemory memory_;
//     TranslatedView view_{memory_};  // or a DeviceView of a device that uses the memory
//   };
//
// implementation.h shows how to instantiate the suite. Its tests are in memory_suite.cc, which the
// test program compiles. They need 4 MiB and try to allocate more than there is, up to 1 GiB.
#pragma once

#include <memory>

#include "edgepipe/conformance/accelerator_view.h"
#include "edgepipe/conformance/implementation.h"
#include "edgepipe/memory.h"

namespace edgepipe::conformance {

/// A memory, and how the accelerator sees it, for one test.
class MemoryUnderTest : public UnderTest {
 public:
  [[nodiscard]] virtual DeviceMemory& memory() = 0;
  [[nodiscard]] virtual AcceleratorView& accelerator() = 0;
};

using MemoryImplementation = Implementation<MemoryUnderTest>;

class MemoryConformance : public Conformance<MemoryUnderTest> {
 protected:
  [[nodiscard]] DeviceMemory& memory() { return subject().memory(); }
  [[nodiscard]] AcceleratorView& accelerator() { return subject().accelerator(); }
};

}  // namespace edgepipe::conformance
