// DeviceConformance: the promises of edgepipe/device.h as tests.
//
//   class MyDeviceUnderTest final : public DeviceUnderTest {
//    public:
//     edgepipe::Device& device() override { return device_; }
//    private:
//     MyMemory memory_;
//     MyDevice device_{memory_};
//   };
//
// implementation.h shows how to instantiate the suite. Its tests are in device_suite.cc, which the
// test program compiles. They run small VTA programs made for the device's own accelerator; the
// longest takes about a third of a second. DeviceConformance does not check the device's memory in
// depth: memory_suite.h does.
#pragma once

#include <memory>

#include "edgepipe/conformance/implementation.h"
#include "edgepipe/device.h"

namespace edgepipe::conformance {

/// A device with everything that it needs, for one test.
class DeviceUnderTest : public UnderTest {
 public:
  [[nodiscard]] virtual Device& device() = 0;
};

using DeviceImplementation = Implementation<DeviceUnderTest>;

class DeviceConformance : public Conformance<DeviceUnderTest> {
 protected:
  [[nodiscard]] Device& device() { return subject().device(); }
};

}  // namespace edgepipe::conformance
