#include "simulator_module.h"

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "emulation/cost_model.h"
#include "emulation/program_timing.h"
#include "methods.h"
#include "simulator/simulator.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

std::vector<MemoryRange> ranges_of(const std::string& text) {
  std::vector<MemoryRange> ranges;
  for (const nlohmann::json& range : nlohmann::json::parse(text)) {
    const auto kind = range.at(2).get<std::string>();
    ranges.push_back({.address = range.at(0).get<std::uint64_t>(),
                      .bytes = range.at(1).get<std::size_t>(),
                      .access = kind == "const"   ? Access::kConstant
                                : kind == "input" ? Access::kRead
                                                  : Access::kReadWrite});
  }
  return ranges;
}

class SimulatorModule final : public Methods<SimulatorModule> {
 public:
  SimulatorModule(std::unique_ptr<HostMemory> memory, std::unique_ptr<Simulator> simulator)
      : memory_(std::move(memory)), simulator_(std::move(simulator)) {}

  static std::span<const Method> methods() {
    static constexpr std::array kMethods = {
        entry<&SimulatorModule::allocate>("allocate"), entry<&SimulatorModule::free>("free"),
        entry<&SimulatorModule::write>("write"), entry<&SimulatorModule::read>("read"),
        entry<&SimulatorModule::run>("run")};
    return kMethods;
  }

  const char* kind() const final { return "edgepipe_simulator"; }

 private:
  std::int64_t allocate(std::int64_t bytes) {
    Buffer buffer = value_of(memory_->allocate(static_cast<std::size_t>(bytes)));
    const std::uint64_t address = buffer.device_address();
    buffers_.emplace(address, std::move(buffer));
    return static_cast<std::int64_t>(address);
  }

  void free(std::int64_t address) {
    if (buffers_.erase(static_cast<std::uint64_t>(address)) == 1) return;
    check(Status(Code::kInvalidArgument,
                 "no allocation starts at device address " + std::to_string(address)));
  }

  void write(std::int64_t address, ffi::AnyView array) {
    const Content content(array);
    const std::span<const std::byte> bytes = content.bytes();
    std::byte* const memory = at(address, bytes.size());
    if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  }

  void read(std::int64_t address, const ffi::TensorView& tensor) {
    const std::span<std::byte> bytes = memory_of(tensor);
    const std::byte* const memory = at(address, bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), memory, bytes.size());
  }

  void run(std::int64_t address, std::int64_t count, double timeout_s,
           const std::string& ranges_json) {
    const std::vector<MemoryRange> ranges = ranges_of(ranges_json);
    Submission submission{.address = static_cast<std::uint64_t>(address),
                          .count = static_cast<std::uint32_t>(count),
                          .ranges = ranges};
    if (timeout_s > 0) {
      submission.time_limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(timeout_s));
    }
    check(simulator_->run(submission));
  }

  std::byte* at(std::int64_t address, std::size_t bytes) {
    return value_of(memory_->translate(static_cast<std::uint64_t>(address), bytes));
  }

  std::unique_ptr<HostMemory> memory_;
  std::unique_ptr<Simulator> simulator_;
  std::map<std::uint64_t, Buffer> buffers_;  // by device address
};

}  // namespace

ffi::Module open_simulator(const std::string& accelerator_json, const std::string& kernel,
                           std::int64_t arena_bytes, std::int64_t base_address) {
  const Accelerator accelerator = value_of(parse_accelerator(accelerator_json));
  auto memory =
      value_of(HostMemory::create({.arena_bytes = static_cast<std::size_t>(arena_bytes),
                                   .base_address = static_cast<std::uint64_t>(base_address)}));
  auto simulator = value_of(Simulator::create(accelerator, *memory, {.kernel = kernel}));
  return ffi::Module(ffi::make_object<SimulatorModule>(std::move(memory), std::move(simulator)));
}

std::int64_t modelled_cycles(const std::string& accelerator_json, const std::string& timing_json,
                             ffi::AnyView program) {
  const Accelerator accelerator = value_of(parse_accelerator(accelerator_json));
  const CostModel cost = value_of(parse_cost_model(timing_json));
  const Content content(program);
  std::vector<InstructionWord> words(content.bytes().size() / sizeof(InstructionWord));
  std::memcpy(words.data(), content.bytes().data(), words.size() * sizeof(InstructionWord));
  return static_cast<std::int64_t>(value_of(program_cycles(accelerator, cost, words)));
}

std::string describe_accelerator(const std::string& accelerator_json) {
  const Accelerator accelerator = value_of(parse_accelerator(accelerator_json));
  const InstructionCodec codec(accelerator);
  nlohmann::json table = nlohmann::json::object();
  for (const Opcode opcode :
       {Opcode::kLoad, Opcode::kStore, Opcode::kGemm, Opcode::kFinish, Opcode::kAlu}) {
    nlohmann::json& rows = table[std::string(to_string(opcode))] = nlohmann::json::array();
    for (const auto& field : codec.fields(opcode)) {
      rows.push_back({std::string(field.name), field.word, field.bit, field.bits});
    }
  }
  return nlohmann::json{{"kernels", Simulator::kernel_names(accelerator)},
                        {"instructions", std::move(table)}}
      .dump();
}

}  // namespace edgepipe::binding
