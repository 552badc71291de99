// GstreamerQueue: a GStreamer `queue` element between two pads, as a handover between threads.
//
//   GstreamerQueue queue([&](int number) { ... });  // called on the queue's own thread
//   queue.push(7);
#pragma once

#include <functional>
#include <memory>

namespace edgepipe {

class GstreamerQueue {
 public:
  using Receive = std::function<void(int number)>;

  /// Starts the element with its thread pinned to `core`; `receive` is called for each number.
  GstreamerQueue(Receive receive, int core);
  ~GstreamerQueue();
  GstreamerQueue(const GstreamerQueue&) = delete;
  GstreamerQueue& operator=(const GstreamerQueue&) = delete;

  void push(int number);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace edgepipe
