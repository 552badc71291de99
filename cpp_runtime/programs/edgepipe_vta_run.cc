// edgepipe-vta-run: runs a raw VTA program on the board's accelerator through the real driver, for
// bring-up and tests. MEMORY is an image; the program's dram_base fields are relative to its start.
//
//   edgepipe-vta-run --accelerator=FILE.json --insns=FILE --memory=FILE --output=FILE
//                    [--runs=N] [--deadline-ms=N] [--poll]
//   edgepipe-vta-run --accelerator=FILE.json --registers [--rtl=LIBRARY]
//
// With --registers it runs nothing and writes to no register, and prints what the FPGA says of
// itself as one JSON object, {"own": false} for a published bitstream: see print_registers. With
// --rtl, the registers are those of the Verilated accelerator in LIBRARY.
//
// Otherwise, every run starts from the same image and must leave the same memory, which is written
// to OUTPUT. One JSON object with the counts is printed to stdout. Exit codes: 0 success (missed
// deadlines are counted but not fatal), 1 failure or differing runs, 2 wrong use.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/console.h"
#include "base/guarded_main.h"
#include "device/own_registers.h"
#include "device/uio.h"
#include "device/uio_device.h"
#include "device/vta_registers.h"
#include "emulation/rtl_core.h"
#include "isa/image_relocation.h"

namespace {

using edgepipe::Code;
using edgepipe::InstructionWord;
using edgepipe::Result;
using edgepipe::Status;

constexpr const char* kProgram = "edgepipe-vta-run";
constexpr const char* kUsage =
    "usage: edgepipe-vta-run --accelerator=FILE.json --insns=FILE --memory=FILE --output=FILE\n"
    "                        [--runs=N] [--deadline-ms=N] [--poll]\n"
    "       edgepipe-vta-run --accelerator=FILE.json --registers [--rtl=LIBRARY]\n";

using Count = unsigned long long;  // printf's type for a std::uint64_t
using Values = std::map<std::string, std::string>;

std::optional<Values> parse(int argc, char** argv) {
  Values values{{"runs", "1"}, {"deadline-ms", "1000"}};
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (!text.starts_with("--")) return std::nullopt;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos && text != "--poll" && text != "--registers") {
      return std::nullopt;
    }
    values[text.substr(2, equals == std::string::npos ? equals : equals - 2)] =
        equals == std::string::npos ? "" : text.substr(equals + 1);
  }
  if (values.contains("registers")) {
    const std::size_t expected = values.contains("rtl") ? 5 : 4;
    const bool known = values.contains("accelerator") && values.size() == expected;
    return known ? std::optional(values) : std::nullopt;
  }
  for (const char* name : {"accelerator", "insns", "memory", "output"}) {
    if (!values.contains(name)) return std::nullopt;
  }
  return values.size() <= 7 ? std::optional(values) : std::nullopt;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::kNotFound, path + ": cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<edgepipe::Accelerator> read_accelerator(const Values& values) {
  Result<std::string> description = read_file(values.at("accelerator"));
  if (!description.ok()) return description.status();
  return edgepipe::parse_accelerator(*description);
}

/// The registers of a Verilated accelerator.
class CoreRegisters final : public edgepipe::RegisterFile {
 public:
  explicit CoreRegisters(std::unique_ptr<edgepipe::RtlCore> core) : core_(std::move(core)) {}
  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const override {
    return core_->read(offset);
  }
  void write(std::uint32_t offset, std::uint32_t value) override { core_->write(offset, value); }

 private:
  const std::unique_ptr<edgepipe::RtlCore> core_;
};

Result<std::unique_ptr<edgepipe::RegisterFile>> open_registers(const Values& values) {
  if (values.contains("rtl")) {
    auto core = edgepipe::RtlCore::open(values.at("rtl"), {}, 0);
    if (!core.ok()) return core.status();
    return std::unique_ptr<edgepipe::RegisterFile>(new CoreRegisters(*std::move(core)));
  }
  const edgepipe::UioOptions board;
  Result<edgepipe::UioInfo> info =
      edgepipe::find_uio(board.registers, board.classes, board.devices, board.index);
  if (!info.ok()) return info.status();
  auto registers = edgepipe::UioRegisters::open(*info, edgepipe::vta::kBytes);
  if (!registers.ok()) return registers.status();
  return std::unique_ptr<edgepipe::RegisterFile>(*std::move(registers));
}

/// Prints what the FPGA says of itself, and under "differs" and "remedy" how that differs from the
/// accelerator.
Status print_registers(const Values& values) {
  Result<edgepipe::Accelerator> accelerator = read_accelerator(values);
  if (!accelerator.ok()) return accelerator.status();
  auto registers = open_registers(values);
  if (!registers.ok()) return registers.status();
  const std::optional<edgepipe::OwnHardware> own = edgepipe::read_own_hardware(**registers);
  nlohmann::ordered_json report{{"own", own.has_value()}};
  if (own) {
    const Status status = edgepipe::check_own_hardware(*own, *accelerator);
    report.update({{"map_version", own->map_version},
                   {"revision", own->encoding_text()},
                   {"configuration", own->configuration},
                   {"capabilities", own->capability_names()},
                   {"error", own->error},
                   {"differs", status.message()},
                   {"remedy", status.hint()}});
  }
  edgepipe::print_line(stdout, report.dump());
  return {};
}

Status run(const Values& values) {
  Result<edgepipe::Accelerator> accelerator = read_accelerator(values);
  if (!accelerator.ok()) return accelerator.status();
  Result<std::string> insns = read_file(values.at("insns"));
  if (!insns.ok()) return insns.status();
  Result<std::string> image = read_file(values.at("memory"));
  if (!image.ok()) return image.status();

  auto opened = edgepipe::open_uio_memory({});
  if (!opened.ok()) return opened.status();
  edgepipe::DeviceMemory& memory = **opened;
  auto device =
      edgepipe::open_uio_device(*accelerator, memory, {.interrupt = !values.contains("poll")});
  if (!device.ok()) return device.status();
  Result<edgepipe::Buffer> program = memory.allocate(insns->size());
  if (!program.ok()) return program.status();
  Result<edgepipe::Buffer> data = memory.allocate(image->size());
  if (!data.ok()) return data.status();
  const std::size_t count = insns->size() / sizeof(InstructionWord);
  std::memcpy(program->data(), insns->data(), insns->size());
  const std::span words(reinterpret_cast<InstructionWord*>(program->data()), count);
  if (Status status = edgepipe::relocate_image(*accelerator, data->device_address(), words);
      !status.ok()) {
    return status;
  }
  memory.flush(program->view());

  const long runs = std::strtol(values.at("runs").c_str(), nullptr, 10);
  const std::chrono::milliseconds deadline(
      std::strtol(values.at("deadline-ms").c_str(), nullptr, 10));
  std::optional<std::string> result;
  std::uint64_t ended = 0;
  std::uint64_t late = 0;
  std::uint64_t different = 0;
  const auto began = std::chrono::steady_clock::now();
  for (long i = 0; i < runs; ++i) {
    std::memcpy(data->data(), image->data(), image->size());
    memory.flush(data->view());
    const Status status = (*device)->run({.address = program->device_address(),
                                          .count = static_cast<std::uint32_t>(count),
                                          .time_limit = deadline});
    if (status.code() == Code::kDeadline) {
      ++late;
      continue;
    }
    if (!status.ok()) return status.with_context("run " + std::to_string(i));
    ++ended;
    memory.invalidate(data->view());
    const std::string after(reinterpret_cast<const char*>(data->data()), data->bytes());
    if (!result) result = after;
    if (after != *result) ++different;
  }
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - began;
  const edgepipe::HardwareDevice::Statistics statistics = (*device)->statistics();
  std::array<char, 512> line{};
  std::snprintf(
      line.data(), line.size(),
      "{\"runs\": %ld, \"ended\": %llu, \"late\": %llu, \"different\": %llu, \"stale_done\": %llu, "
      "\"lost_interrupts\": %llu, \"resets\": %llu, \"mean_us\": %.1f}",
      runs, Count(ended), Count(late), Count(different), Count(statistics.stale_done),
      Count(statistics.lost_interrupts), Count(statistics.resets),
      runs > 0 ? elapsed.count() / double(runs) : 0.0);
  edgepipe::print_line(stdout, line.data());
  if (different > 0) return {Code::kDevice, "runs of the same program differ"};
  if (!result) return {Code::kDeadline, "no run ended within its deadline"};
  std::ofstream output(values.at("output"), std::ios::binary);
  output.write(result->data(), static_cast<std::streamsize>(result->size()));
  if (!output.flush()) return {Code::kInvalidArgument, values.at("output") + ": cannot be written"};
  return {};
}

int vta_run_main(int argc, char** argv) {
  const std::optional<Values> values = parse(argc, argv);
  if (!values) {
    edgepipe::print_lines(stderr, kUsage);
    return 2;
  }
  const Status status = values->contains("registers") ? print_registers(*values) : run(*values);
  if (status.ok()) return 0;
  edgepipe::print_failure(kProgram, status);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return edgepipe::guarded_main(kProgram, [&] { return vta_run_main(argc, argv); });
}
