#include "checker/program_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"
#include "edgepipe/conformance/product_program.h"
#include "simulator/simulator.h"

namespace edgepipe {
namespace {

using conformance::ProductProgram;

class ProgramGateTest : public ::testing::Test {
 protected:
  Result<ProgramGate::Pass> admit(const ProductProgram& program) {
    const Submission submission = program.submission();
    return gate_.admit(device_->accelerator(), *memory_,
                       {.address = submission.address, .count = submission.count});
  }

  std::uint64_t number(const ProductProgram& program) {
    const Result<ProgramGate::Pass> pass = admit(program);
    EXPECT_TRUE(pass.ok()) << pass.status().message();
    return pass.ok() ? (*pass)->number : 0;
  }

  /// Programs that differ, as those of the slots of a pipeline's stages do.
  std::vector<std::unique_ptr<ProductProgram>> write(int count) {
    std::vector<std::unique_ptr<ProductProgram>> made;
    for (int n = 0; n < count; ++n) {
      made.push_back(std::make_unique<ProductProgram>(*device_));
      made.back()->write();
    }
    return made;
  }

  std::unique_ptr<HostMemory> memory_ = *HostMemory::create({.arena_bytes = std::size_t{1} << 28});
  std::unique_ptr<Device> device_ = *Simulator::create({}, *memory_);
  ProgramGate gate_;
};

TEST_F(ProgramGateTest, ChecksTheProgramsOfAPipelineOnce) {
  constexpr int kPrograms = 400;  // 50 stages with 8 slots
  const auto programs = write(kPrograms);
  std::vector<std::uint64_t> numbers;
  for (const auto& program : programs) numbers.push_back(number(*program));
  EXPECT_EQ(gate_.programs(), std::size_t{kPrograms});
  for (const auto& program : programs) number(*program);  // allocations have changed since
  const long before = conformance::allocation_count();
  for (int n = 0; n < kPrograms; ++n) {
    ASSERT_EQ(number(*programs[static_cast<std::size_t>(n)]), numbers[static_cast<std::size_t>(n)]);
  }
  EXPECT_EQ(conformance::allocation_count() - before, 0);
}

TEST_F(ProgramGateTest, ForgetsProgramsWhoseInstructionsWereReleased) {
  auto programs = write(100);
  for (const auto& program : programs) number(*program);
  programs.erase(programs.begin() + 1, programs.end());
  const auto other = write(1);
  other.front()->instructions[ProductProgram::kLoadInp].dram_base += 1;  // unlike the released ones
  other.front()->write();
  number(*other.front());
  EXPECT_EQ(gate_.programs(), 2u) << "the first and the new one";
}

TEST_F(ProgramGateTest, AnotherProgramAtTheSameAddressTakesTheOldOnesPlace) {
  auto programs = write(1);
  ProductProgram& program = *programs.front();
  const std::uint64_t first = number(program);
  const InstructionCodec codec(device_->accelerator());
  auto* const words = reinterpret_cast<InstructionWord*>(program.program.data());
  Instruction load = program.instructions[ProductProgram::kLoadInp];
  load.dram_base += 1;
  words[ProductProgram::kLoadInp] = *codec.encode(load);
  EXPECT_NE(number(program), first);
  EXPECT_EQ(gate_.programs(), 1u);
}

TEST_F(ProgramGateTest, AProgramThatIsWrittenToANewAddressIsStillKnown) {
  auto programs = write(1);
  const std::uint64_t first = number(*programs.front());
  programs.front()->write();  // the same instructions in new memory, as if bound again
  EXPECT_EQ(number(*programs.front()), first);
  EXPECT_EQ(gate_.programs(), 1u);
}

TEST_F(ProgramGateTest, APassOutlivesTheMemoryOfItsProgram) {
  auto programs = write(1);
  Result<ProgramGate::Pass> pass = admit(*programs.front());
  ASSERT_TRUE(pass.ok());
  const std::size_t steps = (*pass)->steps.size();
  programs.clear();
  {
    const auto others = write(2);
    for (const auto& other : others) number(*other);
    EXPECT_EQ((*pass)->steps.size(), steps);
    EXPECT_EQ(gate_.programs(), 3u) << "two, and the one in use";
    const ProgramGate::Pass ended = *std::move(pass);
  }
  EXPECT_EQ(gate_.programs(), 2u);
}

}  // namespace
}  // namespace edgepipe
