// MemoryPort: the port to DRAM that fetch, load, compute and store share, by the timing model.
//
//   std::unique_ptr<MemoryPort> port = make_memory_port(cost);
//   port->start(user, 100, {.rows = 1, .row_bytes = 64, .row_cycles = 80});
//   std::optional<Burst> burst = port->serve();  // begins at cycle 180
//
// A user starts a transfer: rows of bytes, each of which comes after a latency. The port moves it
// in bursts, one for each call. Its counterpart is vta_stages/timing/port.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "emulation/cost_model.h"

namespace edgepipe {

/// Rows of bytes: `row_cycles` pass from the request of a row to its first bytes.
struct Transfer {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t row_cycles = 0;
  bool weights = false;
  bool writes = false;
};

/// A burst, whose bytes move from cycle `begin` to cycle `end`; `last` says that its transfer ends.
struct Burst {
  std::size_t user = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes = 0;
  bool last = false;
};

/// Moves the bursts of all users, each of which has at most one transfer at a time.
class MemoryPort {
 public:
  MemoryPort() = default;
  MemoryPort(const MemoryPort&) = delete;
  MemoryPort& operator=(const MemoryPort&) = delete;
  virtual ~MemoryPort() = default;

  /// Starts a transfer at cycle `at`, which is not before the burst that was served last.
  virtual void start(std::size_t user, std::int64_t at, const Transfer& transfer) = 0;

  /// Moves the burst that is next; none if no transfer is left.
  virtual std::optional<Burst> serve() = 0;
};

/// A port at rest that works as `cost` says.
std::unique_ptr<MemoryPort> make_memory_port(const CostModel& cost);

}  // namespace edgepipe
