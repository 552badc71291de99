// OwnRegisters: what edgepipe's own hardware (vta_rtl) tells a driver and does for it, beside the
// registers that every VTA has.
//
//   Result<std::unique_ptr<OwnRegisters>> own = OwnRegisters::find(registers, accelerator);
//   if (*own != nullptr) (*own)->prepare(memory.extent());
//
// A published bitstream has none of it, and is used without. Each function needs the capability of
// that name; hardware without it keeps what a published bitstream would do.
//
// read_own_hardware only reads: what the FPGA is, and how its last program ended, for a report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "edgepipe/accelerator.h"
#include "edgepipe/memory.h"
#include "edgepipe/status.h"

namespace edgepipe {

class RegisterFile;

/// What edgepipe's own hardware says of itself. With another `map_version` than this driver's, the
/// rest is unknown and left empty.
struct OwnHardware {
  std::uint32_t map_version = 0;
  std::uint32_t encoding = 0;  // revision of the instructions: major, minor, patch; a byte each
  std::uint32_t configuration = 0;  // see configuration_hash
  std::uint32_t capabilities = 0;
  std::string error;  // why the last program was ended, see OwnRegisters::error

  [[nodiscard]] std::string encoding_text() const;
  [[nodiscard]] std::vector<std::string> capability_names() const;
};

/// Nothing for a published bitstream. Writes no register.
[[nodiscard]] std::optional<OwnHardware> read_own_hardware(const RegisterFile& registers);

/// Compares it with the accelerator that programs are made for. kOtherRevision and
/// kOtherConfiguration, as for a bundle's fingerprint; kDevice for a map of registers that this
/// driver does not know.
Status check_own_hardware(const OwnHardware& found, const Accelerator& accelerator);

class OwnRegisters {
 public:
  /// Null for a published bitstream. The errors of check_own_hardware. `registers` is borrowed.
  static Result<std::unique_ptr<OwnRegisters>> find(RegisterFile& registers,
                                                    const Accelerator& accelerator);

  /// For the next program: the device refuses transfers outside `window`, if there is one, and
  /// interrupts when the program ends in any way. Lowers the interrupt line.
  void prepare(const std::optional<MemoryRange>& window);

  /// Why the device has aborted the program, such as "store_outside at 0x1000". Empty if it has
  /// not.
  [[nodiscard]] std::string error() const;

  /// Whether nothing of a program is left in the device.
  [[nodiscard]] bool idle() const;

  /// Ends the program, including its transfers. Blocks for at most a second. kDeadline if the
  /// device does not become idle, kUnsupported if it cannot abort.
  [[nodiscard]] Status abort();

  /// The cycles of the last program, by module, for a report: "812 cycles, fetch busy 20 ...".
  [[nodiscard]] std::string counters() const;

 private:
  OwnRegisters(RegisterFile& registers, std::uint32_t capabilities)
      : registers_(registers), capabilities_(capabilities) {}

  RegisterFile& registers_;
  const std::uint32_t capabilities_;
};

/// The hash that the register `configuration` has on a bus of `bus_bytes`: 32-bit FNV-1a of what
/// programs and drivers depend on. The same as configuration_hash of register_table.py.
[[nodiscard]] std::uint32_t configuration_hash(const Accelerator& accelerator,
                                               std::uint32_t bus_bytes);

}  // namespace edgepipe
