#include "emulation/memory_port.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace edgepipe {
namespace {

/// What is left of a transfer.
struct Progress {
  Transfer transfer;
  std::int64_t rows_left = 0;
  std::int64_t bytes_left = 0;

  struct Part {
    std::int64_t bytes = 0;
    bool row_ends = false;
    bool last = false;
  };

  /// Takes the next burst, of at most that many bytes.
  Part take(std::int64_t most_bytes) {
    Part part{.bytes = std::min(bytes_left, most_bytes)};
    bytes_left -= part.bytes;
    part.row_ends = bytes_left == 0;
    part.last = part.row_ends && rows_left == 0;
    if (part.row_ends && !part.last) {
      --rows_left;
      bytes_left = transfer.row_bytes;
    }
    return part;
  }
};

Progress begun(const Transfer& transfer) {
  return {.transfer = transfer, .rows_left = transfer.rows - 1, .bytes_left = transfer.row_bytes};
}

/// Moves one burst at a time, in the order in which their bytes are there. The next row of a
/// transfer is requested when the one before it has ended.
class SerialPort final : public MemoryPort {
 public:
  explicit SerialPort(const CostModel& cost) : cost_(cost) {}

  void start(std::size_t user, std::int64_t at, const Transfer& transfer) override {
    transfers_[user] = begun(transfer);
    ready_.emplace(at + transfer.row_cycles, user);
  }

  std::optional<Burst> serve() override {
    if (ready_.empty()) return std::nullopt;
    const auto [ready, user] = ready_.top();
    ready_.pop();
    Progress& progress = transfers_[user];
    const Transfer transfer = progress.transfer;
    const auto [bytes, row_ends, last] = progress.take(cost_.burst_bytes);
    const std::int64_t begin = std::max(ready, free_);
    free_ = begin + cost_.port_cycles(bytes, transfer.weights);
    if (!last) ready_.emplace(free_ + (row_ends ? transfer.row_cycles : 0), user);
    return Burst{.user = user, .begin = begin, .end = free_, .bytes = bytes, .last = last};
  }

  /// When the bytes of the next burst are there.
  [[nodiscard]] std::optional<std::int64_t> next_ready() const {
    if (ready_.empty()) return std::nullopt;
    return ready_.top().first;
  }

 private:
  using Ready = std::pair<std::int64_t, std::size_t>;  // time and user; the earliest is served

  const CostModel cost_;
  std::map<std::size_t, Progress> transfers_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  std::int64_t free_ = 0;
};

/// Takes `reads_in_flight` read requests before the bytes of the first are there: one a cycle, of
/// several the one of the lowest user. The bytes come in the order of the requests. Writes have a
/// channel of their own, as in AXI.
class PipelinedPort final : public MemoryPort {
 public:
  explicit PipelinedPort(const CostModel& cost) : cost_(cost), writes_(cost) {}

  void start(std::size_t user, std::int64_t at, const Transfer& transfer) override {
    if (transfer.writes) {
      writes_.start(user, at, transfer);
      return;
    }
    transfers_[user] = begun(transfer);
    asked_[user] = at;
  }

  std::optional<Burst> serve() override {
    if (asked_.empty()) return writes_.serve();
    const auto earliest = std::ranges::min_element(
        asked_, [](const auto& one, const auto& other) { return one.second < other.second; });
    std::int64_t taken = std::max(earliest->second, taken_ + 1);
    if (ends_.size() == static_cast<std::size_t>(cost_.reads_in_flight)) {
      taken = std::max(taken, ends_.front());
    }
    const std::optional<std::int64_t> written = writes_.next_ready();
    if (written && *written <= taken) return writes_.serve();
    const auto next = std::ranges::find_if(  // in the order of users
        asked_, [&](const auto& request) { return request.second <= taken; });
    return read(next->first, taken);
  }

 private:
  /// Moves the burst of a read whose request is taken at that cycle.
  Burst read(std::size_t user, std::int64_t taken) {
    Progress& progress = transfers_[user];
    const Transfer transfer = progress.transfer;
    const std::int64_t before = transfer.row_bytes - progress.bytes_left;
    const auto [bytes, row_ends, last] = progress.take(cost_.burst_bytes);
    std::int64_t begin = taken + transfer.row_cycles;
    if (!ends_.empty()) begin = std::max(begin, ends_.back());
    // The cycles of a row are rounded up once, not those of each request.
    const std::int64_t end = begin + cost_.port_cycles(before + bytes, transfer.weights) -
                             cost_.port_cycles(before, transfer.weights);
    if (ends_.size() == static_cast<std::size_t>(cost_.reads_in_flight)) ends_.pop_front();
    ends_.push_back(end);
    taken_ = taken;
    if (last) {
      asked_.erase(user);
    } else {
      asked_[user] = taken + 1;
    }
    return {.user = user, .begin = begin, .end = end, .bytes = bytes, .last = last};
  }

  const CostModel cost_;
  SerialPort writes_;
  std::map<std::size_t, Progress> transfers_;
  std::map<std::size_t, std::int64_t> asked_;  // by user: since when a request waits
  std::int64_t taken_ = -1;
  std::deque<std::int64_t> ends_;  // of the last reads, as many as can be in flight
};

}  // namespace

std::unique_ptr<MemoryPort> make_memory_port(const CostModel& cost) {
  if (cost.reads_in_flight != 0) return std::make_unique<PipelinedPort>(cost);
  return std::make_unique<SerialPort>(cost);
}

}  // namespace edgepipe
