#include "edgepipe/conformance/accelerator_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "edgepipe/instruction.h"

namespace edgepipe::conformance {
namespace {

constexpr std::size_t kMostBytes = 4096;  // of one program's copy
constexpr std::size_t kWeightsOffset = 4096;
constexpr std::size_t kInstructions = 7;

}  // namespace

Status TranslatedView::read(std::uint64_t address, std::span<std::byte> to) {
  const Result<std::byte*> source = memory_.translate(address, to.size());
  if (!source.ok()) return source.status();
  std::memcpy(to.data(), *source, to.size());
  return {};
}

Status TranslatedView::write(std::uint64_t address, std::span<const std::byte> from) {
  const Result<std::byte*> target = memory_.translate(address, from.size());
  if (!target.ok()) return target.status();
  std::memcpy(*target, from.data(), from.size());
  return {};
}

Result<std::unique_ptr<DeviceView>> DeviceView::create(Device& device) {
  const Accelerator& a = device.accelerator();
  if (a.block_in != a.block_out || a.inp_bytes() > 64) {
    return Status(Code::kUnsupported,
                  "a copying program needs square blocks and tiles of at most "
                  "64 bytes, found " +
                      a.configuration());
  }
  Result<Buffer> constants = device.memory().allocate(kWeightsOffset + a.wgt_bytes());
  if (!constants.ok()) return constants.status();
  Result<Buffer> program = device.memory().allocate(kInstructions * sizeof(InstructionWord));
  if (!program.ok()) return program.status();
  Result<Buffer> staging = device.memory().allocate(kMostBytes);
  if (!staging.ok()) return staging.status();
  const std::uint32_t uop = *InstructionCodec(a).encode_uop({});
  std::memcpy(constants->data(), &uop, sizeof uop);
  for (std::size_t n = 0; n < a.block_in; ++n) {
    constants->data()[kWeightsOffset + n * a.block_in + n] = std::byte{1};
  }
  device.memory().flush(constants->view());
  return std::unique_ptr<DeviceView>(
      new DeviceView(device, *std::move(constants), *std::move(program), *std::move(staging)));
}

DeviceView::DeviceView(Device& device, Buffer constants, Buffer program, Buffer staging)
    : device_(device),
      constants_(std::move(constants)),
      program_(std::move(program)),
      staging_(std::move(staging)) {}

Status DeviceView::read(std::uint64_t address, std::span<std::byte> to) {
  while (!to.empty()) {
    const std::size_t bytes = std::min(to.size(), kMostBytes);
    if (Status status = copy(address, staging_.device_address(), bytes); !status.ok()) {
      return status;
    }
    device_.memory().invalidate(staging_.view());
    std::memcpy(to.data(), staging_.data(), bytes);
    address += bytes;
    to = to.subspan(bytes);
  }
  return {};
}

Status DeviceView::write(std::uint64_t address, std::span<const std::byte> from) {
  while (!from.empty()) {
    const std::size_t bytes = std::min(from.size(), kMostBytes);
    std::memcpy(staging_.data(), from.data(), bytes);
    device_.memory().flush(staging_.view());
    if (Status status = copy(staging_.device_address(), address, bytes); !status.ok()) {
      return status;
    }
    address += bytes;
    from = from.subspan(bytes);
  }
  return {};
}

/// Multiplies each tile by weights that are 1 on the diagonal.
Status DeviceView::copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) {
  const Accelerator& a = device_.accelerator();
  const auto tiles = static_cast<std::uint32_t>(bytes / a.inp_bytes());
  const auto transfer = [&](Opcode opcode, MemoryType type, std::uint64_t address,
                            std::uint32_t count) {
    Instruction instruction{.opcode = opcode, .memory_type = type};
    instruction.dram_base = static_cast<std::uint32_t>(address / a.element_bytes(type));
    instruction.y_size = 1;
    instruction.x_size = instruction.x_stride = count;
    return instruction;
  };
  const std::uint64_t constants = constants_.device_address();
  Instruction input = transfer(Opcode::kLoad, MemoryType::kInp, from, tiles);
  input.push_next = 1;
  Instruction reset{.opcode = Opcode::kGemm, .uop_end = 1, .iter_out = 1, .iter_in = tiles};
  reset.reset = 1;
  reset.dst_factor_in = 1;
  Instruction gemm = reset;
  gemm.reset = 0;
  gemm.src_factor_in = 1;
  gemm.pop_prev = gemm.push_next = 1;
  Instruction store = transfer(Opcode::kStore, MemoryType::kOut, to, tiles);
  store.pop_prev = store.push_prev = 1;
  const std::array<Instruction, kInstructions> instructions{
      transfer(Opcode::kLoad, MemoryType::kUop, constants, 1),
      transfer(Opcode::kLoad, MemoryType::kWgt, constants + kWeightsOffset, 1),
      input,
      reset,
      gemm,
      store,
      Instruction{.opcode = Opcode::kFinish, .pop_next = 1}};
  const InstructionCodec codec(a);
  std::byte* word = program_.data();
  for (const Instruction& instruction : instructions) {
    const Result<InstructionWord> encoded = codec.encode(instruction);
    if (!encoded.ok()) return encoded.status();
    std::memcpy(word, &*encoded, sizeof *encoded);
    word += sizeof *encoded;
  }
  device_.memory().flush(program_.view());
  return device_.run({.address = program_.device_address(), .count = kInstructions});
}

}  // namespace edgepipe::conformance
