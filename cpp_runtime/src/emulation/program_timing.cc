#include "emulation/program_timing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "emulation/memory_port.h"

namespace edgepipe {
namespace {

constexpr std::size_t kRemembered = 256;  // more stages than a bundle has
constexpr std::int64_t kInstructionBytes = sizeof(InstructionWord);
constexpr std::size_t kFetch = kModules;  // the number of the fetch unit among the port's users

/// The work of an instruction by itself. Only transfers have rows.
struct Work {
  Module module = Module::kCompute;
  Instruction tokens;  // of which only the token flags are used
  std::int64_t cycles = 0;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t row_cycles = 0;
  bool loads_weights = false;
};

Work work_of(const Accelerator& accelerator, const CostModel& cost, const Instruction& i) {
  Work work{.module = module_of(i), .tokens = i, .cycles = cost.instruction_cycles};
  work.row_cycles = cost.dma_row_cycles;
  const std::int64_t loops = std::int64_t{i.iter_out} * i.iter_in;
  const std::int64_t steps = loops * (std::int64_t{i.uop_end} - i.uop_begin);
  switch (i.opcode) {
    case Opcode::kLoad: {
      const bool weights = i.memory_type == MemoryType::kWgt;
      work.rows = loads_one_row(i.memory_type) ? 1 : i.y_size;
      work.row_bytes = std::int64_t{i.x_size} * accelerator.element_bytes(i.memory_type);
      work.loads_weights = weights;
      if (weights || i.memory_type == MemoryType::kInp) work.cycles += cost.tensor_load_cycles;
      break;
    }
    case Opcode::kStore:
      work.rows = i.y_size;
      work.row_bytes = std::int64_t{i.x_size} * accelerator.out_bytes();
      work.row_cycles = cost.store_row_latency(work.row_bytes);
      break;
    case Opcode::kGemm:
      work.cycles += loops * cost.loop_cycles + steps * cost.gemm_step_cycles;
      break;
    case Opcode::kAlu:
      work.cycles += loops * cost.loop_cycles + steps * cost.alu_cycles(i.use_imm == 0);
      break;
    case Opcode::kFinish:
      break;
  }
  return work;
}

using Time = std::optional<std::int64_t>;  // in cycles; none: not known yet

/// A bounded queue as the times of its pushes and pops; push n waits for pop n - depth.
struct Queue {
  std::size_t depth = 0;
  std::vector<std::int64_t> pushed = {};
  std::vector<std::int64_t> popped = {};

  /// The time from which there is room for the next push.
  [[nodiscard]] Time room() const {
    if (pushed.size() < depth) return 0;
    const std::size_t over = pushed.size() - depth;
    return over < popped.size() ? Time(popped[over]) : std::nullopt;
  }

  /// The time at which the next entry to pop was pushed.
  [[nodiscard]] Time filled() const {
    return popped.size() < pushed.size() ? Time(pushed[popped.size()]) : std::nullopt;
  }
};

/// A module, which is processing instruction `queue[at]`.
struct Unit {
  std::vector<std::size_t> queue = {};
  Queue commands = {};
  std::size_t at = 0;
  std::int64_t free = 0;
  bool transferring = false;
  Time ending = {};

  [[nodiscard]] bool is_done() const { return at == queue.size(); }
};

/// Processes the events of a program in order of time. Use it once.
class Machine {
 public:
  Machine(const Accelerator& accelerator, const CostModel& cost, std::vector<Work> program)
      : cost_(cost), program_(std::move(program)), port_(make_memory_port(cost)) {
    for (std::size_t m = 0; m < kModules; ++m) {
      units_[m].commands.depth = static_cast<Module>(m) == Module::kLoad
                                     ? accelerator.load_commands()
                                     : accelerator.command_queue_depth;
      for (Queue& queue : tokens_[m]) queue.depth = accelerator.token_queue_depth;
    }
    for (std::size_t index = 0; index < program_.size(); ++index) {
      units_[number(program_[index].module)].queue.push_back(index);
    }
  }

  /// The end of the last instruction; none if some never end.
  Time run() {
    fetch();
    for (;;) {
      // No later request is earlier than the burst that was served last.
      for (bool moved = true; moved;) {
        moved = push_fetched();
        for (std::size_t m = 0; m < kModules; ++m) moved |= advance(m);
      }
      const std::optional<Burst> burst = port_->serve();
      if (!burst) break;
      take(*burst);
    }
    const bool done = std::ranges::all_of(units_, &Unit::is_done);
    return done ? Time(last_end_) : std::nullopt;
  }

 private:
  static std::size_t number(Module module) { return static_cast<std::size_t>(module); }

  /// Takes a burst that the port has moved.
  void take(const Burst& burst) {
    if (burst.user == kFetch) {
      arrivals_.clear();
      for (std::int64_t done = kInstructionBytes; done <= burst.bytes; done += kInstructionBytes) {
        arrivals_.push_back(burst.begin + cost_.port_cycles(done, false));
      }
      return;
    }
    if (!burst.last) return;
    Unit& unit = units_[burst.user];
    unit.transferring = false;
    unit.ending = burst.end;
  }

  /// Requests the next burst of instructions.
  void fetch() {
    const std::size_t left = program_.size() - requested_;
    if (left == 0) return;
    const auto most = static_cast<std::size_t>(cost_.burst_bytes / kInstructionBytes);
    const std::size_t count = std::min(left, most);
    requested_ += count;
    port_->start(kFetch, fetch_free_,
                 {.rows = 1,
                  .row_bytes = static_cast<std::int64_t>(count) * kInstructionBytes,
                  .row_cycles = cost_.dma_row_cycles});
  }

  /// Pushes instructions that have arrived while there is room; whether any was pushed.
  bool push_fetched() {
    if (arrivals_.empty()) return false;
    const std::size_t first = fetched_;
    for (std::size_t n = first - (requested_ - arrivals_.size()); n < arrivals_.size(); ++n) {
      Queue& commands = units_[number(program_[fetched_].module)].commands;
      const Time room = commands.room();
      if (!room) return fetched_ > first;
      fetch_free_ = std::max({fetch_free_, arrivals_[n], *room});
      commands.pushed.push_back(fetch_free_);
      ++fetched_;
    }
    arrivals_.clear();
    fetch();
    return fetched_ > first;
  }

  /// Runs a module until it waits or uses the port; whether it made progress.
  bool advance(std::size_t module) {
    Unit& unit = units_[module];
    bool moved = false;
    while (!unit.transferring && !unit.is_done()) {
      if (!(unit.ending ? finish(module) : begin(module))) return moved;
      moved = true;
    }
    return moved;
  }

  bool begin(std::size_t module) {
    Unit& unit = units_[module];
    const Work& work = program_[unit.queue[unit.at]];
    bool took = false;
    if (unit.at == unit.commands.popped.size()) {
      const Time fetched = unit.commands.filled();
      if (!fetched) return false;
      unit.commands.popped.push_back(std::max(unit.free, *fetched));
      took = true;
    }
    std::int64_t at = unit.commands.popped[unit.at];
    const std::array pops = {work.tokens.pop_prev != 0 ? &tokens_[module - 1][module] : nullptr,
                             work.tokens.pop_next != 0 ? &tokens_[module + 1][module] : nullptr};
    for (const Queue* queue : pops) {
      if (queue == nullptr) continue;
      const Time pushed = queue->filled();
      // Taking an instruction made room in its queue, even if it has to wait now.
      if (!pushed) return took;
      at = std::max(at, *pushed);
    }
    for (Queue* queue : pops) {
      if (queue != nullptr) queue->popped.push_back(at);
    }
    if (work.rows != 0) {
      unit.transferring = true;
      port_->start(module, at + work.cycles,
                   {.rows = work.rows,
                    .row_bytes = work.row_bytes,
                    .row_cycles = work.row_cycles,
                    .weights = work.loads_weights,
                    .writes = work.module == Module::kStore});
    } else {
      unit.ending = at + work.cycles;
    }
    return true;
  }

  bool finish(std::size_t module) {
    Unit& unit = units_[module];
    const Work& work = program_[unit.queue[unit.at]];
    std::int64_t end = *unit.ending;
    const std::array pushes = {work.tokens.push_prev != 0 ? &tokens_[module][module - 1] : nullptr,
                               work.tokens.push_next != 0 ? &tokens_[module][module + 1] : nullptr};
    for (const Queue* queue : pushes) {
      if (queue == nullptr) continue;
      const Time room = queue->room();
      if (!room) return false;
      end = std::max(end, *room);
    }
    for (Queue* queue : pushes) {
      if (queue != nullptr) queue->pushed.push_back(end);
    }
    last_end_ = std::max(last_end_, end);
    unit.free = end;
    unit.ending.reset();
    ++unit.at;
    return true;
  }

  const CostModel cost_;
  const std::vector<Work> program_;
  const std::unique_ptr<MemoryPort> port_;
  std::array<Unit, kModules> units_;
  std::array<std::array<Queue, kModules>, kModules> tokens_;  // [from][to]
  std::int64_t last_end_ = 0;
  // The fetch unit: instructions requested, arrivals of those not yet pushed, its clock.
  std::size_t requested_ = 0;
  std::size_t fetched_ = 0;
  std::int64_t fetch_free_ = 0;
  std::vector<std::int64_t> arrivals_;
};

Status refused(std::size_t index, const std::string& text) {
  return {Code::kDevice, "instruction " + std::to_string(index) + ": " + text};
}

bool has_neighbours(const Instruction& i) {
  switch (module_of(i)) {
    case Module::kLoad:
      return i.pop_prev == 0 && i.push_prev == 0;
    case Module::kCompute:
      return true;
    case Module::kStore:
      break;
  }
  return i.pop_next == 0 && i.push_next == 0;
}

}  // namespace

Result<std::uint64_t> program_cycles(const Accelerator& accelerator, const CostModel& cost,
                                     std::span<const InstructionWord> program) {
  const InstructionCodec codec(accelerator);
  std::vector<Work> works;
  works.reserve(program.size());
  for (const InstructionWord& word : program) {
    const Result<Instruction> instruction = codec.decode(word);
    if (!instruction.ok()) return refused(works.size(), instruction.status().message());
    if (!has_neighbours(*instruction)) {
      return refused(works.size(), "its module has no neighbour for its tokens");
    }
    works.push_back(work_of(accelerator, cost, *instruction));
  }
  const Time end = Machine(accelerator, cost, std::move(works)).run();
  if (!end) return Status(Code::kDevice, "the program never ends: a module waits for a token");
  return static_cast<std::uint64_t>(*end);
}

Result<std::chrono::nanoseconds> ProgramTimes::of(std::span<const InstructionWord> program) {
  for (const Known& known : known_) {
    if (known.program.size() == program.size() &&
        std::memcmp(known.program.data(), program.data(), program.size_bytes()) == 0) {
      return known.time;
    }
  }
  const Result<std::uint64_t> cycles = program_cycles(accelerator_, cost_, program);
  if (!cycles.ok()) return cycles.status();
  const double seconds = static_cast<double>(*cycles) / static_cast<double>(accelerator_.clock_hz);
  Known known{
      .program = {program.begin(), program.end()},
      .time = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds))};
  const std::chrono::nanoseconds time = known.time;
  if (known_.size() < kRemembered) {
    known_.push_back(std::move(known));
  } else {
    known_[oldest_] = std::move(known);
    oldest_ = (oldest_ + 1) % kRemembered;
  }
  return time;
}

}  // namespace edgepipe
