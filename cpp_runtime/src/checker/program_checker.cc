#include "checker/program_checker.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "checker/dram_ledger.h"
#include "checker/dram_span.h"
#include "checker/module_schedule.h"
#include "checker/rule_errors.h"
#include "checker/shift_distances.h"
#include "checker/step_footprints.h"
#include "isa/instruction_steps.h"

namespace edgepipe {
namespace {

constexpr const char* kRefused =
    "the program breaks a rule of the accelerator: build it again, or report it";
constexpr auto kLoadClock = static_cast<std::size_t>(Module::kLoad);
constexpr auto kComputeClock = static_cast<std::size_t>(Module::kCompute);
constexpr auto kStoreClock = static_cast<std::size_t>(Module::kStore);

// What is known about the entries of a buffer. One array for each fact: a rule looks at one fact of
// many entries, so the compiler can vectorise it.

// The last access to each entry, as 1 + sequence number in its module; 0: none. Each of inp, wgt
// and out is written by one module and read by another, so one number for each is enough.
struct Touches {
  explicit Touches(std::size_t depth) : written(depth, 0), read(depth, 0) {}
  std::vector<std::uint32_t> written;
  std::vector<std::uint32_t> read;
};

struct AccEntries {
  explicit AccEntries(std::size_t depth) : initialised(depth, 0), last_write_step(depth, 0) {}
  std::vector<std::uint8_t> initialised;
  std::vector<std::uint64_t> last_write_step;  // over the whole program, from acc_hazard_steps up
};

struct OutEntries {
  explicit OutEntries(std::size_t depth)
      : touch(depth), writer(depth, 0), defined(depth, 0), mirrors_acc(depth, 0) {}
  Touches touch;
  std::vector<std::uint32_t> writer;  // index into CheckedProgram::steps of the GEMM or ALU
  std::vector<std::uint8_t> defined;  // a GEMM reset leaves the low bits of the old acc there
  std::vector<std::uint8_t>
      mirrors_acc;  // still the low 8 bits of acc: not of the table or cleared, no ACC load since
};

template <typename T, typename Value>
void mark(std::vector<T>& facts, const Interval& entries, Value value) {
  std::fill(facts.begin() + entries.begin, facts.begin() + entries.end, static_cast<T>(value));
}

/// Whether any of the entries has a number above `most`.
bool any_above(const std::vector<std::uint32_t>& facts, const Interval& entries,
               std::uint32_t most) {
  bool found = false;
  for (std::uint32_t n = entries.begin; n < entries.end; ++n) found |= facts[n] > most;
  return found;
}

bool all_set(const std::vector<std::uint8_t>& facts, const Interval& entries) {
  return entries.begin == entries.end ||
         std::memchr(facts.data() + entries.begin, 0, entries.end - entries.begin) == nullptr;
}

// Adding or shifting by 0 does not change acc; programs use it to wait for a token.
bool is_identity(const Instruction& i) {
  return i.opcode == Opcode::kAlu && i.use_imm != 0 && i.imm == 0 && i.reset == 0 &&
         (i.alu_opcode == AluOp::kAdd || i.alu_opcode == AluOp::kShr);
}

bool looks_up(const Instruction& i) {
  return i.opcode == Opcode::kAlu && i.alu_opcode == AluOp::kTable;
}

bool clears(const Instruction& i) { return i.opcode == Opcode::kAlu && i.reset != 0; }

bool is_vector_shift(const Instruction& i) {
  return i.opcode == Opcode::kAlu && i.use_imm == 0 && i.alu_opcode == AluOp::kShr;
}

class Checker {
 public:
  Checker(const Accelerator& accelerator, const DeviceMemory& memory, const ProgramContext& context)
      : accelerator_(accelerator),
        codec_(accelerator),
        memory_(memory),
        ranges_(context.ranges),
        errors_(context.layers, program_),
        dram_(accelerator),
        uop_(accelerator.uop_depth()),
        uop_initialised_(accelerator.uop_depth(), 0),
        table_initialised_(accelerator.table_depth(), 0),
        inp_(accelerator.inp_depth()),
        wgt_(accelerator.wgt_depth()),
        acc_(accelerator.acc_depth()),
        out_(accelerator.acc_depth()),
        distances_(accelerator),
        footprints_(accelerator) {}

  Result<CheckedProgram> run(std::span<const InstructionWord> words) {
    begin(words);
    checked_.steps.reserve(words.size());
    if (Status status = decode_all(words); !status.ok()) return status;
    const Status status = run_modules(accelerator_, program_,
                                      [this](const ScheduledInstruction& at) { return visit(at); });
    if (!status.ok()) return status;
    return std::move(checked_);
  }

  /// The verdict on a copy of `like` that differs only in addresses; none if it is not such a
  /// copy. Whatever does not depend on addresses (tokens, SRAM, uops, hazards) also holds for the
  /// copy, so only accesses to device memory are checked. Distances of shifts that are limited
  /// depend on addresses: a copy of a program that has them is checked from the start.
  std::optional<Result<CheckedProgram>> run_like(std::span<const InstructionWord> words,
                                                 const CheckedProgram& like) {
    if (words.size() != like.words.size() || !decode_all(words).ok()) return std::nullopt;
    if (distances_.are_limited() && std::ranges::any_of(program_, is_vector_shift)) {
      return std::nullopt;
    }
    checked_ = like;
    begin(words);
    std::size_t visited = 0;
    bool is_copy = true;
    Status status = run_modules(accelerator_, program_, [&](const ScheduledInstruction& at) {
      go_to(at);
      CheckedInstruction& step = checked_.steps[visited++];
      const Instruction& found = program_[at.index];
      Instruction expected = step.instruction;
      expected.dram_base = found.dram_base;
      is_copy = is_copy && found == expected;
      step = {.instruction = found, .dram = nullptr, .out_is_stored = step.out_is_stored};
      const bool transfers = found.opcode == Opcode::kLoad || found.opcode == Opcode::kStore;
      return is_copy && transfers ? resolve_dram(found, step) : Status();
    });
    if (!is_copy || (status.ok() && !checked_.uops_are_those_in_memory())) return std::nullopt;
    if (!status.ok()) return status;
    return std::move(checked_);
  }

 private:
  void begin(std::span<const InstructionWord> words) {
    static std::atomic<std::uint64_t> programs{0};
    checked_.words.assign(words.begin(), words.end());
    checked_.ranges.assign(ranges_.begin(), ranges_.end());
    checked_.memory_generation = memory_.generation();
    checked_.number = ++programs;
  }

  // ---- whole-program rules ---------------------------------------------------------------------

  Status decode_all(std::span<const InstructionWord> words) {
    program_.reserve(words.size());
    for (std::uint32_t index = 0; index < words.size(); ++index) {
      Result<Instruction> instruction = codec_.decode(words[index]);
      if (!instruction.ok()) return instruction.status().with_context(errors_.place(index));
      ++module_counts_[static_cast<std::size_t>(module_of(*instruction))];
      const bool last = index + 1 == words.size();
      if ((instruction->opcode == Opcode::kFinish) != last) {
        program_.push_back(*instruction);
        errors_.at(index);
        return errors_.broken(last ? "the program does not end with FINISH"
                                   : "FINISH before the program's end, " +
                                         std::to_string(words.size() - index - 1) +
                                         " instructions follow");
      }
      program_.push_back(*instruction);
    }
    if (words.empty()) return {Code::kDevice, "the program is empty, expected a FINISH"};
    return {};
  }

  void go_to(const ScheduledInstruction& at) {
    now_ = at;
    errors_.at(at.index);
  }

  Status visit(const ScheduledInstruction& at) {
    go_to(at);
    checked_.steps.push_back({.instruction = program_[at.index]});
    const Instruction& i = program_[at.index];
    switch (i.opcode) {
      case Opcode::kLoad:
        return check_load(i);
      case Opcode::kStore:
        return check_store(i);
      case Opcode::kGemm:
        return check_gemm(i);
      case Opcode::kAlu:
        return check_alu(i);
      case Opcode::kFinish:
        return check_finish();
    }
    return {};
  }

  Status check_finish() const {
    for (const Module module : {Module::kLoad, Module::kStore}) {
      const auto m = static_cast<std::size_t>(module);
      if (now_.clock[m] < module_counts_[m]) {
        return errors_.broken("no token makes FINISH wait for the last " +
                              std::to_string(module_counts_[m] - now_.clock[m]) + " of " +
                              std::to_string(module_counts_[m]) + " instructions of the " +
                              std::string(to_string(module)) + " module");
      }
    }
    return {};
  }

  // ---- LOAD and STORE --------------------------------------------------------------------------

  Status check_load(const Instruction& i) {
    const bool pads = (i.y_pad_0 | i.y_pad_1 | i.x_pad_0 | i.x_pad_1) != 0;
    const bool ignores_pads =
        i.memory_type == MemoryType::kUop || i.memory_type == MemoryType::kWgt ||
        i.memory_type == MemoryType::kTable ||
        (i.memory_type == MemoryType::kAcc && accelerator_.revision == Revision::k0_0_1);
    if (pads && ignores_pads) {
      return errors_.broken("pads on a " + std::string(to_string(i.memory_type)) +
                            " load, which this revision ignores");
    }
    if (loads_one_row(i.memory_type) && i.y_size != 1) {
      const bool uops = i.memory_type == MemoryType::kUop;
      return errors_.broken(std::to_string(i.y_size) + " rows of " + (uops ? "uops" : "a table") +
                            ", a " + std::string(to_string(i.memory_type)) + " load has one");
    }
    const std::uint64_t elements =
        std::uint64_t{i.y_pad_0 + i.y_size + i.y_pad_1} * (i.x_pad_0 + i.x_size + i.x_pad_1);
    if (Status status = check_sram(i, elements); !status.ok()) return status;
    if (Status status = resolve_dram(i, checked_.steps.back()); !status.ok()) return status;
    const std::uint32_t end = i.sram_base + static_cast<std::uint32_t>(elements);
    switch (i.memory_type) {
      case MemoryType::kUop:
        return load_uops(i);
      case MemoryType::kInp:
        return load_tiles(inp_, {i.sram_base, end});
      case MemoryType::kWgt:
        return load_tiles(wgt_, {i.sram_base, end});
      case MemoryType::kTable:
        mark(table_initialised_, {i.sram_base, end}, 1);
        return {};
      case MemoryType::kAcc:
      case MemoryType::kAcc8:
      case MemoryType::kOut:
        break;
    }
    mark(acc_.initialised, {i.sram_base, end}, 1);
    mark(out_.mirrors_acc, {i.sram_base, end}, 0);
    if (distances_.are_limited()) distances_.load(i, constants_of(checked_.steps.back()));
    return {};
  }

  Status load_uops(const Instruction& i) {
    const std::byte* dram = checked_.steps.back().dram;
    const std::size_t first = checked_.uops.size();
    checked_.uops.resize(first + i.x_size);
    for (std::uint32_t n = 0; n < i.x_size; ++n) {
      std::uint32_t& word = checked_.uops[first + n];
      std::memcpy(&word, dram + std::size_t{n} * sizeof(word), sizeof(word));
      uop_[i.sram_base + n] = codec_.decode_uop(word);
      uop_initialised_[i.sram_base + n] = 1;
    }
    if (i.x_size != 0) {
      checked_.uop_sources.push_back({.step = checked_.steps.size() - 1, .first = first});
    }
    return {};
  }

  Status load_tiles(Touches& buffer, const Interval& entries) {
    const std::uint32_t known = now_.clock[kComputeClock];
    if (any_above(buffer.read, entries, known)) {
      std::uint32_t n = entries.begin;
      while (buffer.read[n] <= known) ++n;
      return errors_.race("overwrites entry " + std::to_string(n), Module::kCompute, buffer.read[n],
                          "reads it");
    }
    mark(buffer.written, entries, now_.sequence + 1);
    return {};
  }

  Status check_store(const Instruction& i) {
    if ((i.y_pad_0 | i.y_pad_1 | i.x_pad_0 | i.x_pad_1) != 0) {
      return errors_.broken("pads on a STORE, which the hardware ignores");
    }
    const std::uint64_t elements = std::uint64_t{i.y_size} * i.x_size;
    if (Status status = check_sram(i, elements); !status.ok()) return status;
    if (Status status = resolve_dram(i, checked_.steps.back()); !status.ok()) return status;
    for (std::uint32_t n = i.sram_base; n < i.sram_base + elements; ++n) {
      const std::uint32_t written = out_.touch.written[n];
      if (written == 0) return errors_.uninitialised("out", n);
      if (written > now_.clock[kComputeClock]) {
        return errors_.race("reads out entry " + std::to_string(n), Module::kCompute, written,
                            "writes it");
      }
      if (out_.defined[n] == 0) {
        return errors_.broken("reads out entry " + std::to_string(n) +
                              ", which a GEMM reset left undefined (it clears acc only)");
      }
      out_.touch.read[n] = now_.sequence + 1;
      checked_.steps[out_.writer[n]].out_is_stored = true;
    }
    return {};
  }

  Status check_sram(const Instruction& i, std::uint64_t elements) const {
    const std::uint32_t depth = accelerator_.depth(i.memory_type);
    if (i.sram_base + elements <= depth) return {};
    return errors_.broken("SRAM entries [" + std::to_string(i.sram_base) + ", " +
                          std::to_string(i.sram_base + elements) + ") of " +
                          std::string(to_string(i.memory_type)) + ", the buffer has " +
                          std::to_string(depth));
  }

  // The whole span from the first to the last row must be inside one allocation.
  Status resolve_dram(const Instruction& i, CheckedInstruction& step) {
    if (i.x_size == 0 || i.y_size == 0) return {};
    const std::uint64_t unit = accelerator_.element_bytes(i.memory_type);
    const DramSpan span = dram_span(accelerator_, i);
    Result<std::byte*> pointer = translate(memory_, span);
    if (!pointer.ok()) return errors_.broken(pointer.status().message());
    const auto range = range_of(span);
    if (Status status = check_range(i, span, range); !status.ok()) return status;
    step.dram = *pointer;
    if (range != ranges_.end() && !is_written(*range)) return {};  // no STORE can conflict
    const bool one_row = i.x_stride == i.x_size;
    for (std::uint32_t y = 0; y < (one_row ? 1 : i.y_size); ++y) {
      const std::uint64_t row = span.address + std::uint64_t{y} * i.x_stride * unit;
      const std::uint64_t bytes = one_row ? span.bytes : i.x_size * unit;
      const auto conflict = i.opcode == Opcode::kStore
                                ? dram_.write(row, bytes, now_)
                                : dram_.read(row, bytes, now_, i.memory_type == MemoryType::kUop);
      if (conflict) return errors_.dram_conflict(*conflict);
    }
    return {};
  }

  using Range = std::span<const MemoryRange>::iterator;

  /// The first range that contains a span.
  [[nodiscard]] Range range_of(const DramSpan& span) const {
    return std::ranges::find_if(ranges_, [&](const MemoryRange& own) {
      return span.address >= own.address && span.bytes <= own.bytes &&
             span.address - own.address <= own.bytes - span.bytes;
    });
  }

  /// Whether a range that the program may write overlaps this one, or is this one.
  [[nodiscard]] bool is_written(const MemoryRange& range) const {
    return std::ranges::any_of(ranges_, [&](const MemoryRange& other) {
      return other.access == Access::kReadWrite && other.address < range.address + range.bytes &&
             range.address < other.address + other.bytes;
    });
  }

  /// The target of a LOAD if its content never changes, otherwise null.
  [[nodiscard]] const std::byte* constants_of(const CheckedInstruction& load) const {
    if (load.dram == nullptr) return nullptr;
    const auto range = range_of(dram_span(accelerator_, load.instruction));
    const bool constant =
        range != ranges_.end() && range->access == Access::kConstant && !is_written(*range);
    return constant ? load.dram : nullptr;
  }

  Status check_range(const Instruction& i, const DramSpan& span, Range range) const {
    if (ranges_.empty()) return {};
    const std::string what =
        std::to_string(span.bytes) + " bytes at device address " + std::to_string(span.address);
    if (range == ranges_.end()) {
      return errors_.broken(what + " are not inside one of the program's regions");
    }
    if (i.opcode == Opcode::kStore && range->access != Access::kReadWrite) {
      return errors_.broken(what + " are in a region that the program may only read");
    }
    if (i.memory_type == MemoryType::kUop && range->access != Access::kConstant) {
      return errors_.broken("uops from " + what + ", which are not in a constant region");
    }
    return {};
  }

  // ---- GEMM and ALU ----------------------------------------------------------------------------

  Status check_uops(const Instruction& i) const {
    if (i.uop_begin > i.uop_end || i.uop_end > accelerator_.uop_depth()) {
      return errors_.broken("uop range [" + std::to_string(i.uop_begin) + ", " +
                            std::to_string(i.uop_end) + "), the buffer has " +
                            std::to_string(accelerator_.uop_depth()));
    }
    if (i.iter_out == 0 || i.iter_in == 0) return {};
    if (all_set(uop_initialised_, {i.uop_begin, i.uop_end})) return {};
    std::uint32_t n = i.uop_begin;
    while (uop_initialised_[n] != 0) ++n;
    return errors_.uninitialised("uop", n);
  }

  Status check_gemm(const Instruction& i) {
    if (Status status = check_uops(i); !status.ok()) return status;
    const bool reads = i.reset == 0;
    const StepFootprint& touched = footprints_.of(i, uops_of(i), checked_.uop_sources.size());
    if (touched.in_range && !touched.hazardous &&
        (!reads || (read_tiles(inp_, touched.src) && read_tiles(wgt_, touched.wgt))) &&
        write_accs(touched.dst, reads, reads)) {
      distances_.overwrite(touched.dst);
      return {};
    }
    const bool good = every_step(
        i, uop_.data() + i.uop_begin, [&](std::uint32_t dst, std::uint32_t src, std::uint32_t wgt) {
          return (!reads || (read_tile(inp_, "inp", src) && read_tile(wgt_, "wgt", wgt))) &&
                 write_acc(dst, reads, reads);
        });
    begin_instruction();
    if (good) distances_.overwrite(touched.dst);
    return good ? Status() : std::move(failure_);
  }

  Status check_alu(const Instruction& i) {
    if (i.reset != 0 && !accelerator_.has(Extension::kClear)) {
      return errors_.broken("reset on an ALU instruction, which has none");
    }
    if (Status status = check_uops(i); !status.ok()) return status;
    if (accelerator_.implementation == Implementation::kChisel && !reads_own_entries(i)) {
      return errors_.broken(
          "an immediate whose src differs from dst, from where this accelerator "
          "would read another operand");
    }
    if (Status status = check_table(i); !status.ok()) return status;
    const bool reads = i.use_imm == 0;
    const StepFootprint& touched = footprints_.of(i, uops_of(i), checked_.uop_sources.size());
    if (touched.in_range && !touched.hazardous && (!reads || read_accs(touched.src)) &&
        write_accs(touched.dst, true, true)) {
      return check_distances(i, touched);
    }
    const bool good = every_step(i, uop_.data() + i.uop_begin,
                                 [&](std::uint32_t dst, std::uint32_t src, std::uint32_t) {
                                   return (!reads || read_acc(src)) && write_acc(dst, true, true);
                                 });
    begin_instruction();
    return good ? check_distances(i, touched) : std::move(failure_);
  }

  [[nodiscard]] Status check_table(const Instruction& i) const {
    if (!looks_up(i) || i.iter_out == 0 || i.iter_in == 0 || i.uop_begin == i.uop_end) return {};
    const auto end = static_cast<std::uint32_t>(table_initialised_.size());
    if (all_set(table_initialised_, {0, end})) return {};
    std::uint32_t n = 0;
    while (table_initialised_[n] != 0) ++n;
    return errors_.uninitialised("table", n);
  }

  // An entry that the instruction itself writes is no longer a known distance in its later steps.
  Status check_distances(const Instruction& i, const StepFootprint& touched) {
    distances_.overwrite(touched.dst);
    if (!is_vector_shift(i)) return {};
    const std::optional<ShiftDistances::Unsafe> unsafe = distances_.find_unsafe(touched.src);
    if (!unsafe) return {};
    const std::string what = "shifts by the vector in acc entry " + std::to_string(unsafe->entry);
    return errors_.broken(
        unsafe->lanes == ShiftDistances::Lanes::kLeft
            ? what +
                  ", of which a lane is negative, and this accelerator does not shift left; "
                  "expected distances from 0 to 15"
            : what +
                  ", which is not constant, and this accelerator does not shift left; "
                  "expected distances that are loaded from a constant region");
  }

  /// Whether an instruction has no immediate, or dst and src of all of its steps are equal.
  [[nodiscard]] bool reads_own_entries(const Instruction& i) const {
    if (i.use_imm == 0) return true;
    const bool alike = (i.iter_out <= 1 || i.dst_factor_out == i.src_factor_out) &&
                       (i.iter_in <= 1 || i.dst_factor_in == i.src_factor_in);
    return alike &&
           std::ranges::all_of(uops_of(i), [](const Uop& uop) { return uop.dst == uop.src; });
  }

  [[nodiscard]] std::span<const Uop> uops_of(const Instruction& i) const {
    return std::span(uop_).subspan(i.uop_begin, i.uop_end - i.uop_begin);
  }

  // Checks the rules for all steps of a GEMM or ALU at once, each entry once. Within an
  // instruction, only hazards depend on the order of steps, and the footprint reports them. False
  // if a rule is broken: the steps are then checked one by one to find the first that breaks it,
  // and how.

  bool read_tiles(Touches& buffer, std::span<const Interval> touched) {
    const std::uint32_t known = now_.clock[kLoadClock];
    for (const Interval& entries : touched) {
      bool bad = false;
      for (std::uint32_t n = entries.begin; n < entries.end; ++n) {
        bad |= buffer.written[n] - 1 >= known;  // 0 (none) wraps to the largest value
      }
      if (bad) return false;
      mark(buffer.read, entries, now_.sequence + 1);
    }
    return true;
  }

  [[nodiscard]] bool read_accs(std::span<const Interval> touched) const {
    return std::ranges::all_of(
        touched, [&](const Interval& entries) { return all_set(acc_.initialised, entries); });
  }

  bool write_accs(std::span<const Interval> touched, bool reads_it, bool defines_out) {
    if (reads_it && !read_accs(touched)) return false;
    if (is_identity(checked_.steps.back().instruction)) return write_unchanged_accs(touched);
    const std::uint32_t known = now_.clock[kStoreClock];
    for (const Interval& entries : touched) {
      if (any_above(out_.touch.read, entries, known)) return false;
      mark(acc_.initialised, entries, 1);
      write_out(entries, defines_out);
    }
    return true;
  }

  // Entries of out that mirror acc also keep their value.
  bool write_unchanged_accs(std::span<const Interval> touched) {
    for (const Interval& interval : touched) {
      for (std::uint32_t n = interval.begin; n < interval.end; ++n) {
        if (out_.mirrors_acc[n] != 0) continue;
        if (out_.touch.read[n] > now_.clock[kStoreClock]) return false;
        write_out({n, n + 1}, true);
      }
    }
    return true;
  }

  void write_out(const Interval& entries, bool defines_out) {
    mark(out_.touch.written, entries, now_.sequence + 1);
    mark(out_.writer, entries, checked_.steps.size() - 1);
    mark(out_.defined, entries, defines_out);
    const Instruction& writer = checked_.steps.back().instruction;
    const bool mirrors = defines_out && !looks_up(writer) && !clears(writer);
    mark(out_.mirrors_acc, entries, mirrors);
  }

  // The pipeline drains between instructions, so steps of different instructions are far apart.
  void begin_instruction() { step_ += accelerator_.acc_hazard_steps; }

  // The same for one step. Stores an error in failure_.

  bool fail(Status status) {
    failure_ = std::move(status);
    return false;
  }

  bool read_tile(Touches& buffer, const char* name, std::uint32_t n) {
    if (n >= buffer.written.size()) {
      return fail(errors_.out_of_range(name, n, buffer.written.size()));
    }
    const std::uint32_t written = buffer.written[n];
    if (written == 0) return fail(errors_.uninitialised(name, n));
    if (written > now_.clock[kLoadClock]) {
      return fail(errors_.race("reads " + std::string(name) + " entry " + std::to_string(n),
                               Module::kLoad, written, "writes it"));
    }
    buffer.read[n] = now_.sequence + 1;
    return true;
  }

  bool read_acc(std::uint32_t n) {
    if (!has_acc(n)) return false;
    if (acc_.initialised[n] == 0) return fail(errors_.uninitialised("acc", n));
    return check_hazard(n);
  }

  bool has_acc(std::uint32_t n) {
    const std::size_t depth = acc_.initialised.size();
    return n < depth || fail(errors_.out_of_range("acc", n, depth));
  }

  bool check_hazard(std::uint32_t n) {
    const std::uint64_t distance = step_ - acc_.last_write_step[n];
    if (distance >= accelerator_.acc_hazard_steps) return true;
    return fail(errors_.hazard(n, distance, accelerator_.acc_hazard_steps));
  }

  bool write_acc(std::uint32_t n, bool reads_it, bool defines_out) {
    if (!has_acc(n)) return false;
    if (reads_it && acc_.initialised[n] == 0) return fail(errors_.uninitialised("acc", n));
    if (!check_hazard(n)) return false;
    acc_.initialised[n] = 1;
    acc_.last_write_step[n] = step_++;
    if (out_.mirrors_acc[n] != 0 && is_identity(checked_.steps.back().instruction)) return true;
    if (out_.touch.read[n] > now_.clock[kStoreClock]) {
      return fail(errors_.race("overwrites out entry " + std::to_string(n), Module::kStore,
                               out_.touch.read[n], "reads it"));
    }
    write_out({n, n + 1}, defines_out);
    return true;
  }

  const Accelerator& accelerator_;
  const InstructionCodec codec_;
  const DeviceMemory& memory_;
  const std::span<const MemoryRange> ranges_;
  std::vector<Instruction> program_;
  RuleErrors errors_;  // refers to program_
  std::array<std::uint32_t, kModules> module_counts_{};
  CheckedProgram checked_;

  ScheduledInstruction now_{};
  Status failure_;
  DramLedger dram_;
  std::vector<Uop> uop_;
  std::vector<std::uint8_t> uop_initialised_;
  std::vector<std::uint8_t> table_initialised_;
  Touches inp_;
  Touches wgt_;
  AccEntries acc_;
  OutEntries out_;
  ShiftDistances distances_;
  StepFootprints footprints_;
  // Starts beyond the hazard distance from 0, the initial last_write_step.
  std::uint64_t step_ = std::uint64_t{1} << 32;
};

}  // namespace

Result<CheckedProgram> check_program(const Accelerator& accelerator, const DeviceMemory& memory,
                                     std::span<const InstructionWord> words,
                                     const ProgramContext& context) {
  if (context.like != nullptr) {
    auto verdict = Checker(accelerator, memory, context).run_like(words, *context.like);
    if (verdict) return (*std::move(verdict)).advised(kRefused);
  }
  return Checker(accelerator, memory, context).run(words).advised(kRefused);
}

}  // namespace edgepipe
