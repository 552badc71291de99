// DriverCall: ioctl(2) as a value, so that tests can replace the driver.
#pragma once

#include <functional>

namespace edgepipe {

using DriverCall = std::function<int(int file, unsigned long request, void* argument)>;

/// ioctl(2), repeated if a signal interrupts it or the driver asks to try again.
int call_driver(int file, unsigned long request, void* argument);

}  // namespace edgepipe
