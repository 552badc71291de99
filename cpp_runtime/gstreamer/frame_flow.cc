#include "frame_flow.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"

namespace edgepipe::gstreamer {
namespace {

// A stage that runs when a flush or a change of state comes finishes its frame first.
constexpr std::chrono::seconds kLongestStage{60};

std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) names.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

Result<Session::Options> session_options(const Settings& settings) {
  Session::Options options;
  options.takes_pictures = true;
  options.live = true;
  options.policy = settings.policy;
  options.pipeline.slots = settings.slots;
  // The application and other elements use the same cores, and may have fewer of them.
  options.pipeline.pinning = Pipeline::Pinning::kPreferred;
  options.results.selection = {.least_score = settings.score, .labels = names_of(settings.labels)};
  Result<DeviceChoice> device = DeviceRegistry::instance().parse(settings.device);
  if (!device.ok()) {
    return device.status().with_context("the property 'device'");
  }
  options.device = *std::move(device);
  return options;
}

GQuark error_domain_of(Code code, gint* number) {
  switch (code) {
    case Code::kInvalidArgument:
      *number = GST_LIBRARY_ERROR_SETTINGS;
      return GST_LIBRARY_ERROR;
    case Code::kNotFound:
      *number = GST_RESOURCE_ERROR_NOT_FOUND;
      return GST_RESOURCE_ERROR;
    case Code::kOutOfMemory:
      *number = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
      return GST_RESOURCE_ERROR;
    case Code::kUnsigned:
    case Code::kOtherSigner:
    case Code::kAltered:
    case Code::kOlderRelease:
    case Code::kUnverifiable:
      *number = GST_RESOURCE_ERROR_NOT_AUTHORIZED;
      return GST_RESOURCE_ERROR;
    case Code::kDevice:
    case Code::kDeadline:
      *number = GST_RESOURCE_ERROR_FAILED;
      return GST_RESOURCE_ERROR;
    default:
      *number = GST_STREAM_ERROR_FAILED;
      return GST_STREAM_ERROR;
  }
}

}  // namespace

void post_error(GstElement* element, const Status& status) {
  const std::string hint = status.hint().empty() ? "" : "\nhint: " + status.hint();
  gint number = 0;
  const GQuark domain = error_domain_of(status.code(), &number);
  // Applications show the text and often hide the details, so the hint is part of it.
  gst_element_message_full(element, GST_MESSAGE_ERROR, domain, number,
                           g_strdup((status.message() + hint).c_str()), nullptr, __FILE__, __func__,
                           __LINE__);
}

Result<std::unique_ptr<FrameFlow>> FrameFlow::open(const Ends& ends, const Settings& settings) {
  if (settings.bundle.empty()) {
    return Status(Code::kInvalidArgument,
                  "the property 'bundle': found nothing, expected the path of a bundle",
                  "set it, for example to net.edgepipe from `edgepipe build net.onnx`");
  }
  Result<Session::Options> options = session_options(settings);
  if (!options.ok()) return options.status();
  options->pipeline.on_fault = [element = ends.element](const std::string& what) {
    GST_ELEMENT_WARNING(element, RESOURCE, FAILED, ("%s", what.c_str()), (nullptr));
  };
  Result<std::unique_ptr<Session>> session = Session::open(settings.bundle, *options);
  if (!session.ok()) return session.status();
  return std::unique_ptr<FrameFlow>(new FrameFlow(ends, *std::move(session)));
}

FrameFlow::FrameFlow(const Ends& ends, std::unique_ptr<Session> session)
    : ends_(ends),
      pictures_(new BufferSource(GST_OBJECT_NAME(ends.element))),
      session_(std::move(session)) {
  session_->pictures().connect(std::unique_ptr<PictureSource>(pictures_));
}

const std::string& FrameFlow::order() const {
  return session_->bundle().manifest().preprocess.order;
}

unsigned FrameFlow::slots() const { return static_cast<unsigned>(session_->pipeline().slots()); }

// ---- the sink pad's thread

GstFlowReturn FrameFlow::take(BufferPointer buffer, const GstVideoInfo& info,
                              const GstSegment& segment) {
  if (const GstFlowReturn halted = reason(); halted != GST_FLOW_OK) return halted;
  Pipeline& pipeline = session_->pipeline();
  Result<InputFrame> slot = pipeline.acquire(far_future());
  if (!slot.ok()) return await_halt();
  FrameTimes times{.timestamp = GST_BUFFER_PTS(buffer.get()),
                   .duration = GST_BUFFER_DURATION(buffer.get())};
  if (segment.format == GST_FORMAT_TIME) {
    times.running = gst_segment_to_running_time(&segment, GST_FORMAT_TIME, times.timestamp);
    times.stream = gst_segment_to_stream_time(&segment, GST_FORMAT_TIME, times.timestamp);
  }
  // Only now, as the frame may have become late while it waited.
  if (drops_late_ && ends_.lateness->is_late(times.running)) {
    gap_ = true;
    gst_element_post_message(
        ends_.element, ends_.lateness->drop(GST_OBJECT(ends_.element), buffer.get(), segment));
    return GST_FLOW_OK;
  }
  if (Status status = pictures_->offer(buffer.get(), info); !status.ok()) {
    post_error(ends_.element, status);
    return GST_FLOW_ERROR;
  }
  const Result<bool> lent = session_->pictures().lend(*slot, stop_);
  if (!lent.ok() || !*lent || !pipeline.submit(*std::move(slot)).ok()) return await_halt();
  Item item;
  item.buffer = std::move(buffer);
  item.times = times;
  item.after_gap = std::exchange(gap_, false);
  MutexLock lock(mutex_);
  if (reason_ != GST_FLOW_OK) return reason_;
  queue_.push_back(std::move(item));
  changed_.notify();
  return GST_FLOW_OK;
}

bool FrameFlow::enqueue(EventPointer event) {
  MutexLock lock(mutex_);
  if (reason_ == GST_FLOW_FLUSHING) return false;
  if (GST_EVENT_TYPE(event.get()) == GST_EVENT_EOS) ended_above_ = true;
  // After an error, the queue and the task are empty and do not push any more.
  if (reason_ != GST_FLOW_OK) return gst_pad_push_event(ends_.source, event.release()) != FALSE;
  Item item;
  item.event = std::move(event);
  queue_.push_back(std::move(item));
  changed_.notify();
  return true;
}

bool FrameFlow::wait_until_empty() {
  MutexLock lock(mutex_);
  while (reason_ == GST_FLOW_OK && !(queue_.empty() && idle_)) {
    changed_.wait_until(lock, far_future());
  }
  return reason_ == GST_FLOW_OK;
}

GstFlowReturn FrameFlow::reason() const {
  MutexLock lock(mutex_);
  return reason_;
}

/// After a failed call of the pipeline: the task reaches the failed frame, reports it, and halts.
GstFlowReturn FrameFlow::await_halt() {
  MutexLock lock(mutex_);
  while (reason_ == GST_FLOW_OK) changed_.wait_until(lock, far_future());
  return reason_;
}

// ---- the source pad's task

bool FrameFlow::next_item(Item& item) {
  MutexLock lock(mutex_);
  idle_ = true;
  changed_.notify();
  while (reason_ == GST_FLOW_OK && queue_.empty()) changed_.wait_until(lock, far_future());
  if (reason_ != GST_FLOW_OK) return false;
  idle_ = false;
  item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void FrameFlow::deliver_next() {
  Item item;
  if (!next_item(item)) {
    gst_pad_pause_task(ends_.source);
    return;
  }
  if (item.event) {
    gst_pad_push_event(ends_.source, item.event.release());
    return;
  }
  Result<BufferPointer> finished = or_out_of_memory([&] { return finish(std::move(item)); });
  if (!finished.ok()) {
    if (reason() == GST_FLOW_OK) fail(finished.status());
    return;
  }
  const GstFlowReturn pushed = gst_pad_push(ends_.source, (*finished).release());
  if (pushed != GST_FLOW_OK) end_after(pushed);
}

/// Waits for a frame's results; returns its buffer with them and frees its slot.
Result<BufferPointer> FrameFlow::finish(Item item) {
  Result<OutputFrame> frame = session_->pipeline().next(far_future());
  if (!frame.ok()) return frame.status();
  Postprocessor& postprocessor = session_->postprocessor();
  Result<FrameResult> result = postprocessor.run(*frame);
  if (!result.ok()) return result.status();
  const Placement& placement = session_->pictures().placement(*frame);
  const FrameResult seen = postprocessor.in_picture(*result, placement);
  raise_latency(frame->latency());
  // The picture is no longer mapped, so this copies no pixels.
  BufferPointer buffer(gst_buffer_make_writable(item.buffer.release()));
  add_regions(buffer.get(), postprocessor, seen, placement);
  if (item.after_gap) GST_BUFFER_FLAG_SET(buffer.get(), GST_BUFFER_FLAG_DISCONT);
  ends_.lateness->count_processed();
  if (posts_results_) {
    const std::string source = pictures_->picture_name(frame->id());
    const std::string line = postprocessor.json_line(*frame, seen, source);
    gst_element_post_message(ends_.element,
                             result_message(ends_.element, item.times, line, frame->id()));
  }
  return buffer;
}

void FrameFlow::raise_latency(std::chrono::nanoseconds measured) {
  const auto nanoseconds = static_cast<GstClockTime>(measured.count());
  if (nanoseconds <= latency_) return;
  // The quarter keeps small differences between frames from being reported one by one.
  latency_ = nanoseconds + nanoseconds / 4;
  gst_element_post_message(ends_.element, gst_message_new_latency(GST_OBJECT(ends_.element)));
}

/// Reports first: the elements before this one report the flow's error, too, and the first report
/// is the one that applications show.
void FrameFlow::fail(const Status& status) {
  post_error(ends_.element, status);
  halt(GST_FLOW_ERROR);
  gst_pad_push_event(ends_.source, gst_event_new_eos());
}

/// Nothing more can be pushed. The next frame that comes in gets the reason; if none will come,
/// nobody else would report an error.
void FrameFlow::end_after(GstFlowReturn pushed) {
  bool unreported = false;
  {
    MutexLock lock(mutex_);
    unreported = ended_above_ && reason_ == GST_FLOW_OK &&
                 (pushed == GST_FLOW_NOT_LINKED || pushed < GST_FLOW_EOS);
  }
  if (unreported) GST_ELEMENT_FLOW_ERROR(ends_.element, pushed);
  halt(pushed);
  if (unreported) gst_pad_push_event(ends_.source, gst_event_new_eos());
}

// ---- any thread

void FrameFlow::halt(GstFlowReturn reason) {
  {
    MutexLock lock(mutex_);
    // The first reason stays, except that a flush ends every other state.
    if (reason_ == GST_FLOW_OK || reason == GST_FLOW_FLUSHING) reason_ = reason;
    queue_.clear();
    changed_.notify();
  }
  stop_ = true;
  session_->pipeline().cancel();
  session_->pictures().release_waiting();
}

Status FrameFlow::resume() {
  session_->pictures().release_waiting();
  Status status = session_->pipeline().restart(Clock::now() + kLongestStage);
  if (!status.ok()) return status;
  stop_ = false;
  gap_ = false;
  MutexLock lock(mutex_);
  queue_.clear();
  idle_ = true;
  ended_above_ = false;
  reason_ = GST_FLOW_OK;
  return {};
}

bool FrameFlow::has_ended() const {
  MutexLock lock(mutex_);
  return reason_ == GST_FLOW_EOS;
}

}  // namespace edgepipe::gstreamer
