// What a run used: which device ran the VTA stages, which a golden run checks, and memory.
//
//   std::fprintf(stderr, "%s\n", device_line("uio", statistics).c_str());
//   // VTA stages ran on: uio, but 'body' ran 8 of 8 frames on its ARM fallback
//   Status status = check_device("uio", statistics);  // kDevice: the run does not prove the device
#pragma once

#include <string>
#include <string_view>

#include "edgepipe/pipeline_statistics.h"
#include "edgepipe/status.h"

namespace edgepipe::programs {

/// Names the device and every stage that did not run all its frames there.
std::string device_line(std::string_view device, const PipelineStatistics& statistics);

/// The last line of a run with --json: the statistics, the device, and the most memory that this
/// process has used in bytes (0 if the kernel does not say).
std::string json_account(std::string_view device, const PipelineStatistics& statistics);

/// OK if every VTA stage ran on its device without a fault; kDevice names the first that did not.
Status check_device(std::string_view device, const PipelineStatistics& statistics);

}  // namespace edgepipe::programs
