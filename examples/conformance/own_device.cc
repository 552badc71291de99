#include "own_device.h"

#include <algorithm>
#include <cstring>
#include <string>

using edgepipe::AluOp;
using edgepipe::Clock;
using edgepipe::Code;
using edgepipe::Instruction;
using edgepipe::InstructionWord;
using edgepipe::MemoryType;
using edgepipe::Opcode;
using edgepipe::Result;
using edgepipe::Status;
using edgepipe::Submission;
using edgepipe::Turns;
using edgepipe::Uop;

OwnDevice::OwnDevice(const edgepipe::Accelerator& accelerator, edgepipe::DeviceMemory& memory)
    : accelerator_(accelerator), codec_(accelerator), memory_(memory) {
  for (const MemoryType type :
       {MemoryType::kUop, MemoryType::kWgt, MemoryType::kInp, MemoryType::kAcc}) {
    sram_[static_cast<std::size_t>(type)].resize(std::size_t{accelerator.depth(type)} *
                                                 accelerator.element_bytes(type));
  }
}

Status OwnDevice::run_checked(const Submission& submission) {
  const Result<Turns::Turn> turn = turns_.take(submission.turn_deadline);
  if (!turn.ok()) return turn.status();
  const Clock::time_point begin = Clock::now();
  const Result<std::byte*> words = memory_.translate(
      submission.address, std::size_t{submission.count} * sizeof(InstructionWord));
  if (!words.ok()) return words.status().with_context("own device: instructions");
  for (std::uint32_t n = 0; n < submission.count; ++n) {
    if (Clock::now() - begin > submission.time_limit) {
      return {Code::kDeadline, "own device: time is up before instruction " + std::to_string(n)};
    }
    InstructionWord word;
    std::memcpy(&word, *words + n * sizeof word, sizeof word);
    const Result<Instruction> instruction = codec_.decode(word);
    if (!instruction.ok()) return instruction.status().with_context("own device");
    if (instruction->opcode == Opcode::kFinish) {
      if (submission.ran != nullptr) *submission.ran += Clock::now() - begin;
      return {};
    }
    if (Status status = execute(*instruction); !status.ok()) {
      return status.with_context("own device: " + disassemble(*instruction));
    }
  }
  return {Code::kDevice, "own device: the program has no FINISH"};
}

Status OwnDevice::execute(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kLoad:
      return load(instruction);
    case Opcode::kStore:
      return store(instruction);
    case Opcode::kGemm:
      gemm(instruction);
      break;
    case Opcode::kAlu:
      alu(instruction);
      break;
    case Opcode::kFinish:
      break;
  }
  return {};
}

Status OwnDevice::load(const Instruction& i) {
  const std::size_t bytes = accelerator_.element_bytes(i.memory_type);
  std::size_t target = i.sram_base;
  const auto zeros = [&](std::size_t elements) {
    std::memset(element(i.memory_type, target), 0, elements * bytes);
    target += elements;
  };
  const std::size_t width = i.x_pad_0 + i.x_size + i.x_pad_1;
  zeros(i.y_pad_0 * width);
  for (std::uint32_t row = 0; row < i.y_size; ++row) {
    zeros(i.x_pad_0);
    const Result<std::byte*> source = memory_.translate(
        (std::uint64_t{i.dram_base} + std::uint64_t{row} * i.x_stride) * bytes, i.x_size * bytes);
    if (!source.ok()) return source.status();
    std::memcpy(element(i.memory_type, target), *source, i.x_size * bytes);
    target += i.x_size;
    zeros(i.x_pad_1);
  }
  zeros(i.y_pad_1 * width);
  return {};
}

Status OwnDevice::store(const Instruction& i) {
  const std::size_t lanes = accelerator_.out_bytes();
  for (std::uint32_t row = 0; row < i.y_size; ++row) {
    const Result<std::byte*> target = memory_.translate(
        (std::uint64_t{i.dram_base} + std::uint64_t{row} * i.x_stride) * lanes, i.x_size * lanes);
    if (!target.ok()) return target.status();
    const auto* source = reinterpret_cast<const std::int32_t*>(
        element(MemoryType::kAcc, i.sram_base + std::size_t{row} * i.x_size));
    for (std::size_t n = 0; n < i.x_size * lanes; ++n) {
      (*target)[n] = static_cast<std::byte>(source[n]);  // its low byte
    }
  }
  return {};
}

void OwnDevice::gemm(const Instruction& i) {
  loop(i, [&](std::size_t dst, std::size_t src, std::size_t wgt) {
    auto* const acc = reinterpret_cast<std::int32_t*>(element(MemoryType::kAcc, dst));
    if (i.reset != 0) {
      std::fill_n(acc, accelerator_.out_bytes(), 0);
      return;
    }
    const auto* const x = reinterpret_cast<const std::int8_t*>(element(MemoryType::kInp, src));
    const auto* const w = reinterpret_cast<const std::int8_t*>(element(MemoryType::kWgt, wgt));
    for (std::size_t lane = 0; lane < accelerator_.out_bytes(); ++lane) {
      const std::size_t row = lane / accelerator_.block_out * accelerator_.block_in;
      const std::size_t column = lane % accelerator_.block_out * accelerator_.block_in;
      for (std::size_t k = 0; k < accelerator_.block_in; ++k) {
        acc[lane] += x[row + k] * w[column + k];
      }
    }
  });
}

void OwnDevice::alu(const Instruction& i) {
  loop(i, [&](std::size_t dst, std::size_t src, std::size_t) {
    auto* const x = reinterpret_cast<std::int32_t*>(element(MemoryType::kAcc, dst));
    const auto* const y = reinterpret_cast<const std::int32_t*>(element(MemoryType::kAcc, src));
    for (std::size_t lane = 0; lane < accelerator_.out_bytes(); ++lane) {
      const std::int32_t operand = i.use_imm != 0 ? i.imm : y[lane];
      switch (i.alu_opcode) {
        case AluOp::kMin:
          x[lane] = std::min(x[lane], operand);
          break;
        case AluOp::kMax:
          x[lane] = std::max(x[lane], operand);
          break;
        case AluOp::kAdd:
          x[lane] += operand;
          break;
        case AluOp::kShr:
          x[lane] = operand >= 0 ? x[lane] >> operand : x[lane] << -operand;
          break;
        case AluOp::kRequantise:  // the codec refuses extensions that the accelerator lacks
        case AluOp::kMultiply:
        case AluOp::kTable:
        case AluOp::kLeaky:
          break;
      }
    }
  });
}

template <typename Step>
void OwnDevice::loop(const Instruction& i, const Step& step) {
  for (std::uint32_t out = 0; out < i.iter_out; ++out) {
    for (std::uint32_t in = 0; in < i.iter_in; ++in) {
      for (std::uint32_t n = i.uop_begin; n < i.uop_end; ++n) {
        std::uint32_t word = 0;
        std::memcpy(&word, element(MemoryType::kUop, n), sizeof word);
        const Uop uop = codec_.decode_uop(word);
        step(uop.dst + out * i.dst_factor_out + in * i.dst_factor_in,
             uop.src + out * i.src_factor_out + in * i.src_factor_in,
             uop.wgt + out * i.wgt_factor_out + in * i.wgt_factor_in);
      }
    }
  }
}

std::byte* OwnDevice::element(MemoryType type, std::size_t index) {
  return sram_[static_cast<std::size_t>(type)].data() + index * accelerator_.element_bytes(type);
}
