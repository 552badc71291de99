// DriverCall: ioctl(2) as a value, so that tests can be the driver.
#pragma once

#include <functional>

namespace edgepipe {

using DriverCall = std::function<int(int file, unsigned long request, void* argument)>;

/// ioctl(2), again when a signal interrupted it or the driver asks for that.
int call_driver(int file, unsigned long request, void* argument);

}  // namespace edgepipe
