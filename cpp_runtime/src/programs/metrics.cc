#include "programs/metrics.h"

#include <time.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/process_memory.h"
#include "bundle/fingerprint.h"

namespace edgepipe {
namespace {

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::initializer_list<Label>;

/// The text: families of samples, each with its type and what it means.
class Exposition {
 public:
  /// Begins a family; the following samples belong to it.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help);
    text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(Labels labels, double value, std::string_view suffix = "") {
    text_.append(name_).append(suffix);
    char separator = '{';
    for (const Label& label : labels) {
      text_.append(1, separator).append(label.name).append("=\"");
      for (const char c : label.value) append_escaped(c);
      text_.append("\"");
      separator = ',';
    }
    if (separator == ',') text_.append("}");
    text_.append(" ").append(number(value)).append("\n");
  }

  void sample(Labels labels, std::uint64_t value, std::string_view suffix = "") {
    sample(labels, static_cast<double>(value), suffix);
  }

  /// A family of one sample without labels.
  template <typename Value>
  void single(std::string_view name, std::string_view type, std::string_view help, Value value) {
    family(name, type, help);
    sample({}, value);
  }

  /// The shortest text that reads back as `value`.
  static std::string number(double value) {
    std::array<char, 32> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), error == std::errc() ? end : digits.data()};
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void append_escaped(char c) {
    if (c == '\n') {
      text_.append("\\n");
      return;
    }
    if (c == '\\' || c == '"') text_.append("\\");
    text_.append(1, c);
  }

  std::string text_;
  std::string name_;
};

constexpr const char* kCounter = "counter";
constexpr const char* kGauge = "gauge";

double total_s(const DurationSummary& times) {
  return times.mean_ms * static_cast<double>(times.count) / 1e3;
}

void add_frames(Exposition& out, const PipelineStatistics& pipeline) {
  out.single("edgepipe_frames_submitted_total", kCounter, "Frames given to the pipeline.",
             pipeline.submitted);
  out.single("edgepipe_frames_delivered_total", kCounter, "Frames whose results were taken.",
             pipeline.delivered);
  out.single("edgepipe_frames_dropped_total", kCounter,
             "Frames given up because the run ended or an earlier frame failed.", pipeline.dropped);
  out.single("edgepipe_frames_failed_total", kCounter, "Frames that failed.", pipeline.failed);
  out.single("edgepipe_frames_in_flight", kGauge, "Frames in the pipeline.", pipeline.in_flight);
  out.single("edgepipe_slots", kGauge, "Frames that the pipeline can hold.", pipeline.slots);
  out.family("edgepipe_frame_latency_seconds", "histogram",
             "Time from giving a frame to the pipeline until its last stage has ended.");
  for (std::size_t index = 0; index < kLatencyBounds_ms.size(); ++index) {
    const std::string bound = Exposition::number(kLatencyBounds_ms[index] / 1e3);
    out.sample({{"le", bound}}, pipeline.latency_within[index], "_bucket");
  }
  out.sample({{"le", "+Inf"}}, pipeline.latency.count, "_bucket");
  out.sample({}, total_s(pipeline.latency), "_sum");
  out.sample({}, pipeline.latency.count, "_count");
}

void add_stages(Exposition& out, const std::vector<StageStatistics>& stages) {
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    out.family(name, type, help);
    for (const StageStatistics& stage : stages) {
      out.sample({{"stage", stage.name}}, value(stage));
    }
  };
  using Stage = StageStatistics;
  each("edgepipe_stage_runs_total", kCounter, "Runs of a stage.",
       [](const Stage& stage) { return stage.busy.count; });
  each("edgepipe_stage_busy_seconds_total", kCounter, "Time in which a stage ran.",
       [](const Stage& stage) { return total_s(stage.busy); });
  each("edgepipe_stage_device_wait_seconds_total", kCounter,
       "Time in which a stage waited for a device that others used; it counts as busy.",
       [](const Stage& stage) { return stage.device_wait_s; });
  each("edgepipe_stage_device_run_seconds_total", kCounter,
       "Time in which a stage's device worked, from its start to its end; it counts as busy.",
       [](const Stage& stage) { return stage.device_run_s; });
  each("edgepipe_stage_waiting_frames", kGauge, "Frames that are ready for a stage.",
       [](const Stage& stage) { return stage.waiting; });
  each("edgepipe_stage_hangs_total", kCounter, "Runs of a device that exceeded their time limit.",
       [](const Stage& stage) { return stage.hangs; });
  each("edgepipe_stage_retries_total", kCounter, "Runs repeated after a fault of the device.",
       [](const Stage& stage) { return stage.retries; });
  each("edgepipe_stage_fallback_frames_total", kCounter,
       "Frames that ARM kernels computed instead of the accelerator.",
       [](const Stage& stage) { return stage.fallback_frames; });
}

void add_source(Exposition& out, const SourceCounters& source, std::uint64_t damaged) {
  out.single("edgepipe_source_captured_total", kCounter, "Complete pictures that arrived.",
             source.captured);
  out.single("edgepipe_source_taken_total", kCounter, "Pictures that the pipeline took.",
             source.taken);
  out.single("edgepipe_source_dropped_total", kCounter,
             "Pictures replaced by newer ones before they were taken.", source.dropped);
  out.single("edgepipe_source_missed_total", kCounter,
             "Pictures that the driver lost or marked as damaged.", source.missed);
  out.single("edgepipe_source_damaged_total", kCounter, "Pictures that could not be decoded.",
             damaged);
  out.single("edgepipe_source_silences_total", kCounter,
             "Times that no picture came within the time limit.", source.silences);
  out.single("edgepipe_source_reconnects_total", kCounter, "Times that it was opened again.",
             source.reconnects);
  out.single("edgepipe_source_outage_seconds", kGauge,
             "Time since the last picture of a source that has failed; 0 while it works.",
             static_cast<double>(source.outage.count()) / 1e3);
}

void add_stream(Exposition& out, const StreamCounters& stream) {
  out.single("edgepipe_stream_sent_total", kCounter,
             "Frames of the video stream given to ffmpeg, repeated ones too.", stream.sent);
  out.single("edgepipe_stream_dropped_total", kCounter,
             "Frames of the video stream dropped because ffmpeg or the server did not take them.",
             stream.dropped);
  out.single("edgepipe_stream_reconnects_total", kCounter,
             "Times that the video stream worked again after it had failed.", stream.reconnects);
  out.single("edgepipe_stream_outage_seconds", kGauge,
             "Time since the video stream has failed; 0 while it works.",
             static_cast<double>(stream.outage.count()) / 1e3);
}

void add_process(Exposition& out) {
  timespec used{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
    out.single("process_cpu_seconds_total", kCounter, "Processor time of this program.",
               static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9);
  }
  if (const Result<std::uint64_t> bytes = resident_bytes(); bytes.ok()) {
    out.single("process_resident_memory_bytes", kGauge, "Resident memory of this program.", *bytes);
  }
}

}  // namespace

std::string metrics_text(const Measured& measured) {
  Exposition out;
  out.family("edgepipe_info", kGauge, "The network that runs, and what runs it; always 1.");
  out.sample({{"network", measured.network}, {"device", measured.device}, {"version", kVersion}},
             std::uint64_t{1});
  add_frames(out, measured.pipeline);
  add_stages(out, measured.pipeline.stages);
  add_source(out, measured.source, measured.damaged);
  if (measured.stream) add_stream(out, *measured.stream);
  if (!measured.temperatures.empty()) {
    out.family("edgepipe_temperature_celsius", kGauge, "Temperatures that the kernel shows.");
    for (const Temperature& one : measured.temperatures) {
      out.sample({{"sensor", one.sensor}, {"type", one.type}}, one.celsius);
    }
  }
  add_process(out);
  return out.take();
}

}  // namespace edgepipe
