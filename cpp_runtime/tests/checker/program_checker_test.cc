// Every rule of the hardware: a program that breaks it is refused, with the position and the
// values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "support/vta_program.h"

namespace edgepipe {
namespace {

using ::edgepipe::testing::VtaProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ProgramChecker, AcceptsTheUnchangedProgram) {
  VtaProgram p;
  const Status status = p.run();
  EXPECT_TRUE(status.ok()) << status.message();
}

constexpr auto kTable = static_cast<std::uint32_t>(Extension::kTable);

Instruction look_up() { return VtaProgram::alu(AluOp::kTable, 0); }

Instruction load_table(const VtaProgram& p, std::uint32_t elements) {
  Instruction load = p.transfer(Opcode::kLoad, MemoryType::kTable, VtaProgram::kWgtOffset);
  load.x_size = elements;
  return load;
}

void expect_refused(VtaProgram& program, const std::string& text) {
  const Status status = program.run();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(ProgramChecker, NamesInstructionLayerAndText) {
  VtaProgram p;
  p.instructions[VtaProgram::kStore].sram_base = 5000;
  const std::vector<LayerRange> layers{{.name = "conv_1", .first = 0, .count = 7}};
  EXPECT_THAT(p.run(layers).message(),
              AllOf(HasSubstr("instruction 5 (layer conv_1) STORE OUT sram 5000"),
                    HasSubstr("SRAM entries [5000, 5001) of OUT, the buffer has 2048")));
}

// ---- encoding ----------------------------------------------------------------------------------

TEST(ProgramChecker, RefusesAnUnknownOpcode) {
  VtaProgram p;
  const std::vector<InstructionWord> words{{.low = 6, .high = 0}};
  EXPECT_THAT(p.run_words(words).message(), HasSubstr("instruction 0: opcode 6 does not exist"));
}

TEST(ProgramChecker, RefusesBitsOutsideTheFields) {
  VtaProgram p;
  const std::vector<InstructionWord> words{{.low = 3, .high = 1}};
  EXPECT_THAT(p.run_words(words).message(), HasSubstr("bits outside the instruction's fields"));
}

// ---- the whole program -------------------------------------------------------------------------

TEST(ProgramChecker, RefusesAnEmptyProgram) {
  VtaProgram p;
  p.program = *p.memory->allocate(16);
  const Status status = p.simulator->run({.address = p.program.device_address(), .count = 0});
  EXPECT_THAT(status.message(), HasSubstr("the program is empty"));
}

TEST(ProgramChecker, ReportsTokenUnderflowAsADeadlock) {
  VtaProgram p;
  p.instructions[VtaProgram::kLoadInp].push_next = 0;
  expect_refused(p, "compute: instruction 4 GEMM");
  expect_refused(p, "waits for a token from load; store: instruction 5");
}

TEST(ProgramChecker, ReportsADeadlockOfFullCommandQueues) {
  Accelerator accelerator;
  accelerator.command_queue_depth = 2;
  VtaProgram p(accelerator);
  // Compute waits for a load that fetch cannot reach: the compute queue is full before it.
  const Instruction load = p.instructions[VtaProgram::kLoadInp];
  p.instructions.erase(p.instructions.begin() + VtaProgram::kLoadInp);
  p.instructions.insert(p.instructions.begin() + 3, p.instructions[3]);
  p.instructions.insert(p.instructions.begin() + 5, VtaProgram::alu(AluOp::kAdd, 1));
  p.instructions.insert(p.instructions.begin() + 6, load);
  expect_refused(p, "deadlock after 5 of 9 instructions were fetched");
}

TEST(ProgramChecker, ReportsADeadlockOfAFullQueueOfLoads) {
  for (const std::uint32_t depth : {4U, 3U}) {
    VtaProgram p({.load_queue_depth = depth});
    // The first load waits for compute, which fetch reaches only past three more.
    Instruction load = p.instructions[VtaProgram::kLoadInp];
    load.push_next = 0;
    p.instructions[VtaProgram::kReset].push_prev = 1;
    p.insert(0, load);
    load.pop_next = 1;
    p.insert(0, load);
    const Status status = p.run();
    EXPECT_EQ(status.ok(), depth == 4) << status.message();
    if (depth == 3) EXPECT_THAT(status.message(), HasSubstr("deadlock after 4 of 9"));
  }
}

TEST(ProgramChecker, ReportsADeadlockOfAFullTokenQueue) {
  Accelerator accelerator;
  accelerator.token_queue_depth = 1;
  VtaProgram p(accelerator);
  Instruction idle = p.instructions[VtaProgram::kReset];
  idle.push_prev = 1;
  p.insert(VtaProgram::kGemm, idle);
  p.insert(VtaProgram::kGemm, idle);
  expect_refused(p, "waits for room in the token queue to load");
}

// ---- programs that break one rule and keep all others ------------------------------------------

struct Broken {
  const char* rule;
  void (*change)(VtaProgram& p);
  const char* text;  // in the error
  Accelerator accelerator = {};
};

const Broken kBroken[] = {
    // the whole program
    {"AnAluInstructionHasNoReset",
     [](VtaProgram& p) {
       Instruction alu = VtaProgram::alu(AluOp::kAdd, 1);
       alu.reset = 1;
       p.insert(VtaProgram::kGemm, alu);
     },
     "reset on an ALU instruction"},
    {"FinishIsTheEnd", [](VtaProgram& p) { p.instructions.pop_back(); },
     "the program does not end with FINISH"},
    {"FinishIsOnlyAtTheEnd",
     [](VtaProgram& p) { p.insert(VtaProgram::kGemm, {.opcode = Opcode::kFinish}); },
     "FINISH before the program's end, 3 instructions follow"},
    {"FinishWaitsForTheStore",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kStore].push_prev = 0;
       p.instructions[VtaProgram::kFinish].pop_next = 0;
     },
     "no token makes FINISH wait for the last 1 of 1 instructions of the store"},
    {"NoTokensAreLeftOver", [](VtaProgram& p) { p.instructions[VtaProgram::kGemm].push_prev = 1; },
     "tokens left over at FINISH: 0 from load to compute, 1 from compute to load"},
    {"NoTokensGoBeforeTheLoad",
     [](VtaProgram& p) { p.instructions[VtaProgram::kLoadWgt].push_prev = 1; },
     "the load module has no token queue on that side"},
    {"NoTokensComeFromBehindTheStore",
     [](VtaProgram& p) { p.instructions[VtaProgram::kStore].pop_next = 1; },
     "the store module has no token queue on that side"},

    // bounds
    {"PadsFitSram",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kLoadInp].sram_base = 2047;
       p.instructions[VtaProgram::kLoadInp].x_pad_1 = 1;
     },
     "SRAM entries [2047, 2049) of INP, the buffer has 2048"},
    {"DeviceMemoryIsAllocated",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kStore].dram_base =
           p.element(MemoryType::kOut, std::size_t{1} << 19);
     },
     "is not inside one allocation"},
    {"UopsAreInTheirBuffer",
     [](VtaProgram& p) { p.instructions[VtaProgram::kGemm].uop_end = 8193; },
     "uop range [0, 8193), the buffer has 8192"},
    {"UopRangesGoForward", [](VtaProgram& p) { p.instructions[VtaProgram::kGemm].uop_begin = 2; },
     "uop range [2, 1)"},
    {"LoopsStayInInp",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kLoadInp].y_size = 2048;  // with stride 0: one row, all entries
       p.instructions[VtaProgram::kLoadInp].x_stride = 0;
       p.instructions[VtaProgram::kGemm].iter_out = 4;
       p.instructions[VtaProgram::kGemm].src_factor_out = 1024;
     },
     "inp entry 2048, the buffer has 2048",
     {.acc_hazard_steps = 1}},
    {"LoopsStayInWgt",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kLoadWgt].y_size = 1024;
       p.instructions[VtaProgram::kLoadWgt].x_stride = 0;
       p.instructions[VtaProgram::kGemm].iter_out = 4;
       p.instructions[VtaProgram::kGemm].wgt_factor_out = 512;
     },
     "wgt entry 1024, the buffer has 1024",
     {.acc_hazard_steps = 1}},
    {"LoopsStayInAcc",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kReset].iter_out = 4;
       p.instructions[VtaProgram::kReset].dst_factor_out = 1024;
     },
     "acc entry 2048, the buffer has 2048"},

    // reads of what nothing has written
    {"UopsAreLoaded", [](VtaProgram& p) { p.instructions[VtaProgram::kReset].uop_end = 2; },
     "reads uop entry 1, which nothing has written"},
    {"InpIsLoaded", [](VtaProgram& p) { p.instructions[VtaProgram::kLoadInp].sram_base = 1; },
     "reads inp entry 0, which nothing has written"},
    {"WgtIsLoaded", [](VtaProgram& p) { p.instructions[VtaProgram::kLoadWgt].sram_base = 1; },
     "reads wgt entry 0, which nothing has written"},
    {"AccIsWritten",
     [](VtaProgram& p) { p.instructions[VtaProgram::kReset] = VtaProgram::alu(AluOp::kAdd, 1); },
     "reads acc entry 0, which nothing has written"},
    {"TableIsLoaded",
     [](VtaProgram& p) { p.insert(VtaProgram::kStore, look_up()); },
     "reads table entry 0, which nothing has written",
     {.extensions = kTable}},
    {"TheWholeTableIsLoaded",
     [](VtaProgram& p) {
       p.insert(VtaProgram::kStore, look_up());
       p.insert(VtaProgram::kStore, load_table(p, 63));
     },
     "reads table entry 63, which nothing has written",
     {.extensions = kTable}},
    {"TablesStayInTheirBuffer",
     [](VtaProgram& p) { p.insert(VtaProgram::kStore, load_table(p, 65)); },
     "SRAM entries [0, 65) of TABLE, the buffer has 64",
     {.extensions = kTable}},
    {"TablesAreOneRow",
     [](VtaProgram& p) {
       p.insert(VtaProgram::kStore, load_table(p, 1));
       p.instructions[VtaProgram::kStore].y_size = 2;
     },
     "2 rows of a table, a TABLE load has one",
     {.extensions = kTable}},
    {"TablesHaveNoPads",
     [](VtaProgram& p) {
       p.insert(VtaProgram::kStore, load_table(p, 1));
       p.instructions[VtaProgram::kStore].x_pad_0 = 1;
     },
     "pads on a TABLE load, which this revision ignores",
     {.extensions = kTable}},
    {"OutIsWritten", [](VtaProgram& p) { p.instructions[VtaProgram::kStore].sram_base = 1; },
     "reads out entry 1, which nothing has written"},
    {"OutIsNotOnlyReset", [](VtaProgram& p) { p.instructions[VtaProgram::kGemm].reset = 1; },
     "out entry 0, which a GEMM reset left undefined"},

    // what implementations read differently
    {"AnImmediateReadsWhereItWrites",
     [](VtaProgram& p) {
       Instruction alu = VtaProgram::alu(AluOp::kAdd, 1);
       alu.iter_in = 2;
       alu.src_factor_in = 1;
       p.insert(VtaProgram::kGemm, alu);
     },
     "an immediate whose src differs from dst",
     {.implementation = Implementation::kChisel}},

    // order
    {"ATokenPutsAReadAfterTheLoad",
     [](VtaProgram& p) {  // the token is pushed before the tile is loaded
       std::swap(p.instructions[VtaProgram::kLoadWgt].push_next,
                 p.instructions[VtaProgram::kLoadInp].push_next);
     },
     "reads inp entry 0 while instruction 2 LOAD INP"},
    {"ATokenPutsALoadAfterTheRead",
     [](VtaProgram& p) {
       Instruction again = p.instructions[VtaProgram::kLoadInp];
       again.push_next = 0;
       p.insert(VtaProgram::kStore, again);
     },
     "no token orders the two"},
    {"ATokenPutsAStoreAfterTheGemm",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kReset].push_next = 1;
       p.instructions[VtaProgram::kGemm].push_next = 0;
     },
     "no token orders the two"},
    {"ATokenPutsAWriteToOutAfterTheStore",
     [](VtaProgram& p) { p.insert(VtaProgram::kFinish, VtaProgram::alu(AluOp::kAdd, 1)); },
     "no token orders the two"},
    {"NoProgramWritesItsOwnUops",
     [](VtaProgram& p) {
       p.instructions[VtaProgram::kStore].dram_base = p.element(MemoryType::kOut, 0);
     },
     "a program must not write its own uops"},
};

class ProgramRule : public ::testing::TestWithParam<Broken> {};

TEST_P(ProgramRule, IsChecked) {
  VtaProgram p(GetParam().accelerator);
  GetParam().change(p);
  expect_refused(p, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(Rules, ProgramRule, ::testing::ValuesIn(kBroken),
                         [](const auto& broken) { return std::string(broken.param.rule); });

// ---- pads --------------------------------------------------------------------------------------

TEST(ProgramChecker, RefusesPadsWhereTheHardwareIgnoresThem) {
  VtaProgram weights;
  weights.instructions[VtaProgram::kLoadWgt].x_pad_0 = 1;
  expect_refused(weights, "pads on a WGT load");

  VtaProgram acc;
  Instruction load = acc.instructions[VtaProgram::kLoadUop];
  load.memory_type = MemoryType::kAcc;
  load.dram_base = acc.element(MemoryType::kAcc, VtaProgram::kInpOffset);
  load.y_pad_0 = 1;
  acc.insert(VtaProgram::kReset, load);
  expect_refused(acc, "pads on a ACC load, which this revision ignores");

  VtaProgram newer({.revision = Revision::k0_0_2});
  load.dram_base = newer.element(MemoryType::kAcc, VtaProgram::kInpOffset);
  newer.insert(VtaProgram::kReset, load);
  EXPECT_TRUE(newer.run().ok());

  VtaProgram store;
  store.instructions[VtaProgram::kStore].y_pad_1 = 1;
  expect_refused(store, "pads on a STORE");
}

// ---- order -------------------------------------------------------------------------------------

TEST(ProgramChecker, LetsAnIdentityWaitForTheStore) {
  VtaProgram p;
  p.insert(VtaProgram::kFinish, VtaProgram::alu(AluOp::kAdd, 0));
  const Status status = p.run();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ProgramChecker, RefusesALoadOfMemoryThatAnUnorderedStoreWrites) {
  VtaProgram p;
  Instruction load = p.instructions[VtaProgram::kLoadInp];
  load.push_next = 0;
  load.dram_base = p.instructions[VtaProgram::kStore].dram_base;
  load.sram_base = 7;
  p.insert(VtaProgram::kFinish, load);
  expect_refused(p, "device memory at");
}

// Loads of memory that no range lets the program write need no look at its stores.
TEST(ProgramChecker, RefusesItInARangeForReadingThatOverlapsOneForWriting) {
  VtaProgram p;
  Instruction load = p.instructions[VtaProgram::kLoadInp];
  load.push_next = 0;
  load.dram_base = p.element(MemoryType::kInp, VtaProgram::kOutOffset) - 1;
  load.x_size = 2;
  load.sram_base = 6;
  p.insert(VtaProgram::kFinish, load);
  p.write();
  const std::uint64_t address = p.data.device_address();
  const MemoryRange output{address + VtaProgram::kOutOffset, p.accelerator.out_bytes(),
                           Access::kReadWrite};
  const MemoryRange data{address, VtaProgram::kDataBytes, Access::kConstant};
  Submission submission = p.submission();
  const std::array overlapping = {output, data};
  submission.ranges = overlapping;
  EXPECT_THAT(p.run_written(submission).message(), HasSubstr("device memory at"));
}

// ---- acc hazards -------------------------------------------------------------------------------

TEST(ProgramChecker, RefusesTwoCloseStepsOnOneAccEntry) {
  VtaProgram p;
  p.instructions[VtaProgram::kGemm].iter_in = 2;
  expect_refused(p, "acc entry 0 is used 1 steps after this instruction wrote it, the pipeline " +
                        std::string("needs 8"));
}

TEST(ProgramChecker, AllowsThemWhenThePipelineIsShort) {
  VtaProgram p({.acc_hazard_steps = 1});
  p.instructions[VtaProgram::kGemm].iter_in = 2;
  EXPECT_TRUE(p.run().ok());
}

TEST(ProgramChecker, RefusesAnAluStepThatReadsWhatAnEarlierOneWrote) {
  VtaProgram p;
  p.instructions[VtaProgram::kReset].iter_in = 4;
  p.instructions[VtaProgram::kReset].dst_factor_in = 1;
  Instruction alu = VtaProgram::alu(AluOp::kAdd, 0);
  alu.use_imm = 0;
  alu.iter_in = 2;
  alu.dst_factor_in = 1;  // step 1 writes entry 1 and reads entry 0
  p.insert(VtaProgram::kGemm, alu);
  expect_refused(p, "acc entry 0 is used 1 steps");
}

// ---- copies at other addresses, as the programs of other slots are ------------------------------

TEST(ProgramChecker, AcceptsACopyAtOtherAddressesAndRunsItThere) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  *p.int8_at(VtaProgram::kInpOffset + 2048) = 3;
  *p.int8_at(VtaProgram::kWgtOffset) = 5;
  p.instructions[VtaProgram::kLoadInp].dram_base =
      p.element(MemoryType::kInp, VtaProgram::kInpOffset + 2048);
  p.instructions[VtaProgram::kStore].dram_base =
      p.element(MemoryType::kOut, VtaProgram::kOutOffset + 2048);
  const Status status = p.run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(*p.int8_at(VtaProgram::kOutOffset + 2048), 15);
}

TEST(ProgramChecker, RefusesACopyThatLeavesItsMemory) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  p.instructions[VtaProgram::kStore].dram_base =
      p.element(MemoryType::kOut, VtaProgram::kDataBytes + (1 << 20));
  expect_refused(p, "instruction 5 STORE OUT");
}

TEST(ProgramChecker, RefusesACopyThatWritesItsOwnUops) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  p.instructions[VtaProgram::kStore].dram_base =
      p.element(MemoryType::kOut, VtaProgram::kUopOffset);
  expect_refused(p, "a program must not write its own uops");
}

TEST(ProgramChecker, ChecksACopyWithOtherUopsFromTheBeginning) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  const InstructionCodec codec(p.accelerator);
  const std::uint32_t uop = *codec.encode_uop({.dst = 0, .src = 7, .wgt = 0});
  std::memcpy(p.data.data() + VtaProgram::kUopOffset + 64, &uop, sizeof(uop));
  p.instructions[VtaProgram::kLoadUop].dram_base =
      p.element(MemoryType::kUop, VtaProgram::kUopOffset + 64);
  expect_refused(p, "reads inp entry 7, which nothing has written");
}

TEST(ProgramChecker, ChecksAProgramThatIsNotACopyFromTheBeginning) {
  VtaProgram p;
  ASSERT_TRUE(p.run().ok());
  p.instructions[VtaProgram::kGemm].pop_prev = 0;
  p.instructions[VtaProgram::kLoadInp].push_next = 0;
  expect_refused(p, "no token orders the two");
}

}  // namespace
}  // namespace edgepipe
