#include "simulator/sram.h"

#include <algorithm>
#include <cstring>

#include "simulator/alu.h"

namespace edgepipe {

Sram::Sram(const Accelerator& accelerator, const GemmKernel& kernel)
    : accelerator_(accelerator),
      codec_(accelerator),
      kernel_(kernel),
      uop_(accelerator.uop_depth()),
      inp_(accelerator.inp_depth() * kernel.inp_bytes),
      wgt_(accelerator.wgt_depth() * kernel.wgt_bytes),
      acc_(std::size_t{accelerator.acc_depth()} * accelerator.out_bytes()),
      out_(acc_.size()),
      inp_pad_(accelerator.inp_bytes()) {}

void Sram::load_uop(const Instruction& i, const std::byte* dram) {
  for (std::uint32_t n = 0; n < i.x_size; ++n) {
    std::uint32_t word = 0;
    std::memcpy(&word, dram + std::size_t{n} * sizeof(word), sizeof(word));
    uop_[i.sram_base + n] = codec_.decode_uop(word);
  }
}

void Sram::load_inp(const Instruction& i, const std::byte* dram) {
  std::ranges::fill(inp_pad_, static_cast<std::int8_t>(kPadUnit * i.pad_value));
  const std::uint32_t element_bytes = accelerator_.inp_bytes();
  const std::uint32_t width = i.x_pad_0 + i.x_size + i.x_pad_1;
  const std::uint32_t height = i.y_pad_0 + i.y_size + i.y_pad_1;
  std::byte* packed = inp_.data() + i.sram_base * kernel_.inp_bytes;
  for (std::uint32_t y = 0; y < height; ++y) {
    const bool inside = i.x_size != 0 && y >= i.y_pad_0 && y - i.y_pad_0 < i.y_size;
    const std::byte* row =
        dram + (inside ? std::size_t{y - i.y_pad_0} * i.x_stride * element_bytes : 0);
    for (std::uint32_t x = 0; x < width; ++x, packed += kernel_.inp_bytes) {
      const bool data = inside && x >= i.x_pad_0 && x - i.x_pad_0 < i.x_size;
      kernel_.pack_inp(accelerator_,
                       data ? reinterpret_cast<const std::int8_t*>(
                                  row + std::size_t{x - i.x_pad_0} * element_bytes)
                            : inp_pad_.data(),
                       packed);
    }
  }
}

void Sram::load_wgt(const Instruction& i, const std::byte* dram) {
  const std::uint32_t element_bytes = accelerator_.wgt_bytes();
  std::byte* packed = wgt_.data() + i.sram_base * kernel_.wgt_bytes;
  for (std::uint32_t y = 0; y < i.y_size; ++y) {
    const std::byte* row = dram + std::size_t{y} * i.x_stride * element_bytes;
    for (std::uint32_t x = 0; x < i.x_size; ++x, packed += kernel_.wgt_bytes) {
      kernel_.pack_wgt(accelerator_,
                       reinterpret_cast<const std::int8_t*>(row + std::size_t{x} * element_bytes),
                       packed);
    }
  }
}

void Sram::load_acc(const Instruction& i, const std::byte* dram) {
  const std::uint32_t lanes = accelerator_.out_bytes();
  std::int32_t* acc = acc_.data() + std::size_t{i.sram_base} * lanes;
  const std::size_t unit = accelerator_.element_bytes(i.memory_type);
  const auto pad = [&](std::uint32_t elements) {
    std::fill_n(acc, std::size_t{elements} * lanes, kPadUnit * i.pad_value);
    acc += std::size_t{elements} * lanes;
  };
  const std::uint32_t width = i.x_pad_0 + i.x_size + i.x_pad_1;
  pad(i.y_pad_0 * width);
  for (std::uint32_t y = 0; y < i.y_size; ++y) {
    pad(i.x_pad_0);
    const std::size_t bytes = std::size_t{i.x_size} * unit;
    const std::byte* row = bytes != 0 ? dram + std::size_t{y} * i.x_stride * unit : nullptr;
    if (bytes != 0 && i.memory_type == MemoryType::kAcc8) {
      std::copy_n(reinterpret_cast<const std::int8_t*>(row), bytes, acc);
    } else if (bytes != 0) {
      std::memcpy(acc, row, bytes);
    }
    acc += std::size_t{i.x_size} * lanes;
    pad(i.x_pad_1);
  }
  pad(i.y_pad_1 * width);
}

void Sram::load_table(const Instruction& i, const std::byte* dram) {
  const std::size_t unit = accelerator_.table_bytes();
  if (i.x_size != 0) std::memcpy(table_.data() + i.sram_base * unit, dram, i.x_size * unit);
}

void Sram::store_out(const Instruction& i, std::byte* dram) const {
  const std::size_t element_bytes = accelerator_.out_bytes();
  const std::int8_t* out = out_.data() + i.sram_base * element_bytes;
  const std::size_t row_bytes = i.x_size * element_bytes;
  for (std::uint32_t y = 0; y < i.y_size && row_bytes != 0; ++y, out += row_bytes) {
    std::memcpy(dram + std::size_t{y} * i.x_stride * element_bytes, out, row_bytes);
  }
}

void Sram::gemm(const Instruction& i, Iterations iterations) {
  kernel_.run({.accelerator = accelerator_,
               .instruction = i,
               .iterations = iterations,
               .uops = uops_of(i),
               .inp = inp_.data(),
               .wgt = wgt_.data(),
               .acc = acc_.data()});
}

void Sram::gemm_reset(const Instruction& i, Iterations iterations) {
  const std::size_t lanes = accelerator_.out_bytes();
  for_each_step(i, iterations, uops_of(i), [&](std::uint32_t dst, std::uint32_t, std::uint32_t) {
    std::fill_n(acc_.data() + dst * lanes, lanes, 0);
  });
}

void Sram::alu(const Instruction& i, Iterations iterations) {
  run_alu(i, iterations, uops_of(i), accelerator_, acc_.data());
}

void Sram::alu_and_clear(const Instruction& i, Iterations iterations) {
  const std::size_t lanes = accelerator_.out_bytes();
  Instruction step = i;
  step.uop_begin = 0;
  step.uop_end = step.iter_out = step.iter_in = 1;
  for_each_step(i, iterations, uops_of(i),
                [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
                  const Uop uop{.dst = dst, .src = src};
                  run_alu(step, all_iterations(step), &uop, accelerator_, acc_.data());
                  update_out(dst, i.alu_opcode == AluOp::kTable);
                  std::fill_n(acc_.data() + dst * lanes, lanes, 0);
                });
}

void Sram::update_out(const Instruction& i, Iterations iterations) {
  const bool looks_up = i.opcode == Opcode::kAlu && i.alu_opcode == AluOp::kTable;
  for_each_step(i, iterations, uops_of(i), [&](std::uint32_t dst, std::uint32_t, std::uint32_t) {
    update_out(dst, looks_up);
  });
}

void Sram::update_out(std::uint32_t entry, bool looks_up) {
  const std::size_t lanes = accelerator_.out_bytes();
  const std::int32_t* acc = acc_.data() + entry * lanes;
  std::int8_t* out = out_.data() + entry * lanes;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    out[lane] = looks_up ? table_[static_cast<std::uint8_t>(acc[lane])]
                         : static_cast<std::int8_t>(acc[lane]);
  }
}

}  // namespace edgepipe
