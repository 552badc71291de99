// Decoder: turns some of a network's output tensors into one kind of result.
//
//   Result<std::unique_ptr<Decoder>> decoder = make_decoder(manifest, labels);
//   Result<FrameResult> found = (*decoder)->decode(tensors);  // those of (*decoder)->tensors()
//
// There is one decoder for each way in which networks leave their results; a table in
// make_decoder.cc names them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "edgepipe/manifest.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"

namespace edgepipe {

class Decoder {
 public:
  using Tensors = std::span<const std::span<const float>>;

  /// What it takes, and how much it gives at most.
  explicit Decoder(std::vector<std::size_t> tensors, std::size_t most_detections = 0,
                   std::size_t most_points = 0)
      : tensors_(std::move(tensors)),
        most_detections_(most_detections),
        most_points_(most_points) {}
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Indices into Manifest::tensors of what decode takes, in its order.
  [[nodiscard]] const std::vector<std::size_t>& tensors() const { return tensors_; }

  [[nodiscard]] std::size_t most_detections() const { return most_detections_; }
  [[nodiscard]] std::size_t most_points() const { return most_points_; }

  /// Decodes one frame. The result refers to the decoder and is valid until the next call. Only a
  /// user's own decoder can fail. Allocates nothing unless it fails. One thread at a time.
  virtual Result<FrameResult> decode(Tensors tensors) = 0;

 private:
  std::vector<std::size_t> tensors_;
  std::size_t most_detections_;
  std::size_t most_points_;
};

using Labels = std::vector<std::string>;

/// The decoder of the manifest's postprocessing; null for "none". `labels` are the bundle's.
/// kCorrupt names a tensor whose shape does not fit the description.
Result<std::unique_ptr<Decoder>> make_decoder(const Manifest& manifest, const Labels& labels);

/// kCorrupt: the manifest's postprocessing cannot be; `text` says why.
Status refused_postprocess(const std::string& text);

/// The same for a tensor: what its shape was expected to be.
Status refused_tensor(const TensorSpec& tensor, const std::string& expected);

}  // namespace edgepipe
