// QtestInterrupt: raises an interrupt in a QEMU guest through the socket of QEMU's option -qtest.
//
//   Result<std::unique_ptr<QtestInterrupt>> line = QtestInterrupt::connect("qtest.sock", 89);
//   Status status = (*line)->pulse();
//
// Not thread-safe. Every exchange with QEMU has a deadline of five seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "emulation/programmable_logic.h"

namespace edgepipe {

class QtestInterrupt final : public InterruptLine {
 public:
  /// Connects to QEMU's socket for shared peripheral interrupt `spi` of the machine's GIC. Blocks.
  /// kNotFound if nobody listens there.
  static Result<std::unique_ptr<QtestInterrupt>> connect(const std::string& socket,
                                                         std::uint32_t spi);

  /// See InterruptLine. Blocks until QEMU has answered.
  Status set(bool high) override;

  /// False if QEMU has closed the connection. Does not block.
  [[nodiscard]] bool open() const;

 private:
  QtestInterrupt(FileDescriptor connection, std::uint32_t spi);
  Status exchange(const std::string& command);

  const FileDescriptor connection_;
  const std::string raise_;
  const std::string lower_;
};

}  // namespace edgepipe
