// edgepipe-arm-stage: runs one ARM stage on files, to compare and time kernels on a board.
//
//   edgepipe-arm-stage [--threads N] FOLDER FRAMES FILE...
//
// FILEs are the raw inputs, then the files for the outputs, in the plan's order. The stage runs
// FRAMES times on N threads (default: one). The median time in microseconds is printed to standard
// output.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/console.h"
#include "base/guarded_main.h"
#include "stage/arm_stage.h"
#include "stage/core_team.h"

namespace edgepipe {
namespace {

constexpr const char* kProgram = "edgepipe-arm-stage";
constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

struct FreeMemory {
  void operator()(std::byte* memory) const {
    ::operator delete (memory, std::align_val_t{ArmPlan::kAlignment});
  }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

Memory allocate(std::size_t bytes) {
  return Memory(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{ArmPlan::kAlignment})));
}

Status read_file(const std::string& path, std::byte* data, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(bytes));
  if (!file || file.peek() != std::ifstream::traits_type::eof()) {
    return Status(Code::kInvalidArgument,
                  path + ": cannot be read, or does not have " + std::to_string(bytes) + " bytes");
  }
  return {};
}

Status write_file(const std::string& path, const std::byte* data, std::size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  file.close();
  if (!file) return Status(Code::kInvalidArgument, path + ": cannot be written");
  return {};
}

Status run(const std::string& folder, std::size_t frames, std::size_t threads,
           const std::vector<std::string>& files) {
  Result<std::unique_ptr<CoreTeam>> team =
      CoreTeam::start({.name = "arm-stage", .threads = threads, .cores = {}});
  if (!team.ok()) return team.status();
  const CoreTeam::Membership member(team->get());
  Result<std::unique_ptr<ArmStage>> opened = ArmStage::open(folder);
  if (!opened.ok()) return opened.status();
  ArmStage& stage = **opened;
  const std::size_t input_count = stage.inputs().size();
  if (files.size() != input_count + stage.outputs().size()) {
    return Status(Code::kInvalidArgument, folder + ": found " + std::to_string(files.size()) +
                                              " files, expected " + std::to_string(input_count) +
                                              " inputs and " +
                                              std::to_string(stage.outputs().size()) + " outputs");
  }
  std::vector<Memory> memory;
  std::vector<BufferView> views;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t bytes =
        i < input_count ? stage.inputs()[i].bytes : stage.outputs()[i - input_count].bytes;
    memory.push_back(allocate(bytes));
    views.push_back({.data = memory.back().get(), .device_address = 0, .bytes = bytes});
    if (i < input_count) {
      if (Status s = read_file(files[i], views[i].data, bytes); !s.ok()) return s;
    }
  }
  const std::span<const BufferView> all(views);
  if (Status s = stage.bind(0, all.first(input_count), all.subspan(input_count)); !s.ok()) return s;
  std::vector<double> times_us;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const auto start = std::chrono::steady_clock::now();
    if (Status s = stage.run(0); !s.ok()) return s;
    const auto time = std::chrono::steady_clock::now() - start;
    times_us.push_back(std::chrono::duration<double, std::micro>(time).count());
  }
  for (std::size_t i = input_count; i < files.size(); ++i) {
    if (Status s = write_file(files[i], views[i].data, views[i].bytes); !s.ok()) return s;
  }
  const auto median = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 2);
  std::nth_element(times_us.begin(), median, times_us.end());
  print_line(stdout, std::to_string(*median));
  return {};
}

/// The whole number in `text`; 0 if it is malformed.
std::size_t whole(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::size_t threads = 1;
  if (arguments.size() > 1 && arguments[0] == "--threads") {
    threads = whole(arguments[1]);
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  const std::size_t frames = arguments.size() > 1 ? whole(arguments[1]) : 0;
  if (arguments.size() < 3 || frames == 0 || threads == 0) {
    print_line(stderr, "usage: edgepipe-arm-stage [--threads N] FOLDER FRAMES INPUT... OUTPUT...");
    return kWrongUse;
  }
  const Status status =
      run(arguments[0], frames, threads, {arguments.begin() + 2, arguments.end()});
  if (status.ok()) return 0;
  print_failure(kProgram, status);
  return kFailed;
}

}  // namespace
}  // namespace edgepipe

int main(int argc, char** argv) {
  return edgepipe::guarded_main(edgepipe::kProgram, [&] { return edgepipe::main(argc, argv); });
}
