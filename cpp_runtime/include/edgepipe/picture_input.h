// PictureInput: a pipeline's input for camera pictures; its first stage scales and converts them.
//
//   Result<std::shared_ptr<PictureInput>> input = PictureInput::attach(graph, preprocess);
//   ... Pipeline::create(std::move(graph), ...)
//   (*input)->connect(std::move(camera));
//   Result<bool> more = (*input)->lend(frame, stop);  // for each frame before it is submitted
//
//   PictureInput::Copies& copies = (*input)->add_copies(1 << 20);
//   copies.ask(PictureInput::Copies::kAll);
//   const PictureInput::Copy* copy = copies.of(frame);  // of a finished frame; may be null
//
//     camera ---lease---> [ frame ] ---lease---> [ first stage: fit, return, run ] ---> ...
//
// A frame carries the lease on a picture in the camera's own buffer; nothing is copied. The first
// stage, on its own thread and core, converts and scales the picture directly into the network's
// input, returns the buffer, and runs; its busy time includes both. At most one picture waits for
// the first stage, so the camera's newest picture is taken as late as possible and its driver never
// runs out of buffers. Those who show pictures to people ask for copies, which the first stage
// makes before it returns the buffer; without them, it copies nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "edgepipe/frame.h"
#include "edgepipe/graph.h"
#include "edgepipe/manifest.h"
#include "edgepipe/picture_source.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class PictureCopier;
class PictureFitter;

class PictureInput {
 public:
  /// A picture of the source, as it came but upright and perhaps reduced.
  struct Copy {
    Picture picture;    // kRgb, without padding
    int reduction = 1;  // one of its pixels is as many of the source's along each side
  };

  /// The copies for one reader. For any thread. Belongs to its PictureInput.
  class Copies {
   public:
    static constexpr std::uint64_t kAll = UINT64_MAX;

    Copies(const PictureInput& input, std::size_t index, std::uint64_t most_pixels)
        : input_(input), index_(index), most_pixels_(most_pixels) {}

    /// Asks for copies of the next `pictures` that the first stage reads, or of all from now on
    /// (kAll), or of none (0), in place of what was asked before. Does not block.
    void ask(std::uint64_t pictures) { asked_ = pictures; }

    /// The copy of a finished frame's picture, valid as long as the frame is held. Null if none was
    /// asked for, or if the picture was damaged or there was no memory for its copy.
    [[nodiscard]] const Copy* of(const OutputFrame& frame) const;

   private:
    friend class PictureInput;
    [[nodiscard]] bool take_turn();

    const PictureInput& input_;
    const std::size_t index_;
    const std::uint64_t most_pixels_;
    std::atomic<std::uint64_t> asked_{0};
  };

  /// Changes `graph` so that the first stage that reads its only input also writes that tensor,
  /// from a picture. JPEGs of more than `most_pixels` are refused before they are decoded.
  /// kUnsupported if the graph has several inputs, kInvalidArgument if `preprocess` crops more than
  /// there is.
  static Result<std::shared_ptr<PictureInput>> attach(Graph& graph, const Preprocess& preprocess,
                                                      std::uint64_t most_pixels = kMostPixels);
  ~PictureInput();
  PictureInput(const PictureInput&) = delete;
  PictureInput& operator=(const PictureInput&) = delete;

  /// Sets the source of pictures. Call it before the first frame.
  void connect(std::unique_ptr<PictureSource> source) { source_ = std::move(source); }
  [[nodiscard]] PictureSource& source() const { return *source_; }

  /// Lends the source's next picture to a frame before it is submitted. Blocks while another
  /// picture waits for the first stage, then for the source; false at its end or once `stop` is
  /// set.
  Result<bool> lend(const InputFrame& frame, const std::atomic<bool>& stop)
      EDGEPIPE_EXCLUDES(mutex_);

  /// Returns every picture that no stage has started to read. For any thread.
  void release_waiting() EDGEPIPE_EXCLUDES(mutex_);

  /// Whether the picture of a finished frame could not be decoded, or memory ran out while it was
  /// decoded. The frame's results are then meaningless. Only a live source continues; others end
  /// the run.
  [[nodiscard]] bool damaged(const OutputFrame& frame) const { return damaged_[frame.slot()] != 0; }

  /// Adds a reader of copies with at most `most_pixels` (at least 1024), reduced by whole numbers
  /// where needed. At first it asks for none. Readers whose copies have the same size share them.
  /// Each slot keeps the memory of its copies. For any thread.
  Copies& add_copies(std::uint64_t most_pixels) EDGEPIPE_EXCLUDES(mutex_);

  /// Where the picture of a finished frame lies in the network's input.
  [[nodiscard]] const Placement& placement(const OutputFrame& frame) const {
    return placements_[frame.slot()];
  }

 private:
  class FittingStage;
  struct SlotCopies;

  explicit PictureInput(std::unique_ptr<PictureFitter> fitter);
  void make_slot(std::size_t slot) EDGEPIPE_EXCLUDES(mutex_);
  Status fit(std::size_t slot, std::span<std::byte> frame) EDGEPIPE_EXCLUDES(mutex_);
  void make_copies(const Picture& pixels, SlotCopies& into) EDGEPIPE_EXCLUDES(mutex_);

  std::unique_ptr<PictureFitter> fitter_;  // used by the first stage
  std::unique_ptr<PictureCopier> copier_;  // the same
  std::unique_ptr<PictureSource> source_;  // used by the submitting thread
  std::vector<std::uint8_t> damaged_;      // by slot; owned by the holder of the frame
  std::vector<Placement> placements_;      // the same
  std::vector<SlotCopies> copied_;         // the same
  Mutex mutex_;
  CondVar begun_;
  std::vector<PictureLease> waiting_ EDGEPIPE_GUARDED_BY(mutex_);  // by slot
  std::vector<std::unique_ptr<Copies>> readers_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe
