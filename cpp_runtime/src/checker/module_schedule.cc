#include "checker/module_schedule.h"

#include <algorithm>
#include <deque>
#include <string>

namespace edgepipe {
namespace {

// A token carries its sender's clock at the time of the push.
using TokenQueue = std::deque<ModuleClock>;

// A module processes its head instruction in these steps and may wait at each of them except kRun.
enum class Step { kPopPrev, kPopNext, kRun, kPushPrev, kPushNext };

struct ModuleState {
  std::deque<std::uint32_t> commands;  // the head stays here until it is complete
  Step step = Step::kPopPrev;
  std::uint32_t sequence = 0;
  ModuleClock clock{};
};

class Machine {
 public:
  Machine(const Accelerator& accelerator, std::span<const Instruction> program,
          const std::function<Status(const ScheduledInstruction&)>& visit)
      : accelerator_(accelerator), program_(program), visit_(visit) {}

  Status run() {
    bool progress = true;
    while (progress) {
      progress = fetch();
      for (std::size_t m = 0; m < kModules; ++m) {
        for (;;) {
          Result<bool> advanced = advance(static_cast<Module>(m));
          if (!advanced.ok()) return advanced.status();
          if (!*advanced) break;
          progress = true;
        }
      }
    }
    if (fetched_ < program_.size() || std::any_of(modules_.begin(), modules_.end(),
                                                  [](auto& m) { return !m.commands.empty(); })) {
      return deadlock();
    }
    return check_left_over();
  }

 private:
  ModuleState& state(Module module) { return modules_[static_cast<std::size_t>(module)]; }

  // The queue from `module` to its next (up) or previous (down) module.
  TokenQueue& up_from(Module module) { return up_[static_cast<std::size_t>(module)]; }
  TokenQueue& down_from(Module module) { return down_[static_cast<std::size_t>(module)]; }
  static Module prev(Module module) {
    return static_cast<Module>(static_cast<std::uint8_t>(module) - 1);
  }
  static Module next(Module module) {
    return static_cast<Module>(static_cast<std::uint8_t>(module) + 1);
  }

  // Fetch is in order, so a full command queue blocks everything behind it.
  bool fetch() {
    bool progress = false;
    while (fetched_ < program_.size()) {
      const Module module = module_of(program_[fetched_]);
      auto& commands = state(module).commands;
      const std::uint32_t depth =
          module == Module::kLoad ? accelerator_.load_commands() : accelerator_.command_queue_depth;
      if (commands.size() >= depth) break;
      commands.push_back(fetched_++);
      progress = true;
    }
    return progress;
  }

  static bool pop(TokenQueue& queue, ModuleClock& clock) {
    if (queue.empty()) return false;
    for (std::size_t m = 0; m < kModules; ++m) clock[m] = std::max(clock[m], queue.front()[m]);
    queue.pop_front();
    return true;
  }

  bool push(TokenQueue& queue, const ModuleClock& clock) const {
    if (queue.size() >= accelerator_.token_queue_depth) return false;
    queue.push_back(clock);
    return true;
  }

  // Moves the module's head instruction one step on; false when it has to wait.
  Result<bool> advance(Module module) {
    ModuleState& self = state(module);
    if (self.commands.empty()) return false;
    const std::uint32_t index = self.commands.front();
    const Instruction& head = program_[index];
    switch (self.step) {
      case Step::kPopPrev:
        if (head.pop_prev != 0 && !pop(up_from(prev(module)), self.clock)) return false;
        self.step = Step::kPopNext;
        return true;
      case Step::kPopNext:
        if (head.pop_next != 0 && !pop(down_from(next(module)), self.clock)) return false;
        self.step = Step::kRun;
        return true;
      case Step::kRun:
        if (Status status = visit_(
                {.index = index, .module = module, .sequence = self.sequence, .clock = self.clock});
            !status.ok()) {
          return status;
        }
        ++self.sequence;
        self.clock[static_cast<std::size_t>(module)] = self.sequence;
        self.step = Step::kPushPrev;
        return true;
      case Step::kPushPrev:
        if (head.push_prev != 0 && !push(down_from(module), self.clock)) return false;
        self.step = Step::kPushNext;
        return true;
      case Step::kPushNext:
        if (head.push_next != 0 && !push(up_from(module), self.clock)) return false;
        self.step = Step::kPopPrev;
        self.commands.pop_front();
        return true;
    }
    return false;
  }

  std::string waiting_for(Module module) {
    const ModuleState& self = state(module);
    if (self.commands.empty()) return "idle";
    std::string text = "instruction " + std::to_string(self.commands.front()) + " " +
                       disassemble(program_[self.commands.front()]) + " waits ";
    switch (self.step) {
      case Step::kPopPrev:
        return text + "for a token from " + std::string(to_string(prev(module)));
      case Step::kPopNext:
        return text + "for a token from " + std::string(to_string(next(module)));
      case Step::kPushPrev:
        return text + "for room in the token queue to " + std::string(to_string(prev(module)));
      case Step::kPushNext:
        return text + "for room in the token queue to " + std::string(to_string(next(module)));
      case Step::kRun:
        break;
    }
    return text;
  }

  Status deadlock() {
    std::string text = "deadlock after " + std::to_string(fetched_) + " of " +
                       std::to_string(program_.size()) + " instructions were fetched";
    for (const Module module : {Module::kLoad, Module::kCompute, Module::kStore}) {
      text += "; " + std::string(to_string(module)) + ": " + waiting_for(module);
    }
    return {Code::kDevice, text};
  }

  Status check_left_over() {
    for (const Module lower : {Module::kLoad, Module::kCompute}) {
      const std::size_t up = up_from(lower).size();
      const std::size_t down = down_from(next(lower)).size();
      if (up + down == 0) continue;
      const auto tokens = [](std::size_t count, Module from, Module to) {
        std::string text = std::to_string(count) + " from ";
        text += to_string(from);
        text += " to ";
        return text += to_string(to);
      };
      return {Code::kDevice, "tokens left over at FINISH: " + tokens(up, lower, next(lower)) +
                                 ", " + tokens(down, next(lower), lower) + ", expected 0"};
    }
    return {};
  }

  const Accelerator& accelerator_;
  std::span<const Instruction> program_;
  const std::function<Status(const ScheduledInstruction&)>& visit_;
  std::array<ModuleState, kModules> modules_{};
  std::array<TokenQueue, kModules> up_;    // [m]: from module m to m + 1
  std::array<TokenQueue, kModules> down_;  // [m]: from module m to m - 1
  std::uint32_t fetched_ = 0;
};

}  // namespace

Status run_modules(const Accelerator& accelerator, std::span<const Instruction> program,
                   const std::function<Status(const ScheduledInstruction&)>& visit) {
  for (std::uint32_t index = 0; index < program.size(); ++index) {
    const Instruction& i = program[index];
    const Module module = module_of(i);
    if ((module == Module::kLoad && (i.pop_prev | i.push_prev) != 0) ||
        (module == Module::kStore && (i.pop_next | i.push_next) != 0)) {
      return {Code::kDevice, "instruction " + std::to_string(index) + " " + disassemble(i) +
                                 ": the " + std::string(to_string(module)) +
                                 " module has no token queue on that side"};
    }
  }
  return Machine(accelerator, program, visit).run();
}

}  // namespace edgepipe
