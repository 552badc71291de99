#include "programs/device_account.h"

#include <nlohmann/json.hpp>

#include "base/process_memory.h"

namespace edgepipe::programs {

std::string device_line(std::string_view device, const PipelineStatistics& statistics) {
  std::string line = "VTA stages ran on: " + std::string(device);
  const char* joint = ", but '";
  for (const StageStatistics& stage : statistics.stages) {
    if (stage.fallback_frames == 0) continue;
    line += joint + stage.name + "' ran " + std::to_string(stage.fallback_frames) + " of " +
            std::to_string(stage.busy.count) + " frames on its ARM fallback";
    joint = ", '";
  }
  return line;
}

std::string json_account(std::string_view device, const PipelineStatistics& statistics) {
  const Result<std::uint64_t> memory = peak_resident_bytes();
  const nlohmann::json name = std::string(device);
  return R"({"statistics":)" + statistics.json() + R"(,"device":)" +
         name.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
         R"(,"peak_memory_bytes":)" + std::to_string(memory.ok() ? *memory : 0) + "}";
}

Status check_device(std::string_view device, const PipelineStatistics& statistics) {
  for (const StageStatistics& stage : statistics.stages) {
    if (stage.fault.empty()) continue;
    return {Code::kDevice,
            "the outputs are right, but stage '" + stage.name + "' did not run on " +
                std::string(device) + " without a fault (" + std::to_string(stage.retries) +
                " frames run again, " + std::to_string(stage.fallback_frames) +
                " on its fallback): " + stage.fault,
            "examine the board with `edgepipe doctor`"};
  }
  return {};
}

}  // namespace edgepipe::programs
