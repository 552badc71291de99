// AxiMemory: DRAM behind the accelerator's AXI ports, for a model that Verilator has made.
//
//   AxiMemory memory(arena, {.read_latency_cycles = 50, ...}, read_ports, write_port);
//   memory.drive();    // what the ports answer in this cycle
//   model.eval();      // with the clock low
//   memory.sample();   // what the accelerator takes and asks for in this cycle
//
// All ports share one memory: its bytes per cycle, its refreshes. Each port has one beat a cycle at
// most, and answers in order. Data of a write reach memory when its answer leaves, as late as AXI
// allows: a program that reads them earlier finds the old ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "configuration.h"

namespace vta_rtl {

/// What the memory costs. All values count cycles of the accelerator's clock.
struct MemoryCosts {
  std::uint32_t read_latency_cycles;      // from a burst's address to its first beat
  std::uint32_t write_latency_cycles;     // from a burst's last beat to its answer
  std::uint32_t bytes_per_cycle;          // of all ports together
  std::uint32_t refresh_interval_cycles;  // 0: no refreshes
  std::uint32_t refresh_cycles;           // of each, without any transfer
  std::uint32_t stall_percent;            // of cycles in which a channel pauses, at random
  std::uint32_t seed;
  std::uint32_t load_delay_cycles;     // of each burst of inputs that load reads, in addition
  std::uint32_t weight_delay_cycles;   // the same for its weights
  std::uint32_t compute_delay_cycles;  // and for compute
  std::uint32_t held_port;             // of this port, numbered as in Transfer,
  std::uint32_t held_burst;            // this one of all bursts since the costs were set, from 0,
  std::uint32_t held_cycles;           // takes so much longer, and those behind it wait
};

/// A burst of one of the ports fetch, load, weight, compute and store, in this order.
struct Transfer {
  std::uint64_t first_cycle;  // in which memory was read or written
  std::uint64_t last_cycle;
  std::uint32_t port;
  std::uint32_t beats;
};

/// The signals of a port that the accelerator reads from. Borrowed.
struct ReadPort {
  const std::uint8_t& arvalid;
  const std::uint32_t& araddr;
  const std::uint8_t& arlen;
  std::uint8_t& arready;
  std::uint8_t& rvalid;
  void* rdata;  // kBusBytes
  std::uint8_t& rresp;
  std::uint8_t& rlast;
  const std::uint8_t& rready;
};

/// The signals of a port that the accelerator writes to. Borrowed.
struct WritePort {
  const std::uint8_t& awvalid;
  const std::uint32_t& awaddr;
  const std::uint8_t& awlen;
  std::uint8_t& awready;
  const std::uint8_t& wvalid;
  const void* wdata;  // kBusBytes
  const std::uint8_t& wlast;
  std::uint8_t& wready;
  std::uint8_t& bvalid;
  std::uint8_t& bresp;
  const std::uint8_t& bready;
};

/// Bytes of physical memory from `first` on.
struct Arena {
  std::uint64_t first;
  std::span<std::byte> bytes;

  /// Null unless all of [address, address + size) is inside.
  [[nodiscard]] std::byte* find(std::uint64_t address, std::size_t size) const {
    if (address < first || address - first > bytes.size()) return nullptr;
    const std::uint64_t offset = address - first;
    return size <= bytes.size() - offset ? bytes.data() + offset : nullptr;
  }
};

class AxiMemory {
 public:
  static constexpr std::size_t kReadPorts = 4;
  static constexpr std::size_t kBurstsPerPort = 8;  // accepted and not yet answered

  AxiMemory(Arena arena, const MemoryCosts& costs, const std::array<ReadPort, kReadPorts>& reads,
            const WritePort& write);

  /// Sets the memory's side of all channels for the coming cycle.
  void drive();
  /// Looks at the accelerator's side of them.
  void sample();

  /// Beats that were moved so far; a hung accelerator moves none.
  [[nodiscard]] std::uint64_t beats() const { return beats_; }

  /// The costs from now on. All ports must be idle.
  void set_costs(const MemoryCosts& costs);

  /// Forgets the transfers that were recorded, and records those to come if `on`.
  void record_transfers(bool on);
  [[nodiscard]] std::span<const Transfer> transfers() const { return transfers_; }

 private:
  struct Burst {
    std::uint64_t cycle = 0;  // from which its first beat, or its answer, may leave
    std::uint64_t address = 0;
    std::uint32_t beats = 0;  // left
    std::uint32_t all_beats = beats;
    std::uint64_t first_cycle = 0;  // of its beats
  };
  struct Reader {
    ReadPort port;
    std::uint32_t number;
    std::deque<Burst> waiting;
    bool offered = false;  // a beat, which stays until it is taken
  };

  [[nodiscard]] std::uint32_t delay_of_next(std::uint32_t port);
  [[nodiscard]] bool goes_on();
  [[nodiscard]] bool grants_a_beat();
  void drive(Reader& reader);
  void drive_write();
  void sample(Reader& reader);
  void sample_write();
  void record(const Burst& burst, std::uint32_t port);

  const Arena arena_;
  MemoryCosts costs_{};
  std::vector<Reader> readers_;
  WritePort write_;
  std::deque<Burst> asked_;     // writes whose data are to come
  std::deque<Burst> answered_;  // writes whose answer is to leave
  std::deque<std::byte> data_;  // of the writes that are not in memory yet
  bool answer_offered_ = false;
  std::array<std::uint32_t, kReadPorts + 1> bursts_{};  // of each port, since the costs were set
  std::minstd_rand random_;
  std::uint64_t cycle_ = 0;
  std::uint64_t beats_ = 0;
  std::uint32_t credit_bytes_ = 0;
  bool records_ = false;
  std::vector<Transfer> transfers_;
  std::size_t first_port_ = 0;  // that may transfer first in this cycle
};

}  // namespace vta_rtl
