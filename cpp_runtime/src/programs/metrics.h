// Metrics of a running program in Prometheus's text format, version 0.0.4.
//
//   std::string text = metrics_text({.network = "nanodet", .device = "uio", .pipeline = ...});
//
// https://prometheus.io/docs/instrumenting/exposition_formats/ has the format. Names follow
// Prometheus's conventions: base units, _total for what only grows. docs/guides/monitoring.md lists
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/temperatures.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/pipeline_statistics.h"
#include "media/sinks/video_stream.h"

namespace edgepipe {

/// What a program has measured.
struct Measured {
  std::string network;
  std::string device;  // of the VTA stages
  PipelineStatistics pipeline;
  SourceCounters source;
  std::uint64_t damaged = 0;  // pictures that could not be decoded
  std::optional<StreamCounters> stream = {};
  std::vector<Temperature> temperatures;
};

/// All of it, with this process's memory and processor time.
std::string metrics_text(const Measured& measured);

}  // namespace edgepipe
