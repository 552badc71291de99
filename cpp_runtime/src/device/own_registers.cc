#include "device/own_registers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>

#include "device/hardware_device.h"
#include "device/own_register_map.h"
#include "edgepipe/sync.h"

namespace edgepipe {
namespace {

namespace own = vta::own;

constexpr std::chrono::seconds kAbortPatience{1};
constexpr std::chrono::microseconds kAbortInterval{50};
constexpr std::uint32_t kAllOnes = 0xFFFF'FFFF;
// An AXI port has 4 to 128 bytes.
constexpr std::array<std::uint32_t, 6> kBusBytes{4, 8, 16, 32, 64, 128};
constexpr int kMapVersionShift = 24;

std::string hex(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%x", value);
  return text.data();
}

std::string_view name_of(Revision revision) {
  return revision == Revision::k0_0_1 ? "0.0.1" : "0.0.2";
}

/// The low 24 bits of the register `revision`.
std::uint32_t encoding_word(Revision revision) { return revision == Revision::k0_0_1 ? 1 : 2; }

/// Why the device has aborted its last program, empty if it has not.
std::string error_text(const RegisterFile& registers) {
  const std::uint32_t error = registers.read(own::kError);
  std::string text;
  for (const own::NamedBit& bit : own::kErrors) {
    if ((error & bit.mask) == 0) continue;
    text += (text.empty() ? "" : " and ") + std::string(bit.name);
    if (bit.name.ends_with("_outside")) text += " at " + hex(registers.read(own::kErrorAddress));
  }
  return text.empty() && error != 0 ? "error " + hex(error) : text;
}

}  // namespace

std::uint32_t configuration_hash(const Accelerator& accelerator, std::uint32_t bus_bytes) {
  std::string text = accelerator.configuration() + " " + std::string(name_of(accelerator.revision));
  for (const std::uint32_t value :
       {accelerator.command_queue_depth, accelerator.token_queue_depth, bus_bytes}) {
    text += " " + std::to_string(value);
  }
  if (accelerator.load_queue_depth != 0) {
    text += " load " + std::to_string(accelerator.load_queue_depth);
  }
  if (accelerator.uop_index_bits != 0) text += " uop " + std::to_string(accelerator.uop_index_bits);
  if (const std::string names = accelerator.extension_names(); !names.empty()) {
    text += " extensions " + names;
  }
  std::uint32_t hash = 0x811C'9DC5;
  for (const char letter : text) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x0100'0193;
  return hash;
}

std::string OwnHardware::encoding_text() const {
  return std::to_string(encoding >> 16 & 0xFF) + "." + std::to_string(encoding >> 8 & 0xFF) + "." +
         std::to_string(encoding & 0xFF);
}

std::vector<std::string> OwnHardware::capability_names() const {
  std::vector<std::string> names;
  for (const own::NamedBit& bit : own::kCapabilityNames) {
    if ((capabilities & bit.mask) != 0) names.emplace_back(bit.name);
  }
  return names;
}

std::optional<OwnHardware> read_own_hardware(const RegisterFile& registers) {
  // The blocks of a published bitstream decode few address bits, so this reads one of their
  // registers, at worst the control register, whose done bit the driver does not use.
  if (registers.read(own::kMagic) != own::kMagicValue) return std::nullopt;
  const std::uint32_t revision = registers.read(own::kRevision);
  OwnHardware found;
  found.map_version = revision >> kMapVersionShift;
  if (found.map_version != own::kMapVersion) return found;
  found.encoding = revision & ((1U << kMapVersionShift) - 1);
  found.configuration = registers.read(own::kConfiguration);
  found.capabilities = registers.read(own::kCapabilities);
  if ((found.capabilities & own::kCapabilityErrors) != 0) found.error = error_text(registers);
  return found;
}

Status check_own_hardware(const OwnHardware& found, const Accelerator& accelerator) {
  if (found.map_version != own::kMapVersion) {
    return {Code::kDevice,
            "vta: its map of registers has version " + std::to_string(found.map_version) +
                ", expected " + std::to_string(own::kMapVersion),
            "use the edgepipe that the bitstream was made with, or a newer one"};
  }
  constexpr const char* kRebuild =
      "name the accelerator in the board's file as the bitstream has it, then build again";
  if (found.encoding != encoding_word(accelerator.revision)) {
    return {Code::kOtherRevision,
            "vta: the FPGA has instructions of revision " + found.encoding_text() + ", expected " +
                std::string(name_of(accelerator.revision)),
            kRebuild};
  }
  const bool same = std::ranges::any_of(kBusBytes, [&](std::uint32_t bus_bytes) {
    return configuration_hash(accelerator, bus_bytes) == found.configuration;
  });
  if (same) return {};
  return {Code::kOtherConfiguration,
          "vta: the FPGA has another accelerator (hash " + hex(found.configuration) +
              "), expected " + accelerator.configuration() + " with queues of " +
              std::to_string(accelerator.command_queue_depth) + " commands and " +
              std::to_string(accelerator.token_queue_depth) + " tokens",
          kRebuild};
}

Result<std::unique_ptr<OwnRegisters>> OwnRegisters::find(RegisterFile& registers,
                                                         const Accelerator& accelerator) {
  const std::optional<OwnHardware> found = read_own_hardware(registers);
  if (!found) return std::unique_ptr<OwnRegisters>();
  if (Status status = check_own_hardware(*found, accelerator); !status.ok()) return status;
  return std::unique_ptr<OwnRegisters>(new OwnRegisters(registers, found->capabilities));
}

void OwnRegisters::prepare(const std::optional<MemoryRange>& window) {
  if ((capabilities_ & own::kCapabilityWindow) != 0 && window) {
    constexpr std::uint64_t kLast = std::numeric_limits<std::uint32_t>::max();
    const std::uint64_t last = std::min(window->address + window->bytes - 1, kLast);
    registers_.write(own::kWindowFirst, static_cast<std::uint32_t>(window->address));
    registers_.write(own::kWindowLast, static_cast<std::uint32_t>(last));
  }
  if ((capabilities_ & own::kCapabilityInterrupt) != 0) {
    registers_.write(own::kInterruptStatus, kAllOnes);
    registers_.write(own::kInterruptEnable,
                     own::kInterruptDone | own::kInterruptError | own::kInterruptAborted);
  }
}

std::string OwnRegisters::error() const {
  if ((capabilities_ & own::kCapabilityErrors) == 0) return {};
  return error_text(registers_);
}

bool OwnRegisters::idle() const { return (registers_.read(own::kState) & own::kStateIdle) != 0; }

Status OwnRegisters::abort() {
  if ((capabilities_ & own::kCapabilityAbort) == 0) {
    return {Code::kUnsupported, "vta: this hardware cannot abort a program"};
  }
  // Also if it is idle: a start that waits is dropped.
  registers_.write(own::kCommand, own::kCommandAbort);
  const Clock::time_point deadline = Clock::now() + kAbortPatience;
  // Emulated registers show a command until it has been taken.
  while (registers_.read(own::kCommand) != 0 || !idle()) {
    if (Clock::now() > deadline) {
      return {Code::kDeadline, "the program could not be aborted within a second"};
    }
    std::this_thread::sleep_for(kAbortInterval);
  }
  return {};
}

std::string OwnRegisters::counters() const {
  if ((capabilities_ & own::kCapabilityCounters) == 0) return {};
  std::string text = std::to_string(registers_.read(own::kCycles)) + " cycles";
  for (const own::Counters& counters : own::kCounters) {
    text += ", " + std::string(counters.module) + " busy " +
            std::to_string(registers_.read(counters.busy)) + " waiting " +
            std::to_string(registers_.read(counters.stall));
  }
  return text;
}

}  // namespace edgepipe
