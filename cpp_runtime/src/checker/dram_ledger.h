// DramLedger: records the last instruction that accessed each part of device memory, to find
// accesses that no token orders and uops that the program itself overwrites.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "checker/module_schedule.h"
#include "edgepipe/accelerator.h"

namespace edgepipe {

class DramLedger {
 public:
  /// Two unordered accesses, of which at least one is a store.
  struct Conflict {
    std::uint64_t address = 0;
    Module other = Module::kLoad;  // the module of the earlier access
    std::uint32_t sequence = 0;    // its number in that module, from 1
    bool uop = false;  // one of the two is a uop load, which may not overlap with stores at all
  };

  explicit DramLedger(const Accelerator& accelerator);

  /// A LOAD of `bytes` at `address`.
  std::optional<Conflict> read(std::uint64_t address, std::uint64_t bytes,
                               const ScheduledInstruction& at, bool uop);

  /// A STORE of `bytes` at `address`.
  std::optional<Conflict> write(std::uint64_t address, std::uint64_t bytes,
                                const ScheduledInstruction& at);

 private:
  static constexpr std::size_t kPageBytes = 4096;

  // 1 + sequence number of the last access of each kind; 0: none.
  struct Cell {
    std::uint32_t written = 0;
    std::array<std::uint32_t, 2> read{};  // by load, by compute
    std::uint32_t uop_read = 0;
  };

  template <typename Visit>
  std::optional<Conflict> for_each_cell(std::uint64_t address, std::uint64_t bytes, Visit visit);

  // The smallest element that a STORE or a tile LOAD moves; all addresses but uops' are multiples.
  const std::size_t cell_bytes_;
  std::unordered_map<std::uint64_t, std::vector<Cell>> pages_;
};

}  // namespace edgepipe
