// The options that edgepipe-run and edgepipe-cam share: what runs the stages, and on which cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "command_line.h"
#include "edgepipe/session.h"

namespace edgepipe::programs {

constexpr const char* kSessionHelp =
    R"(  --device D      what runs the VTA stages: uio (this machine's accelerator), simulator,
                  timed (the simulator, no faster than the board by its timing model),
                  model (the board's driver on a model of the FPGA), driver:PATH (a shared
                  library with the functions of VTA's driver.h) or auto: uio if there is
                  one (default: auto). uio:1 is the second of its kind, with uio:0+1
                  the stages take two in turn
  --device-timeout S
                  seconds that one run of a VTA stage may take (default: 10). After them
                  the device is reset and the frame run once more; then the bundle's ARM
                  kernels take over, or the run ends
  --fault F       what goes wrong in the model: hang=N, stale-done=N or lost-interrupt=N,
                  in every N-th run (repeatable)
  --cores LIST    e.g. 0,1-3: stage k runs on the k-th core, or set of cores, of the list,
                  round and round, with one thread (default: as the board's file says, where
                  an ARM stage may have several; else one core each)
  --priority P    realtime priority of the stages' threads, 1 to 99 (SCHED_FIFO), or 0 for
                  none (default: as the board's file says, else 0)
  --no-pin        let the scheduler place the threads
)";

/// What the options of either program begin with.
struct SharedOptions {
  std::string bundle;
  std::optional<std::string> trace;  // file
  Session::Options session;
};

/// Reads one entry of --cores: a core, or a set such as 1-3.
inline bool parse_core_set(std::string_view text, std::vector<int>& cores) {
  constexpr int kMost = 1023;
  const std::size_t dash = std::min(text.find('-'), text.size());
  int first = -1;
  if (!parse_number(text.substr(0, dash), first) || first < 0) return false;
  int last = first;
  if (dash < text.size() && !parse_number(text.substr(dash + 1), last)) return false;
  if (last < first || last > kMost) return false;
  for (int core = first; core <= last; ++core) cores.push_back(core);
  return true;
}

inline bool parse_cores(std::string_view text, std::vector<Pipeline::StageThread>& threads) {
  threads.clear();
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (!parse_core_set(text.substr(0, comma), threads.emplace_back().cores)) return false;
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

/// Sets a shared option that takes a value. Returns an error text if the value or the option is
/// wrong.
inline std::string set_shared_option(std::string_view name, const std::string& value,
                                     SharedOptions& shared) {
  Session::Options& options = shared.session;
  const auto refuse = [&](const std::string& expected) {
    return std::string(name) + ": found '" + value + "', expected " + expected;
  };
  if (name == "--device") {
    const Result<DeviceChoice> device = parse_device_choice(value);
    if (!device.ok()) return refuse(kDeviceChoices);
    options.device = *device;
  } else if (name == "--device-timeout") {
    double seconds = 0;
    if (!parse_number(value, seconds) || !(seconds >= 0.001) || seconds > 1e6) {
      return refuse("seconds, from 0.001 up");
    }
    options.device_time_limit = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  } else if (name == "--fault") {
    const Result<Fault> fault = parse_fault(value);
    if (!fault.ok()) return refuse("hang=N, stale-done=N or lost-interrupt=N");
    options.faults.push_back(*fault);
  } else if (name == "--cores") {
    if (!parse_cores(value, options.pipeline.threads)) return refuse("core numbers, e.g. 0,1-3");
  } else if (name == "--priority") {
    int priority = -1;
    if (!parse_number(value, priority) || priority < 0 || priority > 99) return refuse("0 to 99");
    options.pipeline.realtime_priority = priority;
  } else if (name == "--trace") {
    shared.trace = value;
    options.pipeline.trace_spans = kTraceSpans;
  } else {
    return "unknown option '" + std::string(name) + "'";
  }
  return {};
}

/// Sets a shared option without a value; false when `name` is none.
inline bool set_shared_flag(std::string_view name, SharedOptions& shared) {
  if (name != "--no-pin") return false;
  shared.session.pipeline.pinning = Pipeline::Pinning::kOff;
  return true;
}

/// An error text, empty when the shared options make sense together.
inline std::string check_shared_options(const SharedOptions& shared) {
  const Session::Options& options = shared.session;
  if (!options.faults.empty() && options.device.kind != DeviceKind::kModel) {
    return "--fault goes with --device model";
  }
  return {};
}

/// Writes the trace of a run that ended with `status`, if one is wanted: of a run that failed it
/// shows where. Returns the first failure.
inline Status write_trace(const Status& status, Session& session, const SharedOptions& options) {
  if (!options.trace) return status;
  const Status written = session.pipeline().trace().write(*options.trace);
  return status.ok() ? written : status;
}

}  // namespace edgepipe::programs
