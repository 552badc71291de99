#include "axi_memory.h"

#include <algorithm>
#include <cstring>

namespace vta_rtl {
namespace {

constexpr std::uint8_t kOkay = 0;
constexpr std::uint8_t kDecodeError = 3;  // AMBA AXI, A3.4.4

enum Port : std::uint32_t { kFetch, kLoad, kWeight, kCompute, kStore };

std::uint32_t delay_of(const MemoryCosts& costs, std::uint32_t port) {
  switch (port) {
    case kLoad:
      return costs.load_delay_cycles;
    case kWeight:
      return costs.weight_delay_cycles;
    case kCompute:
      return costs.compute_delay_cycles;
    default:
      return 0;
  }
}

}  // namespace

AxiMemory::AxiMemory(Arena arena, const MemoryCosts& costs,
                     const std::array<ReadPort, kReadPorts>& reads, const WritePort& write)
    : arena_(arena), write_(write) {
  for (const ReadPort& port : reads) {
    const auto number = static_cast<std::uint32_t>(readers_.size());
    readers_.push_back({.port = port, .number = number, .waiting = {}});
  }
  set_costs(costs);
}

void AxiMemory::set_costs(const MemoryCosts& costs) {
  costs_ = costs;
  bursts_.fill(0);
  random_.seed(costs.seed + 1);
}

void AxiMemory::record_transfers(bool on) {
  records_ = on;
  transfers_.clear();
}

void AxiMemory::record(const Burst& burst, std::uint32_t port) {
  if (!records_) return;
  transfers_.push_back({.first_cycle = burst.first_cycle,
                        .last_cycle = cycle_,
                        .port = port,
                        .beats = burst.all_beats});
}

std::uint32_t AxiMemory::delay_of_next(std::uint32_t port) {
  const bool held = port == costs_.held_port && bursts_[port] == costs_.held_burst;
  ++bursts_[port];
  return delay_of(costs_, port) + (held ? costs_.held_cycles : 0);
}

bool AxiMemory::goes_on() {
  return costs_.stall_percent == 0 || random_() % 100 >= costs_.stall_percent;
}

bool AxiMemory::grants_a_beat() {
  if (credit_bytes_ < kBusBytes || !goes_on()) return false;
  credit_bytes_ -= kBusBytes;
  return true;
}

void AxiMemory::drive() {
  const bool refreshes = costs_.refresh_interval_cycles != 0 &&
                         cycle_ % costs_.refresh_interval_cycles < costs_.refresh_cycles;
  // What is not used in a cycle is lost, but for the part of a beat.
  const std::uint32_t most =
      std::max<std::uint32_t>(costs_.bytes_per_cycle, kBusBytes) + kBusBytes - 1;
  credit_bytes_ = refreshes ? 0 : std::min(credit_bytes_ + costs_.bytes_per_cycle, most);
  const std::size_t ports = readers_.size() + 1;
  for (std::size_t k = 0; k < ports; ++k) {
    const std::size_t port = (first_port_ + k) % ports;
    if (port < readers_.size()) {
      drive(readers_[port]);
    } else {
      drive_write();
    }
  }
  first_port_ = (first_port_ + 1) % ports;
}

void AxiMemory::drive(Reader& reader) {
  const ReadPort& port = reader.port;
  port.arready = static_cast<std::uint8_t>(reader.waiting.size() < kBurstsPerPort && goes_on());
  if (!reader.offered && !reader.waiting.empty() && reader.waiting.front().cycle <= cycle_ &&
      grants_a_beat()) {
    Burst& burst = reader.waiting.front();
    if (burst.beats == burst.all_beats) burst.first_cycle = cycle_;
    if (burst.beats == 1) record(burst, reader.number);
    const std::byte* const source = arena_.find(burst.address, kBusBytes);
    if (source != nullptr) {
      std::memcpy(port.rdata, source, kBusBytes);
    } else {
      std::memset(port.rdata, 0, kBusBytes);
    }
    port.rresp = source != nullptr ? kOkay : kDecodeError;
    port.rlast = static_cast<std::uint8_t>(burst.beats == 1);
    reader.offered = true;
  }
  port.rvalid = static_cast<std::uint8_t>(reader.offered);
}

void AxiMemory::drive_write() {
  write_.awready =
      static_cast<std::uint8_t>(asked_.size() + answered_.size() < kBurstsPerPort && goes_on());
  // A credit that is not used is given back in sample_write().
  write_.wready = static_cast<std::uint8_t>(!asked_.empty() && grants_a_beat());
  if (!answer_offered_ && !answered_.empty() && answered_.front().cycle <= cycle_ && goes_on()) {
    Burst& burst = answered_.front();
    burst.first_cycle = cycle_;
    record(burst, kStore);
    const std::size_t size = std::size_t{burst.beats} * kBusBytes;
    std::byte* const target = arena_.find(burst.address, size);
    const auto end = data_.begin() + static_cast<std::ptrdiff_t>(size);
    if (target != nullptr) std::copy(data_.begin(), end, target);
    data_.erase(data_.begin(), end);
    write_.bresp = target != nullptr ? kOkay : kDecodeError;
    answer_offered_ = true;
  }
  write_.bvalid = static_cast<std::uint8_t>(answer_offered_);
}

void AxiMemory::sample() {
  for (Reader& reader : readers_) sample(reader);
  sample_write();
  ++cycle_;
}

void AxiMemory::sample(Reader& reader) {
  const ReadPort& port = reader.port;
  if (reader.offered && port.rready != 0) {
    Burst& burst = reader.waiting.front();
    burst.address += kBusBytes;
    if (--burst.beats == 0) reader.waiting.pop_front();
    reader.offered = false;
    ++beats_;
  }
  if (port.arready != 0 && port.arvalid != 0) {
    reader.waiting.push_back(
        {.cycle = cycle_ + costs_.read_latency_cycles + delay_of_next(reader.number),
         .address = port.araddr,
         .beats = std::uint32_t{port.arlen} + 1});
  }
}

void AxiMemory::sample_write() {
  if (answer_offered_ && write_.bready != 0) {
    answered_.pop_front();
    answer_offered_ = false;
  }
  if (write_.wready != 0) {
    if (write_.wvalid != 0) {
      const auto* const beat = static_cast<const std::byte*>(write_.wdata);
      data_.insert(data_.end(), beat, beat + kBusBytes);
      ++beats_;
      if (write_.wlast != 0) {
        Burst burst = asked_.front();
        burst.cycle = cycle_ + costs_.write_latency_cycles + delay_of_next(kStore);
        asked_.pop_front();
        answered_.push_back(burst);
      }
    } else {
      credit_bytes_ += kBusBytes;
    }
  }
  if (write_.awready != 0 && write_.awvalid != 0) {
    asked_.push_back({.address = write_.awaddr, .beats = std::uint32_t{write_.awlen} + 1});
  }
}

}  // namespace vta_rtl
