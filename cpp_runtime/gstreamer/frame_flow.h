// FrameFlow: an open bundle between two pads. Frames and events enter on the sink pad's thread; the
// source pad's task pushes them downstream in the same order, each frame with its results.
//
//   Result<std::unique_ptr<FrameFlow>> flow = FrameFlow::open({element, source_pad}, settings);
//   (*flow)->take(std::move(buffer), info, segment);  // sink pad: chain
//   (*flow)->enqueue(std::move(event));               // sink pad: serialized events
//   (*flow)->deliver_next();                          // source pad: the task's function
//
//     chain --> [ slot, slot, slot: stages run on their own threads ] --> task --> next element
//           --> ( queue of the frames' buffers, with the events between them ) -->
//
// take() returns when the first stage may begin with the frame, so that CPU and FPGA work on
// several frames. It blocks while all slots are in use, which slows the elements before this one
// down.
//
//   flowing --halt(reason)--> halted: every call returns the reason --resume()--> flowing
//
// A flush, a change of state, an error and the end of what follows are such reasons.
#pragma once

#include <gst/video/video.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "buffer_source.h"
#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "frame_results.h"
#include "lateness.h"
#include "owned.h"

namespace edgepipe::gstreamer {

/// The properties of the element that a bundle is opened with.
struct Settings {
  std::string bundle;
  std::string device = "auto";
  std::string labels;  // names between commas; empty: all
  std::string policy;  // empty: the machine's
  unsigned slots = 0;  // 0: the bundle's setting for cameras
  double score = 0;
};

/// Posts one error on the bus, with the status's hint in the text that users see.
void post_error(GstElement* element, const Status& status);

class FrameFlow {
 public:
  /// What the flow acts for; all outlive it.
  struct Ends {
    GstElement* element;
    GstPad* source;
    Lateness* lateness;
  };

  /// Opens the bundle and starts the threads of its stages. Blocks.
  static Result<std::unique_ptr<FrameFlow>> open(const Ends& ends, const Settings& settings);

  /// "RGB", "BGR" or "GRAY": what the network itself takes.
  [[nodiscard]] const std::string& order() const;

  /// What the latency query adds: the longest time from a frame's arrival to its results so far,
  /// and a quarter.
  [[nodiscard]] GstClockTime latency() const { return latency_; }

  /// How many buffers the flow can hold.
  [[nodiscard]] unsigned slots() const;

  void drop_late(bool drop) { drops_late_ = drop; }
  void post_results(bool post) { posts_results_ = post; }

  // On the sink pad's streaming thread.

  /// Gives a frame to the stages, or drops one that is late.
  GstFlowReturn take(BufferPointer buffer, const GstVideoInfo& info, const GstSegment& segment)
      EDGEPIPE_EXCLUDES(mutex_);

  /// Sends an event after the frames before it; false if the flow flushes.
  bool enqueue(EventPointer event) EDGEPIPE_EXCLUDES(mutex_);

  /// Waits until all frames and events before it have been pushed; false if they will not be.
  bool wait_until_empty() EDGEPIPE_EXCLUDES(mutex_);

  // On the source pad's task.

  /// Pushes the next event, or the next frame once it is finished. Pauses the task after a halt.
  void deliver_next() EDGEPIPE_EXCLUDES(mutex_);

  // For any thread.

  /// Drops all frames, and wakes both streaming threads, which then return `reason`.
  void halt(GstFlowReturn reason) EDGEPIPE_EXCLUDES(mutex_);

  /// Flows again, from frame 0. Requires a halt and that neither streaming thread is in a call. On
  /// failure, which means that a stage hangs, the flow stays halted.
  Status resume() EDGEPIPE_EXCLUDES(mutex_);

  /// Whether what follows has returned the end of the stream, which new data may undo.
  [[nodiscard]] bool has_ended() const EDGEPIPE_EXCLUDES(mutex_);

 private:
  struct Item {
    EventPointer event;  // or a frame:
    BufferPointer buffer;
    FrameTimes times;
    bool after_gap = false;  // frames before it were dropped
  };

  FrameFlow(const Ends& ends, std::unique_ptr<Session> session);

  GstFlowReturn reason() const EDGEPIPE_EXCLUDES(mutex_);
  GstFlowReturn await_halt() EDGEPIPE_EXCLUDES(mutex_);
  bool next_item(Item& item) EDGEPIPE_EXCLUDES(mutex_);
  Result<BufferPointer> finish(Item item);
  void raise_latency(std::chrono::nanoseconds measured);
  void fail(const Status& status);
  void end_after(GstFlowReturn pushed) EDGEPIPE_EXCLUDES(mutex_);

  Ends ends_;
  BufferSource* pictures_;  // owned by the session's PictureInput
  std::atomic<bool> stop_{false};
  std::atomic<bool> drops_late_{true};
  std::atomic<bool> posts_results_{true};
  std::atomic<GstClockTime> latency_{0};
  bool gap_ = false;  // used by the sink pad's thread

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Item> queue_ EDGEPIPE_GUARDED_BY(mutex_);
  bool idle_ EDGEPIPE_GUARDED_BY(mutex_) = true;          // the task waits for an item
  bool ended_above_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // the end of the stream has come in
  GstFlowReturn reason_ EDGEPIPE_GUARDED_BY(mutex_) = GST_FLOW_OK;
  std::unique_ptr<Session> session_;  // its threads end first
};

}  // namespace edgepipe::gstreamer
