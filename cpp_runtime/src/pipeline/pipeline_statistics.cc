#include "edgepipe/pipeline_statistics.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/console.h"

namespace edgepipe {
namespace {

template <typename... Values>
void append(std::string& text, const char* format, Values... values) {
  char line[256];
  const int length = std::snprintf(line, sizeof(line), format, values...);
  if (length > 0) text.append(line, std::min(sizeof(line) - 1, static_cast<std::size_t>(length)));
}

/// "-", "2", or "1-3" and "0,2" for sets.
std::string core_text(const std::vector<int>& cores) {
  if (cores.empty()) return "-";
  const bool is_range = cores.back() - cores.front() == static_cast<int>(cores.size()) - 1;
  std::string text = std::to_string(cores.front());
  if (is_range && cores.size() > 1) return text + "-" + std::to_string(cores.back());
  for (std::size_t index = 1; index < cores.size(); ++index) {
    text += "," + std::to_string(cores[index]);
  }
  return text;
}

void append_row(std::string& text, const std::string& name, const char* core,
                const DurationSummary& times) {
  append(text, "%-24.24s %4s %8llu %9.3f %9.3f %9.3f %9.3f %9.3f", name.c_str(), core,
         static_cast<unsigned long long>(times.count), times.min_ms, times.median_ms, times.p95_ms,
         times.p99_ms, times.max_ms);
}

nlohmann::ordered_json to_json(const DurationSummary& times) {
  return {{"count", times.count},    {"min_ms", times.min_ms}, {"median_ms", times.median_ms},
          {"p95_ms", times.p95_ms},  {"p99_ms", times.p99_ms}, {"max_ms", times.max_ms},
          {"mean_ms", times.mean_ms}};
}

}  // namespace

std::string PipelineStatistics::json() const {
  nlohmann::ordered_json all = {{"submitted", submitted},
                                {"delivered", delivered},
                                {"dropped", dropped},
                                {"failed", failed},
                                {"in_flight", in_flight},
                                {"slots", slots},
                                {"latency", to_json(latency)},
                                {"elapsed_s", elapsed_s},
                                {"frames_per_second", frames_per_second},
                                {"stages", nlohmann::ordered_json::array()}};
  for (const StageStatistics& stage : stages) {
    all["stages"].push_back({{"name", stage.name},
                             {"cores", stage.cores},
                             {"busy", to_json(stage.busy)},
                             {"utilisation", stage.utilisation},
                             {"waiting", stage.waiting},
                             {"device_wait_s", stage.device_wait_s},
                             {"device_run_s", stage.device_run_s},
                             {"hangs", stage.hangs},
                             {"retries", stage.retries},
                             {"fallback_frames", stage.fallback_frames},
                             {"fault", stage.fault}});
  }
  return all.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::string PipelineStatistics::table() const {
  std::string text;
  append(text, "%-24s %4s %8s %9s %9s %9s %9s %9s %6s\n", "stage (ms)", "core", "frames", "min",
         "median", "p95", "p99", "max", "busy");
  for (const StageStatistics& stage : stages) {
    append_row(text, printable(stage.name), core_text(stage.cores).c_str(), stage.busy);
    append(text, " %5.1f%%\n", stage.utilisation * 100);
  }
  append_row(text, "submit to result", "", latency);
  for (const StageStatistics& stage : stages) {
    if (stage.fault.empty()) continue;
    text += "\n" + printable(stage.name) + ": " + std::to_string(stage.retries) +
            " frames run again, " + std::to_string(stage.fallback_frames) + " on its fallback\n";
  }
  append(text, "\n%llu submitted = %llu delivered + %llu dropped + %llu failed",
         static_cast<unsigned long long>(submitted), static_cast<unsigned long long>(delivered),
         static_cast<unsigned long long>(dropped), static_cast<unsigned long long>(failed));
  if (in_flight > 0) {
    append(text, " + %llu in flight", static_cast<unsigned long long>(in_flight));
  }
  append(text, "; %.2f frames/s over %.3f s\n", frames_per_second, elapsed_s);
  return text;
}

}  // namespace edgepipe
