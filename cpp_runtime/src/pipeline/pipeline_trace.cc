#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/open_failure.h"
#include "edgepipe/pipeline_statistics.h"

namespace edgepipe {
namespace {

// Thread numbers in the trace: the source, then the stages' threads. The pipeline is the process.
constexpr std::size_t kSourceThread = 1;
constexpr std::size_t kFirstStageThread = 2;

/// One line of the trace. `number` is the frame, an arrow's id, or a counter's value.
struct Event {
  enum class Kind : std::uint8_t { kSlice, kArrowTail, kArrowHead, kBegin, kEnd, kCounter };
  Clock::time_point at;
  std::uint64_t number = 0;
  Clock::duration duration{};         // slices only
  const std::string* name = nullptr;  // as JSON, with quotes
  std::uint32_t thread = 0;
  Kind kind = Kind::kSlice;
  bool failed = false;
};

/// The spans of one frame; null if there is none (yet).
struct FrameSpans {
  const Span* fill = nullptr;
  const Span* take = nullptr;
  std::vector<const Span*> stages;

  [[nodiscard]] bool finished() const {
    return std::ranges::all_of(stages, [](const Span* s) { return s != nullptr && !s->failed; });
  }
  [[nodiscard]] Clock::time_point end() const {
    return (*std::ranges::max_element(stages, {}, [](const Span* s) { return s->end; }))->end;
  }
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(const PipelineTrace& trace) : trace_(trace) {
    for (const PipelineTrace::Stage& stage : trace.stages) {
      stage_names_.push_back(quoted(stage.name));
      waiting_names_.push_back(quoted("waiting for " + stage.name));
    }
    for (const Span& span : trace.spans) {
      if (span.frame < trace.first_frame) continue;
      FrameSpans& frame = frames_[span.frame];
      frame.stages.resize(trace.stages.size());
      if (span.kind == Span::Kind::kFill) {
        frame.fill = &span;
      } else if (span.kind == Span::Kind::kTake) {
        frame.take = &span;
      } else {
        frame.stages[span.stage] = &span;
      }
    }
  }

  std::string run() {
    for (const auto& [number, frame] : frames_) {
      add_slices(number, frame);
      add_arrows(frame);
      add_asynchronous(number, frame);
    }
    add_counters();
    std::ranges::stable_sort(events_, {}, &Event::at);
    append(R"({"displayTimeUnit":"ms","otherData":{"first_frame":%llu,"frames":%zu},)"
           "\n\"traceEvents\":[\n",
           static_cast<unsigned long long>(trace_.first_frame), frames_.size());
    name_threads();
    for (const Event& event : events_) append_event(event);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <typename... Values>
  void append(const char* format, Values... values) {
    char line[160];
    const int length = std::snprintf(line, sizeof(line), format, values...);
    if (length > 0)
      text_.append(line, std::min(sizeof(line) - 1, static_cast<std::size_t>(length)));
  }

  /// The track of a stage's span.
  static std::uint32_t track_of(const Span& span) {
    return static_cast<std::uint32_t>(kFirstStageThread + span.thread);
  }

  void name_threads() {
    text_ += R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"edgepipe pipeline"}})";
    for (std::size_t index = 0; index <= trace_.threads.size(); ++index) {
      append(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%zu,\"args\":{\"name\":",
             kSourceThread + index);
      text_ += quoted(index == 0 ? "source" : "stage thread " + trace_.threads[index - 1]);
      append(
          "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":%zu,"
          "\"args\":{\"sort_index\":%zu}}",
          kSourceThread + index, kSourceThread + index);
    }
  }

  void append_event(const Event& event) {
    constexpr const char* kPhases[] = {"X", "s", "f", "b", "e", "C"};
    const auto micros = [](Clock::duration duration) {
      return std::chrono::duration<double, std::micro>(duration).count();
    };
    append(",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"name\":",
           kPhases[static_cast<std::size_t>(event.kind)], event.thread,
           micros(event.at - events_.front().at));
    text_ += *event.name;
    const auto number = static_cast<unsigned long long>(event.number);
    switch (event.kind) {
      case Event::Kind::kSlice:
        append(R"(,"cat":"stage","dur":%.3f,"args":{"frame":%llu%s}})", micros(event.duration),
               number, event.failed ? R"(,"failed":true)" : "");
        break;
      case Event::Kind::kArrowTail:
      case Event::Kind::kArrowHead:
        append(R"(,"cat":"handover","id":%llu%s})", number,
               event.kind == Event::Kind::kArrowHead ? R"(,"bp":"e")" : "");
        break;
      case Event::Kind::kBegin:
      case Event::Kind::kEnd:
        append(R"(,"cat":"frame","id":%llu,"args":{"frame":%llu}})", number, number);
        break;
      case Event::Kind::kCounter:
        append(R"(,"args":{"frames":%llu}})", number);
    }
  }

  void add_slice(std::uint64_t number, const Span& span, const std::string& name,
                 std::uint32_t thread) {
    events_.push_back({.at = span.begin,
                       .number = number,
                       .duration = span.end - span.begin,
                       .name = &name,
                       .thread = thread,
                       .kind = Event::Kind::kSlice,
                       .failed = span.failed});
  }

  void add_slices(std::uint64_t number, const FrameSpans& frame) {
    if (frame.fill != nullptr) add_slice(number, *frame.fill, fill_name_, kSourceThread);
    for (std::size_t stage = 0; stage < frame.stages.size(); ++stage) {
      if (const Span* span = frame.stages[stage]; span != nullptr) {
        add_slice(number, *span, stage_names_[stage], track_of(*span));
      }
    }
  }

  /// An arrow from the end of a slice to the start of the one that waited for it. Viewers bind an
  /// arrow to the slice around its time, so it starts a nanosecond before the end. It starts
  /// earlier if a polling thread saw the frame before its producer had read the clock.
  void add_arrow(const Span& from, std::uint32_t from_thread, const Span& to,
                 std::uint32_t to_thread) {
    const Clock::time_point left =
        std::max(from.begin, std::min(from.end - std::chrono::nanoseconds(1), to.begin));
    events_.push_back({.at = left,
                       .number = arrows_,
                       .name = &arrow_name_,
                       .thread = from_thread,
                       .kind = Event::Kind::kArrowTail});
    events_.push_back({.at = to.begin,
                       .number = arrows_++,
                       .name = &arrow_name_,
                       .thread = to_thread,
                       .kind = Event::Kind::kArrowHead});
  }

  void add_arrows(const FrameSpans& frame) {
    for (std::size_t stage = 0; stage < frame.stages.size(); ++stage) {
      const Span* to = frame.stages[stage];
      if (to == nullptr) continue;
      const std::vector<std::size_t>& producers = trace_.stages[stage].producers;
      if (producers.empty() && frame.fill != nullptr) {
        add_arrow(*frame.fill, kSourceThread, *to, track_of(*to));
      }
      for (const std::size_t producer : producers) {
        if (const Span* from = frame.stages[producer]; from != nullptr) {
          add_arrow(*from, track_of(*from), *to, track_of(*to));
        }
      }
    }
  }

  /// The frame's time in flight, and how long its result was held. These overlap, so they are not
  /// on a thread's track.
  void add_asynchronous(std::uint64_t number, const FrameSpans& frame) {
    const auto add = [&](const std::string& name, Clock::time_point begin, Clock::time_point end) {
      events_.push_back(
          {.at = begin, .number = number, .name = &name, .kind = Event::Kind::kBegin});
      events_.push_back({.at = end, .number = number, .name = &name, .kind = Event::Kind::kEnd});
    };
    if (frame.fill != nullptr && frame.finished())
      add(in_flight_name_, frame.fill->end, frame.end());
    if (frame.take != nullptr) add(held_name_, frame.take->begin, frame.take->end);
  }

  using Steps = std::vector<std::pair<Clock::time_point, int>>;

  /// A counter's value after each change.
  void add_counter(const std::string& name, Steps steps) {
    std::ranges::stable_sort(steps, {}, &Steps::value_type::first);
    std::int64_t value = 0;
    for (const auto& [at, change] : steps) {
      value += change;
      events_.push_back({.at = at,
                         .number = static_cast<std::uint64_t>(value),
                         .name = &name,
                         .kind = Event::Kind::kCounter});
    }
  }

  void add_counters() {
    for (std::size_t stage = 0; stage < trace_.stages.size(); ++stage) {
      Steps steps;
      for (const auto& [number, frame] : frames_) {
        const std::optional<Clock::time_point> ready = ready_at(frame, stage);
        if (!ready) continue;
        steps.emplace_back(*ready, 1);
        const Span* span = frame.stages[stage];
        if (span != nullptr) steps.emplace_back(std::max(*ready, span->begin), -1);
      }
      add_counter(waiting_names_[stage], std::move(steps));
    }
    Steps steps;
    for (const auto& [number, frame] : frames_) {
      if (!frame.finished()) continue;
      steps.emplace_back(frame.end(), 1);
      if (frame.take != nullptr) steps.emplace_back(std::max(frame.end(), frame.take->begin), -1);
    }
    add_counter(untaken_name_, std::move(steps));
  }

  /// When a stage could have started a frame.
  [[nodiscard]] std::optional<Clock::time_point> ready_at(const FrameSpans& frame,
                                                          std::size_t stage) const {
    if (frame.fill == nullptr) return std::nullopt;
    Clock::time_point ready = frame.fill->end;
    for (const std::size_t producer : trace_.stages[stage].producers) {
      const Span* span = frame.stages[producer];
      if (span == nullptr || span->failed) return std::nullopt;
      ready = std::max(ready, span->end);
    }
    return ready;
  }

  const std::string fill_name_ = quoted("fill");
  const std::string arrow_name_ = quoted("frame");
  const std::string in_flight_name_ = quoted("in flight");
  const std::string held_name_ = quoted("result held");
  const std::string untaken_name_ = quoted("waiting to be taken");
  const PipelineTrace& trace_;
  std::vector<std::string> stage_names_;
  std::vector<std::string> waiting_names_;
  std::map<std::uint64_t, FrameSpans> frames_;
  std::vector<Event> events_;
  std::uint64_t arrows_ = 0;
  std::string text_;
};

}  // namespace

std::string PipelineTrace::json() const { return Writer(*this).run(); }

Status PipelineTrace::write(const std::string& path) const {
  const std::string partial = path + ".partial";
  const std::string text = json();
  std::FILE* const file = std::fopen(partial.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  std::remove(partial.c_str());
  return open_failure(Code::kInvalidArgument, path + ": the trace cannot be written", error,
                      "choose another path, or free some space");
}

}  // namespace edgepipe
