// FrameResult: what a frame shows, from Postprocessor::run.
#pragma once

#include <span>

namespace edgepipe {

/// A box in pixels of the network's input, left-top to right-bottom.
struct Detection {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  float score = 0;
  int label_index = 0;
};

struct ClassScore {
  int label_index = 0;
  float score = 0;        // as computed by the network
  float probability = 0;  // softmax over all classes
};

/// Views into the postprocessor, valid until its next run. Best first.
struct FrameResult {
  std::span<const Detection> detections;
  std::span<const ClassScore> classes;
};

}  // namespace edgepipe
