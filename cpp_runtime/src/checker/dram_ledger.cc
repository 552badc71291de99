#include "checker/dram_ledger.h"

#include <algorithm>

namespace edgepipe {

DramLedger::DramLedger(const Accelerator& accelerator)
    : cell_bytes_(std::min<std::size_t>({accelerator.inp_bytes(), accelerator.wgt_bytes(),
                                         accelerator.out_bytes(), kPageBytes})) {}

template <typename Visit>
std::optional<DramLedger::Conflict> DramLedger::for_each_cell(std::uint64_t address,
                                                              std::uint64_t bytes, Visit visit) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address / cell_bytes_ * cell_bytes_; at < end;) {
    std::vector<Cell>& page = pages_[at / kPageBytes];
    if (page.empty()) page.resize(kPageBytes / cell_bytes_);
    const std::uint64_t page_end = std::min(end, (at / kPageBytes + 1) * kPageBytes);
    for (; at < page_end; at += cell_bytes_) {
      const auto cell = static_cast<std::size_t>(at % kPageBytes) / cell_bytes_;
      if (std::optional<Conflict> conflict = visit(page[cell])) {
        conflict->address = at;
        return conflict;
      }
    }
  }
  return std::nullopt;
}

std::optional<DramLedger::Conflict> DramLedger::read(std::uint64_t address, std::uint64_t bytes,
                                                     const ScheduledInstruction& at, bool uop) {
  const auto module = static_cast<std::size_t>(at.module);
  const std::uint32_t stores_known = at.clock[static_cast<std::size_t>(Module::kStore)];
  return for_each_cell(address, bytes, [&](Cell& cell) -> std::optional<Conflict> {
    if (cell.written > stores_known || (uop && cell.written != 0)) {
      return Conflict{.other = Module::kStore, .sequence = cell.written, .uop = uop};
    }
    cell.read[module] = at.sequence + 1;
    if (uop) cell.uop_read = at.sequence + 1;
    return std::nullopt;
  });
}

std::optional<DramLedger::Conflict> DramLedger::write(std::uint64_t address, std::uint64_t bytes,
                                                      const ScheduledInstruction& at) {
  return for_each_cell(address, bytes, [&](Cell& cell) -> std::optional<Conflict> {
    if (cell.uop_read != 0) {
      return Conflict{.other = Module::kCompute, .sequence = cell.uop_read, .uop = true};
    }
    for (const Module reader : {Module::kLoad, Module::kCompute}) {
      const auto m = static_cast<std::size_t>(reader);
      if (cell.read[m] > at.clock[m]) return Conflict{.other = reader, .sequence = cell.read[m]};
    }
    cell.written = at.sequence + 1;
    return std::nullopt;
  });
}

}  // namespace edgepipe
