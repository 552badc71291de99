#include "programs/metrics.h"

#include <gtest/gtest.h>

namespace edgepipe {
namespace {

std::string line_of(const std::string& text, const std::string& start) {
  const std::size_t begin = text.find("\n" + start);
  if (begin == std::string::npos) return "";
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST(MetricsTest, CountersAndLabelsAreLines) {
  Measured measured{.network = "net", .device = "simulator"};
  measured.pipeline.delivered = 12;
  measured.pipeline.stages.push_back({.name = "vta0"});
  measured.pipeline.stages.back().busy = {.count = 4, .mean_ms = 2.5};
  measured.pipeline.stages.back().device_wait_s = 0.004;
  measured.pipeline.stages.back().device_run_s = 0.25;
  measured.source.outage = std::chrono::milliseconds(1500);
  measured.damaged = 3;
  const std::string text = metrics_text(measured);
  EXPECT_EQ(line_of(text, "edgepipe_frames_delivered_total"), "edgepipe_frames_delivered_total 12");
  EXPECT_EQ(line_of(text, "edgepipe_stage_busy_seconds_total"),
            R"(edgepipe_stage_busy_seconds_total{stage="vta0"} 0.01)");
  EXPECT_EQ(line_of(text, "edgepipe_stage_device_wait_seconds_total"),
            R"(edgepipe_stage_device_wait_seconds_total{stage="vta0"} 0.004)");
  EXPECT_EQ(line_of(text, "edgepipe_stage_device_run_seconds_total"),
            R"(edgepipe_stage_device_run_seconds_total{stage="vta0"} 0.25)");
  EXPECT_EQ(line_of(text, "edgepipe_source_outage_seconds"), "edgepipe_source_outage_seconds 1.5");
  EXPECT_EQ(line_of(text, "edgepipe_source_damaged_total"), "edgepipe_source_damaged_total 3");
  EXPECT_NE(line_of(text, "process_resident_memory_bytes"), "");
  EXPECT_EQ(line_of(text, "edgepipe_temperature_celsius"), "");
}

TEST(MetricsTest, LatenciesAreAHistogram) {
  Measured measured;
  measured.pipeline.latency = {.count = 3, .mean_ms = 4};
  measured.pipeline.latency_within.fill(2);
  const std::string text = metrics_text(measured);
  EXPECT_EQ(line_of(text, "edgepipe_frame_latency_seconds_bucket{le=\"0.0025\"}"),
            "edgepipe_frame_latency_seconds_bucket{le=\"0.0025\"} 2");
  EXPECT_EQ(line_of(text, "edgepipe_frame_latency_seconds_bucket{le=\"+Inf\"}"),
            "edgepipe_frame_latency_seconds_bucket{le=\"+Inf\"} 3");
  EXPECT_EQ(line_of(text, "edgepipe_frame_latency_seconds_sum"),
            "edgepipe_frame_latency_seconds_sum 0.012");
}

TEST(MetricsTest, LabelsAreEscaped) {
  EXPECT_NE(metrics_text({.network = "a\"b\\c\nd"}).find(R"(network="a\"b\\c\nd")"),
            std::string::npos);
}

}  // namespace
}  // namespace edgepipe
