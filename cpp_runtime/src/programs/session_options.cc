#include "programs/session_options.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest_word.h"
#include "edgepipe/device_registry.h"
#include "emulation/fpga_model.h"

namespace edgepipe::programs {
namespace {

/// Reads one entry of --cores: a core, or a set such as 1-3.
bool parse_core_set(std::string_view text, std::vector<int>& cores) {
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

bool parse_cores(std::string_view text, std::vector<Pipeline::StageThread>& threads) {
  threads.clear();
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (!parse_core_set(text.substr(0, comma), threads.emplace_back().cores)) return false;
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

/// Reads names between commas; none may be empty.
bool parse_names(std::string_view text, std::vector<std::string>& names) {
  names.clear();
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma == 0) return false;
    names.emplace_back(text.substr(0, comma));
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

constexpr std::size_t kNameColumn = 13;  // characters of a device's name in the help

/// The question whether one of `names` was meant by the part of `value` before `end`; "" if that is
/// one of them, or near none.
std::string meant(std::string_view value, char end, const std::vector<std::string>& names) {
  const std::string_view name = value.substr(0, value.find(end));
  return std::ranges::find(names, name) == names.end() ? did_you_mean(name, names) : "";
}

/// What an error of --device prints.
std::string expected_device(std::string_view value) {
  std::vector<std::string> names = {"auto"};
  for (const DeviceKind& kind : DeviceRegistry::instance().kinds()) names.push_back(kind.name);
  return DeviceRegistry::instance().choices() + meant(value, ':', names);
}

/// The help of --device: a line for each registered kind.
std::string device_help() {
  std::string help = "the device that runs the VTA stages (default: auto):";
  const auto add = [&help](std::string name, const std::string& text) {
    name.resize(std::max(name.size() + 2, kNameColumn), ' ');
    help += "\n" + name + text;
  };
  add("auto", "uio if this machine has an accelerator, otherwise simulator");
  for (const DeviceKind& kind : DeviceRegistry::instance().kinds()) {
    add(kind.name + (kind.argument.empty() ? "" : ":" + kind.argument), kind.help);
  }
  return help +
         "\nuio:1 selects the second accelerator; with uio:0+1 the stages use the first two in "
         "turn. uio:shared hands it over to other processes after each run; with "
         "uio:shared,priority=N (-9 to 9, default: 0), higher ones are served first";
}

}  // namespace

void add_session_options(OptionTable& table, SessionOptions& options) {
  Session::Options& session = options.session;
  table.positional("bundle", options.bundle)
      .value("--device", "D", device_help(),
             [&session](const std::string& value) {
               Result<DeviceChoice> choice = DeviceRegistry::instance().parse(value);
               if (!choice.ok()) return expected_device(value);
               session.device = *std::move(choice);
               return std::string();
             })
      .value("--device-timeout", "S",
             "time limit for one run of a VTA stage, in seconds (default: 20 times the modelled "
             "time, at least 1; at least 10 for simulators). A device that exceeds it is reset and "
             "runs the frame again. If that fails too, the bundle's ARM kernels take over, or the "
             "run ends",
             [&session](const std::string& value) {
               double seconds = 0;
               std::string expected =
                   to_number(seconds, 0.001, 1e6, "seconds, at least 0.001")(value);
               session.device_time_limit =
                   std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
               return expected;
             })
      .value("--device-hangs", "N/RUNS",
             "give up a device after N hangs in the last RUNS runs of a stage (default: 3/20): the "
             "bundle's ARM kernels take over, or the run ends",
             [&session](const std::string& value) -> std::string {
               const std::size_t slash = std::min(value.find('/'), value.size());
               FaultPolicy& policy = session.pipeline.faults;
               const bool read =
                   parse_number(std::string_view(value).substr(0, slash), policy.most_hangs) &&
                   slash < value.size() &&
                   parse_number(std::string_view(value).substr(slash + 1), policy.runs);
               const bool good = read && policy.most_hangs >= 1 &&
                                 policy.most_hangs <= policy.runs && policy.runs <= 10'000;
               return good ? "" : "e.g. 3/20, at most 10000 runs";
             })
      .value(
          "--device-trial", "N",
          "while ARM kernels replace a device, also run every N-th frame on it, and use it again "
          "when it has given the same bytes 3 times in a row; 0: never (default: 100)",
          to_number<std::size_t>(session.pipeline.faults.trial_frames, 0, 1'000'000,
                                 "0 to 1000000"))
      .value("--fault", "F",
             "inject a fault into --device model: hang=N, stale-done=N, lost-interrupt=N or "
             "wrong-bit=N, in every N-th run (repeatable)",
             [&session](const std::string& value) -> std::string {
               if (!parse_fault(value).ok()) {
                 return "hang=N, stale-done=N, lost-interrupt=N or wrong-bit=N" +
                        meant(value, '=', {"hang", "stale-done", "lost-interrupt", "wrong-bit"});
               }
               session.faults.push_back(value);
               return "";
             })
      .value("--slots", "N",
             "number of frames in flight (default: the bundle's setting, which has fewer for a "
             "camera). With fewer, results are newer; with more, a stage waits less for the others",
             to_number<std::size_t>(session.pipeline.slots, 1, 1024, "a number from 1 to 1024"))
      .value("--cores", "LIST",
             "run stage k on the k-th entry of LIST, starting over at its end. An entry is a core "
             "or a range of cores, as in 0,1-3, and gives a stage one thread (default: the board's "
             "setting, which may give an ARM stage several threads, or one core per stage)",
             [&session](const std::string& value) -> std::string {
               if (parse_cores(value, session.pipeline.threads)) return "";
               return "core numbers, e.g. 0,1-3";
             })
      .value("--priority", "P",
             "realtime priority of the stages' threads (SCHED_FIFO): 1 to 99, or 0 for none "
             "(default: the board's setting, or 0)",
             to_number(session.pipeline.realtime_priority, 0, 99, "0 to 99"))
      .value("--policy", "FILE",
             "file that says which bundles to accept (default: /etc/edgepipe/policy; without one, "
             "all)",
             [&session](const std::string& value) {
               session.policy = value;
               return std::string();
             })
      .flag("--no-pin", "let the scheduler place the threads",
            [&session] { session.pipeline.pinning = Pipeline::Pinning::kOff; });
}

void add_selection_options(OptionTable& table, SessionOptions& options) {
  ResultSelection& selection = options.session.results.selection;
  table
      .value("--score", "S",
             "leave out boxes with a score below S, or classes with a probability below S "
             "(default: the bundle's setting)",
             to_number(selection.least_score, 0.0, 1.0, "a number from 0 to 1"))
      .value("--labels", "LIST",
             "leave out all other classes than these, e.g. person,car (default: none)",
             [&selection](const std::string& value) -> std::string {
               return parse_names(value, selection.labels) ? ""
                                                           : "names of classes, e.g. person,car";
             });
}

void add_trace_option(OptionTable& table, SessionOptions& options) {
  table.value("--trace", "FILE",
              "write a trace of when each stage ran on each frame, for https://ui.perfetto.dev or "
              "chrome://tracing. It holds the last " +
                  std::to_string(kTraceSpans) + " events",
              [&options](const std::string& value) {
                options.trace = value;
                options.session.pipeline.trace_spans = kTraceSpans;
                return std::string();
              });
}

std::string check_session_options(const SessionOptions& options) {
  const Session::Options& session = options.session;
  if (session.faults.empty()) return "";
  const Result<DeviceKind> kind = DeviceRegistry::instance().find(session.device.kind);
  return kind.ok() && kind->injects_faults ? "" : "--fault goes with --device model";
}

Status write_trace(const Status& status, Session& session, const SessionOptions& options) {
  if (!options.trace) return status;
  const Status written = session.pipeline().trace().write(*options.trace);
  return status.ok() ? written : status;
}

}  // namespace edgepipe::programs
