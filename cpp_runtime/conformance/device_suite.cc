#include "edgepipe/conformance/device_suite.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edgepipe/conformance/product_program.h"

namespace edgepipe::conformance {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::int8_t kPoison = 0x5A;  // what outputs hold before a run

std::vector<std::int8_t> poisoned(const Device& device) {
  return std::vector<std::int8_t>(device.accelerator().out_bytes(), kPoison);
}

/// Overwrites two tiles of outputs.
void poison(ProductProgram& program, const Device& device) {
  std::memset(program.int8_at(ProductProgram::kOutOffset), kPoison,
              2 * device.accelerator().out_bytes());
}

/// Makes the program store its output `tile` tiles after kOutOffset.
void store_at_tile(ProductProgram& program, std::uint32_t tile) {
  program.instructions[ProductProgram::kStore].dram_base =
      program.element(MemoryType::kOut, ProductProgram::kOutOffset) + tile;
}

/// Runs a product on new numbers and checks the result.
void expect_product(Device& device, ProductProgram& program, std::uint32_t seed) {
  program.fill(seed);
  poison(program, device);
  const Status status = program.run();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(same(program.output(), program.product()));
}

void expect_product(Device& device) {
  ProductProgram program(device);
  expect_product(device, program, 1);
}

/// Puts an instruction between the product and the store, with the store's token.
void insert_after_product(ProductProgram& program, Instruction instruction) {
  std::swap(instruction.push_next, program.instructions[ProductProgram::kGemm].push_next);
  program.insert(ProductProgram::kStore, instruction);
}

/// A program that takes about `kLongRun`, long enough to do other things while it runs: many GEMM
/// instructions of 2^16 steps. Its result is the number of steps that went into one accumulator.
class LongProgram {
 public:
  static constexpr std::chrono::milliseconds kLongRun{300};

  /// `implementation` identifies devices whose speed is already known; `times` makes the run
  /// longer.
  LongProgram(Device& device, const std::string& implementation, std::uint32_t times = 1)
      : device_(device), program_(device) {
    static std::map<std::string, std::uint32_t> known;
    std::uint32_t& count = known[implementation];
    // One instruction is enough to know a slow device, such as a Verilated one; 16 a faster one.
    for (const std::uint32_t sample : {1, 16}) {
      if (count != 0) break;
      resize(sample);
      const Clock::duration took = shortest_of_five_runs();
      if (sample == 1 && took < kLongRun / 10) continue;
      count = std::clamp<std::uint32_t>(
          static_cast<std::uint32_t>(sample * (kLongRun / std::chrono::duration<double>(took))),
          sample, kMost);
    }
    resize(times * count);
  }

  [[nodiscard]] Submission submission() const { return program_.submission(); }
  Status run(const Submission& submission) { return program_.run_written(submission); }
  void poison() { conformance::poison(program_, device_); }
  [[nodiscard]] bool output_is_right() const {
    return program_.output() == std::vector<std::int8_t>(device_.accelerator().out_bytes(), sum_);
  }

 private:
  static constexpr std::uint32_t kMost = 10'000;

  Clock::duration shortest_of_five_runs() {
    Clock::duration shortest = Clock::duration::max();
    for (int run_of_five = 0; run_of_five < 5; ++run_of_five) {  // the processor may have been busy
      const Clock::time_point before = Clock::now();
      EXPECT_TRUE(run(program_.submission()).ok());
      shortest = std::min(shortest, std::max<Clock::duration>(Clock::now() - before, 1us));
    }
    return shortest;
  }

  void resize(std::uint32_t gemms) {
    const Accelerator& a = device_.accelerator();
    std::memset(program_.int8_at(ProductProgram::kWgtOffset), 0, a.wgt_bytes());
    std::memset(program_.int8_at(ProductProgram::kInpOffset), 1, a.inp_bytes());
    for (std::uint32_t o = 0; o < a.block_out; ++o) {
      program_.int8_at(ProductProgram::kWgtOffset)[o * a.block_in] = 1;
    }
    std::vector<Instruction>& instructions = program_.instructions;
    const Instruction first = instructions[ProductProgram::kReset + 1];
    const Instruction store = instructions[instructions.size() - 2];
    const Instruction finish = instructions.back();
    // All accumulators in turn, so that no step waits for the one before.
    const std::uint32_t accumulators = std::min(a.acc_depth(), 1024U);
    const std::uint32_t rounds = 65536 / accumulators - 1;
    instructions.resize(ProductProgram::kReset + 1);
    instructions[ProductProgram::kReset].iter_in = accumulators;
    instructions[ProductProgram::kReset].dst_factor_in = 1;
    for (std::uint32_t n = 0; n < gemms; ++n) {
      Instruction gemm = first;
      gemm.pop_prev = n == 0 ? 1 : 0;
      gemm.push_next = n + 1 == gemms ? 1 : 0;
      gemm.iter_out = rounds;
      gemm.iter_in = accumulators;
      gemm.dst_factor_in = 1;
      instructions.push_back(gemm);
    }
    instructions.push_back(store);
    instructions.push_back(finish);
    sum_ = static_cast<std::int8_t>(gemms * rounds);
    program_.write();
    const Status status = device_.prepare(program_.submission());
    EXPECT_TRUE(status.ok()) << status.message();
  }

  Device& device_;
  ProductProgram program_;
  std::int8_t sum_ = 0;
};

/// Runs a long program on a separate thread; the constructor returns once it has begun.
class Occupant {
 public:
  Occupant(Device& device, const std::string& implementation, std::uint32_t times = 1)
      : program_(device, implementation, times), thread_([this] {
          program_.poison();
          started_ = true;
          status_ = program_.run(program_.submission());
          ended_ = true;
        }) {
    while (!started_) std::this_thread::yield();
    std::this_thread::sleep_for(LongProgram::kLongRun / 6);
  }
  ~Occupant() { static_cast<void>(join()); }
  Occupant(const Occupant&) = delete;
  Occupant& operator=(const Occupant&) = delete;

  [[nodiscard]] bool ended() const { return ended_; }
  Status join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  [[nodiscard]] bool output_is_right() const { return program_.output_is_right(); }

 private:
  LongProgram program_;
  std::atomic<bool> started_{false};
  std::atomic<bool> ended_{false};
  Status status_;
  std::thread thread_;
};

std::int8_t low8(std::int64_t value) { return static_cast<std::int8_t>(value); }

}  // namespace

// ---- what it is --------------------------------------------------------------------------------

TEST_P(DeviceConformance, HasAValidAcceleratorThatStaysTheSame) {
  const Accelerator accelerator = device().accelerator();
  const Status status = accelerator.validate();
  EXPECT_TRUE(status.ok()) << status.message();
  expect_product(device());
  EXPECT_EQ(device().accelerator(), accelerator);
}

TEST_P(DeviceConformance, HasOneMemory) {
  DeviceMemory* const memory = &device().memory();
  expect_product(device());
  EXPECT_EQ(&device().memory(), memory);
}

// ---- what it computes --------------------------------------------------------------------------

TEST_P(DeviceConformance, MultipliesInputAndWeights) {
  ProductProgram program(device());
  for (std::uint32_t seed = 0; seed < 5; ++seed) expect_product(device(), program, seed);
}

TEST_P(DeviceConformance, AppliesEveryAluOperation) {
  struct Case {
    AluOp op;
    std::int32_t imm;
    std::function<std::int64_t(std::int64_t)> result;
  };
  const std::vector<Case> cases{
      {AluOp::kMin, 5, [](std::int64_t x) { return std::min<std::int64_t>(x, 5); }},
      {AluOp::kMax, -7, [](std::int64_t x) { return std::max<std::int64_t>(x, -7); }},
      {AluOp::kAdd, -100, [](std::int64_t x) { return x - 100; }},
      {AluOp::kShr, 3, [](std::int64_t x) { return x >> 3; }},
      {AluOp::kShr, -2, [](std::int64_t x) { return x * 4; }},
  };
  for (const Case& test : cases) {
    ProductProgram program(device());
    // Weights of 1 at one input each: the sums are small, and their low bytes are the sums.
    const Accelerator& a = device().accelerator();
    std::memset(program.int8_at(ProductProgram::kWgtOffset), 0, a.wgt_bytes());
    for (std::uint32_t o = 0; o < a.block_out; ++o) {
      program.int8_at(ProductProgram::kWgtOffset)[o * a.block_in] = static_cast<std::int8_t>(o - 8);
    }
    std::memset(program.int8_at(ProductProgram::kInpOffset), 11, a.inp_bytes());
    insert_after_product(program, ProductProgram::alu(test.op, test.imm));
    const Status status = program.run();
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<std::int8_t> expected;
    for (std::uint32_t n = 0; n < a.out_bytes(); ++n) {
      const auto o = static_cast<std::int64_t>(n % a.block_out);
      expected.push_back(low8(test.result(11 * (o - 8))));
    }
    EXPECT_TRUE(same(program.output(), expected)) << to_string(test.op) << " " << test.imm;
  }
}

TEST_P(DeviceConformance, MovesRowsWithStridesAndPads) {
  const Accelerator& a = device().accelerator();
  ProductProgram program(device());
  // Two rows of two inputs, three apart in memory, with a column of zeros after each row.
  constexpr std::uint32_t kRow = 3;
  program.fill(3);
  Instruction& load = program.instructions[ProductProgram::kLoadInp];
  load.y_size = 2;
  load.x_size = 2;
  load.x_stride = kRow;
  load.x_pad_1 = 1;
  for (const std::size_t n : {ProductProgram::kReset, ProductProgram::kGemm}) {
    program.instructions[n].iter_in = 2 * kRow;
    program.instructions[n].dst_factor_in = 1;
    program.instructions[n].src_factor_in = program.instructions[n].reset != 0 ? 0 : 1;
  }
  // Four outputs in two rows, leaving a gap of one.
  Instruction& store = program.instructions[ProductProgram::kStore];
  store.y_size = 2;
  store.x_size = 2;
  store.x_stride = kRow;
  std::memset(program.int8_at(ProductProgram::kOutOffset), kPoison, 2 * kRow * a.out_bytes());
  const Status status = program.run();
  ASSERT_TRUE(status.ok()) << status.message();

  // Entries in SRAM: inputs 0 and 1, zeros, inputs 3 and 4, zeros. The store takes the first four.
  const std::vector<std::int8_t> zeros(a.out_bytes(), 0);
  const std::vector<std::vector<std::int8_t>> stored{program.product(0), program.product(1), zeros,
                                                     program.product(3)};
  for (std::size_t n = 0; n < stored.size(); ++n) {
    EXPECT_TRUE(same(program.output(n / 2 * kRow + n % 2), stored[n])) << "tile " << n;
  }
  EXPECT_TRUE(same(program.output(2), poisoned(device()))) << "the gap";
}

// ---- run and prepare ---------------------------------------------------------------------------

TEST_P(DeviceConformance, RunsTheSameProgramAgain) {
  ProductProgram program(device());
  program.write();
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    program.fill(seed);
    poison(program, device());
    const Status status = program.run_written(program.submission());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(same(program.output(), program.product())) << "run " << seed;
  }
}

TEST_P(DeviceConformance, PreparesWithoutRunning) {
  ProductProgram program(device());
  program.fill(1);
  poison(program, device());
  device().memory().flush(program.data.view());
  program.write();
  Submission submission = program.submission();
  submission.time_limit = 0ns;  // only run() needs it
  const Status prepared = device().prepare(submission);
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  device().memory().invalidate(program.data.view());
  EXPECT_TRUE(same(program.output(), poisoned(device())));
  ASSERT_TRUE(program.run_written(program.submission()).ok());
  EXPECT_TRUE(same(program.output(), program.product()));
}

TEST_P(DeviceConformance, RunsAProgramAsItIsNow) {
  ProductProgram program(device());
  program.fill(2);
  ASSERT_TRUE(program.run().ok());
  // Now the same memory holds another program, which stores one tile later.
  store_at_tile(program, 1);
  const InstructionWord word = *InstructionCodec(device().accelerator())
                                    .encode(program.instructions[ProductProgram::kStore]);
  std::memcpy(program.program.data() + ProductProgram::kStore * sizeof word, &word, sizeof word);
  device().memory().flush(program.program.view());
  poison(program, device());
  const Status status = program.run_written(program.submission());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same(program.output(0), poisoned(device())));
  EXPECT_TRUE(same(program.output(1), program.product()));
}

TEST_P(DeviceConformance, ForgetsAProgramWhoseMemoryWasReleased) {
  ProductProgram program(device());
  for (std::uint32_t round = 0; round < 10; ++round) {
    program.program = Buffer();  // so that the next one can have its address
    store_at_tile(program, round % 2);
    program.fill(round);
    poison(program, device());
    const Status status = program.run();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(same(program.output(round % 2), program.product())) << "round " << round;
    ASSERT_TRUE(same(program.output(1 - round % 2), poisoned(device()))) << "round " << round;
  }
}

TEST_P(DeviceConformance, ReadsTheMicroOpsAgainInEveryRun) {
  ProductProgram program(device());
  program.instructions[ProductProgram::kLoadInp].x_size = 2;
  program.fill(2);
  program.write();
  for (std::uint32_t round = 0; round < 4; ++round) {
    // The micro-op says which of two inputs is multiplied.
    const std::uint32_t uop =
        *InstructionCodec(device().accelerator()).encode_uop({.src = round % 2});
    std::memcpy(program.data.data() + ProductProgram::kUopOffset, &uop, sizeof uop);
    poison(program, device());
    const Status status = program.run_written(program.submission());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(same(program.output(), program.product(round % 2))) << "round " << round;
  }
}

TEST_P(DeviceConformance, KeepsManyProgramsApart) {
  std::vector<std::unique_ptr<ProductProgram>> programs;
  for (std::uint32_t n = 0; n < 70; ++n) {
    programs.push_back(std::make_unique<ProductProgram>(device()));
    programs.back()->fill(n);
    programs.back()->write();
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& program : programs) {
      poison(*program, device());
      const Status status = program->run_written(program->submission());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(same(program->output(), program->product()));
    }
  }
}

TEST_P(DeviceConformance, ReturnsOnceTheLastStoreIsInMemory) {
  LongProgram program(device(), GetParam().name);
  for (int round = 0; round < 2; ++round) {
    program.poison();
    const Status status = program.run(program.submission());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(program.output_is_right());
  }
}

TEST_P(DeviceConformance, BorrowsTheLayersForTheCallOnly) {
  ProductProgram program(device());
  program.write();
  for (const char* name : {"first", "second"}) {
    const std::vector<LayerRange> layers{{.name = name, .first = 0, .count = 7}};
    const Status status = program.run_written(program.submission(layers));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_TRUE(program.run_written(program.submission()).ok());
}

TEST_P(DeviceConformance, DoesNotWaitForTheModelledTime) {
  ProductProgram program(device());
  program.write();
  Submission submission = program.submission();
  submission.time_limit = 2s;
  submission.modelled_time = 1h;
  const Status status = program.run_written(submission);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_P(DeviceConformance, AddsHowLongItRan) {
  ProductProgram program(device());
  program.write();
  ASSERT_TRUE(device().prepare(program.submission()).ok());
  Submission submission = program.submission();
  std::chrono::nanoseconds ran{0};
  submission.ran = &ran;
  std::chrono::nanoseconds before{0};
  for (int run = 0; run < 2; ++run) {
    const Clock::time_point began = Clock::now();
    const Status status = device().run(submission);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_GT(ran, before) << "it adds to what is there";
    EXPECT_LE(ran - before, Clock::now() - began);
    before = ran;
  }
}

// ---- deadlines ---------------------------------------------------------------------------------

// Some tests need a program that takes much longer than a limit. On a busy machine it may not, so
// they try again with a longer one; a device that breaks the promise breaks it every time.

TEST_P(DeviceConformance, EndsAtItsTimeLimitAndRunsAgain) {
  Status status;
  for (const std::uint32_t times : {1, 2}) {
    LongProgram program(device(), GetParam().name, times);
    Submission submission = program.submission();
    submission.time_limit = LongProgram::kLongRun / 10;
    status = program.run(submission);
    expect_product(device());
    program.poison();
    const Status again = program.run(program.submission());
    EXPECT_TRUE(again.ok()) << again.message();
    EXPECT_TRUE(program.output_is_right());
    if (status.code() == Code::kDeadline) break;
  }
  EXPECT_EQ(status.code(), Code::kDeadline) << "the run went on beyond its limit";
  EXPECT_EQ(status.ok(), status.message().empty()) << "an error says what happened";
}

TEST_P(DeviceConformance, TakesTheLongestTimeLimit) {
  ProductProgram program(device());
  program.fill(1);
  program.write();
  Submission submission = program.submission();
  submission.time_limit = std::chrono::nanoseconds::max();
  submission.turn_deadline = Clock::time_point::max();
  const Status status = program.run_written(submission);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same(program.output(), program.product()));
}

TEST_P(DeviceConformance, CountsTheTimeLimitFromItsTurn) {
  ProductProgram program(device());
  program.fill(1);
  program.write();
  Submission submission = program.submission();
  Status status;
  for (const std::uint32_t times : {1, 4, 8}) {
    submission.time_limit = times * LongProgram::kLongRun / 2;
    Occupant occupant(device(), GetParam().name, times);
    status = program.run_written(submission);
    if (status.ok()) break;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same(program.output(), program.product()));
}

TEST_P(DeviceConformance, GivesUpWaitingAtTheTurnDeadline) {
  ProductProgram program(device());
  program.fill(1);
  program.write();
  bool gave_up = false;
  for (const std::uint32_t times : {1, 4, 8}) {
    poison(program, device());
    Occupant occupant(device(), GetParam().name, times);
    Submission submission = program.submission();
    submission.turn_deadline = Clock::now() + LongProgram::kLongRun / 6;
    const Status status = program.run_written(submission);
    gave_up = status.code() == Code::kDeadline && !occupant.ended();
    const Status other = occupant.join();
    EXPECT_TRUE(other.ok()) << other.message();
    EXPECT_TRUE(occupant.output_is_right());
    expect_product(device());
    if (!gave_up) continue;
    EXPECT_NE(status.message(), "");
    EXPECT_TRUE(same(program.output(), poisoned(device()))) << "it ran all the same";
    break;
  }
  EXPECT_TRUE(gave_up) << "it waited for the other run";
}

// ---- threads -----------------------------------------------------------------------------------

TEST_P(DeviceConformance, ServesRunsInTheOrderInWhichTheyCame) {
  // Run n replaces a shared x with 4 * x + n, so the last x shows the order of all four.
  constexpr std::int32_t kRuns = 4;
  const Accelerator& a = device().accelerator();
  const Buffer shared = *device().memory().allocate(DeviceMemory::kAlignment);
  std::vector<std::unique_ptr<ProductProgram>> programs;
  for (std::int32_t n = 0; n < kRuns; ++n) {
    programs.push_back(std::make_unique<ProductProgram>(device()));
    ProductProgram& program = *programs.back();
    for (std::uint32_t o = 0; o < a.block_out; ++o) {
      program.int8_at(ProductProgram::kWgtOffset)[o * a.block_in] = 4;
    }
    device().memory().flush(program.data.view());
    program.instructions[ProductProgram::kLoadInp].dram_base =
        static_cast<std::uint32_t>(shared.device_address() / a.inp_bytes());
    program.instructions[ProductProgram::kStore].dram_base =
        static_cast<std::uint32_t>(shared.device_address() / a.out_bytes());
    insert_after_product(program, ProductProgram::alu(AluOp::kAdd, n));
    program.write();
    ASSERT_TRUE(device().prepare(program.submission()).ok());
  }
  const int in_order = ((0 * 4 + 1) * 4 + 2) * 4 + 3;
  int found = -1;
  for (const std::uint32_t times : {1, 4, 8}) {
    shared.data()[0] = std::byte{0};
    device().memory().flush(shared.view());
    Occupant occupant(device(), GetParam().name, times);
    std::vector<std::thread> threads;
    for (const auto& program : programs) {
      std::atomic<bool> started{false};
      threads.emplace_back([&] {
        const Submission submission = program->submission();
        started = true;
        EXPECT_TRUE(device().run(submission).ok());
      });
      while (!started) std::this_thread::yield();
      std::this_thread::sleep_for(times * LongProgram::kLongRun / 12);
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(occupant.join().ok());
    device().memory().invalidate(shared.view());
    found = std::to_integer<int>(shared.data()[0]);
    if (found == in_order) break;
  }
  EXPECT_EQ(found, in_order) << "base 4: the runs in the order in which they were served";
}

TEST_P(DeviceConformance, ServesAnyThread) {
  constexpr int kThreads = 4;
  std::vector<std::unique_ptr<ProductProgram>> programs;
  for (int n = 0; n < kThreads; ++n) {
    programs.push_back(std::make_unique<ProductProgram>(device()));
  }
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      ProductProgram& program = *programs[static_cast<std::size_t>(n)];
      for (int round = 0; round < 25; ++round) {
        expect_product(device(), program, static_cast<std::uint32_t>(100 * n + round));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- errors ------------------------------------------------------------------------------------

TEST_P(DeviceConformance, RefusesInstructionsOutsideOneAllocation) {
  ProductProgram program(device());
  program.write();
  Submission released = program.submission();
  program.program = Buffer();
  const Status gone = device().run(released);
  EXPECT_EQ(gone.code(), Code::kDevice) << gone.message();
  program.write();
  Submission beyond = program.submission();
  beyond.count += DeviceMemory::kAlignment;
  const Status status = device().run(beyond);
  EXPECT_EQ(status.code(), Code::kDevice) << status.message();
  expect_product(device());
}

/// A product that may only access its own memory: micro-ops and weights, inputs, outputs.
struct FencedIn {
  explicit FencedIn(Device& device) : program(device) {
    const std::uint64_t start = program.data.device_address();
    ranges = {{.address = start, .bytes = ProductProgram::kInpOffset, .access = Access::kConstant},
              {.address = start + ProductProgram::kInpOffset,
               .bytes = ProductProgram::kOutOffset - ProductProgram::kInpOffset,
               .access = Access::kRead},
              {.address = start + ProductProgram::kOutOffset,
               .bytes = ProductProgram::kDataBytes - ProductProgram::kOutOffset}};
    program.fill(1);
  }

  /// The device's error for it, which is the same before and during the first run.
  Status refusal(Device& device) {
    program.write();
    Submission submission = program.submission();
    submission.ranges = ranges;
    const Status prepared = device.prepare(submission);
    const Status ran = program.run_written(submission);
    EXPECT_EQ(prepared.code(), ran.code()) << prepared.message() << " / " << ran.message();
    return ran;
  }

  ProductProgram program;
  std::vector<MemoryRange> ranges;
};

TEST_P(DeviceConformance, RefusesAccessToMemoryThatIsNotTheProgramsOwn) {
  // Memory of another program, which must not change.
  const Buffer other = *device().memory().allocate(DeviceMemory::kAlignment);
  const auto foreign = [&](std::uint32_t element_bytes) {
    return static_cast<std::uint32_t>(other.device_address() / element_bytes);
  };
  FencedIn fenced(device());
  ASSERT_TRUE(fenced.refusal(device()).ok()) << "the program itself is good";
  ProductProgram& program = fenced.program;
  EXPECT_TRUE(same(program.output(), program.product()));
  poison(program, device());

  struct Case {
    std::size_t instruction;
    std::uint32_t dram_base;
    const char* text;
  };
  const std::uint32_t constants = program.element(MemoryType::kOut, ProductProgram::kWgtOffset);
  const std::uint32_t inputs = program.element(MemoryType::kUop, ProductProgram::kInpOffset);
  for (const Case& test :
       {Case{ProductProgram::kStore, 0, "are not in"},
        Case{ProductProgram::kStore, foreign(device().accelerator().out_bytes()),
             "are not inside one of the program's regions"},
        Case{ProductProgram::kStore, constants, "are in a region that the program may only read"},
        Case{ProductProgram::kLoadInp, foreign(device().accelerator().inp_bytes()),
             "are not inside one of the program's regions"},
        Case{ProductProgram::kLoadUop, inputs, "which are not in a constant region"}}) {
    Instruction& instruction = program.instructions[test.instruction];
    const std::uint32_t good = std::exchange(instruction.dram_base, test.dram_base);
    const Status status = fenced.refusal(device());
    instruction.dram_base = good;
    EXPECT_EQ(status.code(), Code::kDevice) << status.message();
    EXPECT_NE(status.message().find("instruction " + std::to_string(test.instruction)),
              std::string::npos)
        << status.message();
    if (test.dram_base != 0) {
      EXPECT_NE(status.message().find(test.text), std::string::npos) << status.message();
    }
    EXPECT_TRUE(same(program.output(), poisoned(device()))) << "it ran all the same";
  }
  device().memory().invalidate(other.view());
  EXPECT_TRUE(std::all_of(other.data(), other.data() + other.bytes(),
                          [](std::byte value) { return value == std::byte{0}; }));
}

TEST_P(DeviceConformance, RefusesAProgramThatBreaksARule) {
  const auto refusal = [this](auto change) {
    FencedIn fenced(device());
    change(fenced.program.instructions);
    const Status status = fenced.refusal(device());
    EXPECT_EQ(status.code(), Code::kDevice) << status.message();
    EXPECT_NE(status.hint(), "");
    return status.message();
  };
  const auto says = [](const std::string& message, const char* text) {
    return message.find(text) != std::string::npos;
  };
  using Instructions = std::vector<Instruction>;
  std::string message =
      refusal([](Instructions& i) { i[ProductProgram::kStore].sram_base = 5000; });
  EXPECT_TRUE(says(message, "the buffer has")) << message;
  message = refusal([](Instructions& i) { i[ProductProgram::kGemm].uop_end = 7; });
  EXPECT_TRUE(says(message, "reads uop entry 1, which nothing has written")) << message;
  message = refusal([](Instructions& i) { i[ProductProgram::kGemm].push_next = 0; });
  EXPECT_TRUE(says(message, "token")) << message;
  message = refusal([](Instructions& i) { i[ProductProgram::kFinish].pop_next = 0; });
  EXPECT_FALSE(message.empty());
  expect_product(device());
}

TEST_P(DeviceConformance, RefusesAProgramThatDoesNotEndInFinish) {
  ProductProgram program(device());
  program.time_limit = 300ms;
  for (const std::size_t length : {std::size_t{ProductProgram::kFinish}, std::size_t{0}}) {
    program.instructions.resize(length);
    const Status status = program.run();
    EXPECT_FALSE(status.ok()) << length << " instructions";
    EXPECT_NE(status.message(), "");
  }
  expect_product(device());
}

}  // namespace edgepipe::conformance
