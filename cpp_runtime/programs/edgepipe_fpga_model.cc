// edgepipe-fpga-model: the virtual board's FPGA. Maps the guest's memory, waits until the driver
// starts the accelerator through its registers, runs the program on the simulator, or on edgepipe's
// own hardware compiled by Verilator, and raises the interrupt. Ends with QEMU. `edgepipe
// virtual-board` starts it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/console.h"
#include "base/guarded_main.h"
#include "device/vta_registers.h"
#include "emulation/cost_model.h"
#include "emulation/fpga_model.h"
#include "emulation/guest_memory.h"
#include "emulation/programmable_logic.h"
#include "emulation/qtest_interrupt.h"
#include "emulation/rtl_core.h"
#include "emulation/rtl_fpga.h"
#include "simulator/simulator.h"

namespace {

using edgepipe::Code;
using edgepipe::Result;
using edgepipe::Status;

constexpr const char* kProgram = "edgepipe-fpga-model";
constexpr const char* kUsage =
    "usage: edgepipe-fpga-model --memory=FILE --registers=ADDRESS --interrupt=SPI --qtest=SOCKET\n"
    "                           [--configured=ADDRESS]\n"
    "                           --accelerator=FILE.json [--timing=FILE.json] [--fault=KIND=N ...]\n"
    "                           | --rtl=LIBRARY\n";

// What the board's FPGA manager writes to the word at --configured (memory_map.py). Without that
// option, the FPGA is configured from the start.
constexpr std::uint32_t kConfigured = 0x56544121;

struct Arguments {
  std::map<std::string, std::string> values;
  std::vector<edgepipe::Fault> faults;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    if (!text.starts_with("--") || equals == std::string::npos) return std::nullopt;
    const std::string name = text.substr(2, equals - 2);
    const std::string value = text.substr(equals + 1);
    if (name == "fault") {
      Result<edgepipe::Fault> fault = edgepipe::parse_fault(value);
      if (!fault.ok()) {
        edgepipe::print_failure(kProgram, fault.status());
        return std::nullopt;
      }
      arguments.faults.push_back(*fault);
    } else {
      arguments.values[name] = value;
    }
  }
  for (const char* name : {"memory", "registers", "interrupt", "qtest"}) {
    if (!arguments.values.contains(name)) return std::nullopt;
  }
  // The simulator knows costs and faults; the hardware is as it is.
  const bool rtl = arguments.values.contains("rtl");
  if (rtl == arguments.values.contains("accelerator")) return std::nullopt;
  if (rtl && !arguments.faults.empty()) return std::nullopt;
  const std::size_t optional =
      arguments.values.count("configured") + (rtl ? 0 : arguments.values.count("timing"));
  return arguments.values.size() == 5 + optional ? std::optional(arguments) : std::nullopt;
}

// Polls often while there is work, and less often the longer it is idle.
class Pace {
 public:
  /// An accelerator whose runs are timed should see their starts soon.
  explicit Pace(bool timed) : busy_(timed ? 10 : 100) {}

  void wait(bool worked) {
    const auto now = std::chrono::steady_clock::now();
    if (worked) last_work_ = now;
    std::this_thread::sleep_for(
        now - last_work_ < std::chrono::seconds(2) ? busy_ : std::chrono::microseconds(2000));
  }

 private:
  std::chrono::microseconds busy_;
  std::chrono::steady_clock::time_point last_work_ = std::chrono::steady_clock::now();
};

Result<std::string> content_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void print_event(const std::string& event) { edgepipe::print_line(stderr, event); }

struct Place {
  edgepipe::GuestMemory& memory;
  std::span<std::byte> registers;
  edgepipe::InterruptLine& interrupt;
};

class SimulatedFpga final : public edgepipe::ProgrammableLogic {
 public:
  static Result<std::unique_ptr<edgepipe::ProgrammableLogic>> open(const Arguments& arguments,
                                                                   const Place& place) {
    const std::map<std::string, std::string>& values = arguments.values;
    const Result<std::string> text = content_of(values.at("accelerator"));
    if (!text.ok()) return text.status();
    Result<edgepipe::Accelerator> accelerator = edgepipe::parse_accelerator(*text);
    if (!accelerator.ok()) return accelerator.status();
    std::optional<edgepipe::CostModel> timing;
    if (values.contains("timing")) {
      const Result<std::string> costs = content_of(values.at("timing"));
      if (!costs.ok()) return costs.status();
      Result<edgepipe::CostModel> parsed = edgepipe::parse_cost_model(*costs);
      if (!parsed.ok()) return parsed.status();
      timing = *parsed;
    }
    auto simulator = edgepipe::Simulator::create(*accelerator, place.memory);
    if (!simulator.ok()) return simulator.status();
    print_event("ready: " + accelerator->configuration());
    edgepipe::FpgaModel::Options options{
        .faults = arguments.faults, .timing = timing, .on_event = print_event};
    return std::unique_ptr<edgepipe::ProgrammableLogic>(
        new SimulatedFpga(*std::move(simulator), place, options));
  }
  Result<bool> step() override { return model_.step(); }
  [[nodiscard]] std::uint64_t runs() const override { return model_.runs(); }

 private:
  SimulatedFpga(std::unique_ptr<edgepipe::Simulator> simulator, const Place& place,
                const edgepipe::FpgaModel::Options& options)
      : simulator_(std::move(simulator)),
        model_(*simulator_, place.registers, place.interrupt, options) {}

  const std::unique_ptr<edgepipe::Simulator> simulator_;
  edgepipe::FpgaModel model_;
};

class VerilatedFpga final : public edgepipe::ProgrammableLogic {
 public:
  static Result<std::unique_ptr<edgepipe::ProgrammableLogic>> open(const std::string& library,
                                                                   const Place& place) {
    auto core = edgepipe::RtlCore::open(library, place.memory.bytes(), place.memory.base_address());
    if (!core.ok()) return core.status();
    print_event("ready: " + library);
    return std::unique_ptr<edgepipe::ProgrammableLogic>(new VerilatedFpga(*std::move(core), place));
  }
  Result<bool> step() override { return fpga_.step(); }
  [[nodiscard]] std::uint64_t runs() const override { return fpga_.runs(); }

 private:
  VerilatedFpga(std::unique_ptr<edgepipe::RtlCore> core, const Place& place)
      : core_(std::move(core)),
        fpga_(*core_, place.registers, place.interrupt, {.on_event = print_event}) {}

  const std::unique_ptr<edgepipe::RtlCore> core_;
  edgepipe::RtlFpga fpga_;
};

Status serve(const Arguments& arguments) {
  const std::map<std::string, std::string>& values = arguments.values;
  Result<edgepipe::SharedMapping> mapping = edgepipe::SharedMapping::open(values.at("memory"), {});
  if (!mapping.ok()) return mapping.status();
  edgepipe::GuestMemory memory(*std::move(mapping));
  const std::uint64_t address = std::strtoull(values.at("registers").c_str(), nullptr, 0);
  Result<std::byte*> registers = memory.translate(address, edgepipe::vta::kBytesWithReset);
  if (!registers.ok()) return registers.status().with_context("registers");
  const auto spi =
      static_cast<std::uint32_t>(std::strtoul(values.at("interrupt").c_str(), nullptr, 0));
  auto interrupt = edgepipe::QtestInterrupt::connect(values.at("qtest"), spi);
  if (!interrupt.ok()) return interrupt.status();
  const Place place{.memory = memory,
                    .registers = std::span(*registers, edgepipe::vta::kBytesWithReset),
                    .interrupt = **interrupt};
  Result<std::unique_ptr<edgepipe::ProgrammableLogic>> fpga =
      values.contains("rtl") ? VerilatedFpga::open(values.at("rtl"), place)
                             : SimulatedFpga::open(arguments, place);
  if (!fpga.ok()) return fpga.status();
  std::byte* configured = nullptr;
  if (values.contains("configured")) {
    const std::uint64_t word = std::strtoull(values.at("configured").c_str(), nullptr, 0);
    Result<std::byte*> found = memory.translate(word, sizeof(kConfigured));
    if (!found.ok()) return found.status().with_context("configured");
    configured = *found;
    std::memset(configured, 0, sizeof(kConfigured));  // memory outlives a reset
  }
  Pace pace(values.contains("timing"));
  while ((*interrupt)->open()) {
    if (configured != nullptr) {
      std::uint32_t value = 0;
      std::memcpy(&value, configured, sizeof(value));
      if (value != kConfigured) {
        pace.wait(false);
        continue;
      }
      print_event("configured");
      configured = nullptr;
    }
    Result<bool> worked = (*fpga)->step();
    if (worked.status().code() == Code::kClosed) break;
    if (!worked.ok()) return worked.status();
    if (values.contains("rtl") && *worked) continue;  // its clock never waits
    pace.wait(*worked);
  }
  print_event(std::to_string((*fpga)->runs()) + " runs; QEMU has ended");
  return {};
}

int fpga_model_main(int argc, char** argv) {
  const std::optional<Arguments> arguments = parse(argc, argv);
  if (!arguments) {
    edgepipe::print_lines(stderr, kUsage);
    return 2;
  }
  const Status status = serve(*arguments);
  if (status.ok()) return 0;
  edgepipe::print_failure(kProgram, status);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return edgepipe::guarded_main(kProgram, [&] { return fpga_model_main(argc, argv); });
}
