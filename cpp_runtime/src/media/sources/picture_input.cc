#include "edgepipe/picture_input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "media/pictures/picture_copier.h"
#include "media/pictures/picture_fitter.h"
#include "media/sources/stop_interval.h"

namespace edgepipe {

/// The copies of the picture in a slot.
struct PictureInput::SlotCopies {
  struct Made {
    Copy copy;
    std::vector<std::byte> pixels;  // keeps its memory for the next picture
  };
  std::vector<std::unique_ptr<Made>> made;  // one of each reduction
  std::vector<int> reductions;              // by reader; 0: no copy
  std::vector<const Copy*> of_reader;       // null: no copy
};

/// The first stage of a network, or its fallback, preceded by fitting its pictures.
class PictureInput::FittingStage final : public Stage {
 public:
  /// `place` is the index of the stage input that pictures are fitted into.
  FittingStage(std::shared_ptr<PictureInput> input, std::unique_ptr<Stage> stage, std::size_t place)
      : input_(std::move(input)), stage_(std::move(stage)), place_(place) {}

  [[nodiscard]] std::string_view name() const override { return stage_->name(); }
  [[nodiscard]] WrittenBy written_by() const override { return stage_->written_by(); }
  [[nodiscard]] bool repeatable() const override { return stage_->repeatable(); }
  [[nodiscard]] std::chrono::nanoseconds device_wait() const override {
    return stage_->device_wait();
  }
  [[nodiscard]] std::chrono::nanoseconds device_run() const override {
    return stage_->device_run();
  }

  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override {
    std::vector<BufferView> own(inputs.begin(), inputs.end());
    own[place_] = outputs.back();
    if (frames_.size() <= slot) frames_.resize(slot + 1);
    frames_[slot] = {outputs.back().data, outputs.back().bytes};
    input_->make_slot(slot);
    return stage_->bind(slot, own, outputs.first(outputs.size() - 1));
  }

  Status run(std::size_t slot) override {
    Status status = input_->fit(slot, frames_[slot]);
    return status.ok() ? stage_->run(slot) : status;
  }

 private:
  std::shared_ptr<PictureInput> input_;
  std::unique_ptr<Stage> stage_;
  std::size_t place_;
  std::vector<std::span<std::byte>> frames_;  // by slot
};

PictureInput::PictureInput(std::unique_ptr<PictureFitter> fitter)
    : fitter_(std::move(fitter)), copier_(std::make_unique<PictureCopier>()) {}

PictureInput::~PictureInput() = default;

Result<std::shared_ptr<PictureInput>> PictureInput::attach(Graph& graph,
                                                           const Preprocess& preprocess,
                                                           std::uint64_t most_pixels) {
  if (graph.inputs.size() != 1) {
    return Status(
        Code::kUnsupported,
        "found " + std::to_string(graph.inputs.size()) + " inputs, expected one for a camera",
        "load the bundle in Python, which takes several inputs");
  }
  Result<PictureFitter> fitter = PictureFitter::create(preprocess, most_pixels);
  if (!fitter.ok()) return fitter.status();
  std::shared_ptr<PictureInput> input(
      new PictureInput(std::make_unique<PictureFitter>(*std::move(fitter))));

  const std::size_t frame = graph.inputs.front();
  const auto reads_frame = [frame](const StageNode& node) {
    return std::ranges::find(node.reads, frame) != node.reads.end();
  };
  const auto node = std::ranges::find_if(graph.nodes, reads_frame);
  if (node == graph.nodes.end()) {
    return Status(Code::kUnsupported,
                  "no stage reads its input '" + graph.tensors[frame].name + "'");
  }
  // The caller no longer fills the frame; it only signals that there is a picture, which occupies
  // no bytes in the slot.
  const std::size_t picture = graph.tensors.size();
  TensorSpec ticket;
  ticket.name = "picture";
  ticket.bytes = 1;
  graph.tensors.push_back(std::move(ticket));
  graph.inputs = {picture};
  graph.kept.push_back(frame);  // results are shown on it
  const auto read = std::ranges::find(node->reads, frame);
  const auto place = static_cast<std::size_t>(read - node->reads.begin());
  *read = picture;
  node->writes.push_back(frame);
  for (std::unique_ptr<Stage>* const stage : {&node->stage, &node->fallback}) {
    if (*stage) *stage = std::make_unique<FittingStage>(input, std::move(*stage), place);
  }
  return input;
}

void PictureInput::make_slot(std::size_t slot) {
  MutexLock lock(mutex_);
  if (slot < waiting_.size()) return;
  waiting_.resize(slot + 1);
  damaged_.resize(slot + 1);
  placements_.resize(slot + 1);
  copied_.resize(slot + 1);
}

Result<bool> PictureInput::lend(const InputFrame& frame, const std::atomic<bool>& stop) {
  {
    MutexLock lock(mutex_);
    while (std::ranges::any_of(waiting_, &PictureLease::held)) {
      if (stop) return false;
      begun_.wait_until(lock, Clock::now() + kStopInterval);
    }
  }
  PictureLease lease;
  Result<bool> more = source_->next(lease, stop);
  if (!more.ok() || !*more) return more;
  MutexLock lock(mutex_);
  waiting_[frame.slot()] = std::move(lease);
  return true;
}

void PictureInput::release_waiting() {
  MutexLock lock(mutex_);
  for (PictureLease& lease : waiting_) lease.release();
  begun_.notify();
}

/// Runs on the first stage's thread. Without a picture, the frame has already been fitted: the
/// stage's device failed, and the stage or its fallback runs the frame again.
Status PictureInput::fit(std::size_t slot, std::span<std::byte> frame) {
  PictureLease lease;
  {
    MutexLock lock(mutex_);
    std::swap(lease, waiting_[slot]);
    begun_.notify();
  }
  if (!lease.held()) return {};
  const Status status = or_out_of_memory([&] { return fitter_->fit(lease.picture(), frame); });
  const bool bad = status.code() == Code::kCorrupt || status.code() == Code::kOutOfMemory;
  const bool skip = bad && source_->live();
  damaged_[slot] = skip ? 1 : 0;
  SlotCopies& copies = copied_[slot];
  std::ranges::fill(copies.of_reader, nullptr);
  if (status.ok()) {
    placements_[slot] = fitter_->placement();
    // Without memory for a copy, the frame continues without it.
    static_cast<void>(or_out_of_memory([&] {
      make_copies(fitter_->pixels(), copies);
      return Status();
    }));
  }
  if (status.ok() || skip) return {};
  return status.with_context(source_->description());
}

PictureInput::Copies& PictureInput::add_copies(std::uint64_t most_pixels) {
  MutexLock lock(mutex_);
  readers_.push_back(std::make_unique<Copies>(*this, readers_.size(), most_pixels));
  return *readers_.back();
}

/// Runs on the first stage's thread, which has just fitted `pixels` and still holds their lease.
void PictureInput::make_copies(const Picture& pixels, SlotCopies& into) {
  {
    MutexLock lock(mutex_);
    into.reductions.assign(readers_.size(), 0);
    into.of_reader.assign(readers_.size(), nullptr);
    for (const std::unique_ptr<Copies>& reader : readers_) {
      if (!reader->take_turn()) continue;
      into.reductions[reader->index_] =
          PictureCopier::reduction(pixels.width, pixels.height, reader->most_pixels_);
    }
  }
  // A copy of an earlier picture is one of this picture once it is made again.
  for (const std::unique_ptr<SlotCopies::Made>& made : into.made) made->copy.reduction = 0;
  const auto copy_of = [&](int reduction) -> const Copy* {
    const auto has = [](int wanted) {
      return [wanted](const auto& made) { return made->copy.reduction == wanted; };
    };
    if (const auto same = std::ranges::find_if(into.made, has(reduction));
        same != into.made.end()) {
      return &(*same)->copy;
    }
    auto free = std::ranges::find_if(into.made, has(0));
    if (free == into.made.end()) {
      into.made.push_back(std::make_unique<SlotCopies::Made>());
      free = into.made.end() - 1;
    }
    SlotCopies::Made& made = **free;
    made.copy.reduction = 0;
    made.copy.picture = copier_->copy(pixels, reduction, made.pixels);
    made.copy.reduction = reduction;
    return &made.copy;
  };
  for (std::size_t reader = 0; reader < into.reductions.size(); ++reader) {
    if (into.reductions[reader] > 0) into.of_reader[reader] = copy_of(into.reductions[reader]);
  }
}

bool PictureInput::Copies::take_turn() {
  std::uint64_t asked = asked_;
  do {
    if (asked == 0) return false;
  } while (asked != kAll && !asked_.compare_exchange_weak(asked, asked - 1));
  return true;
}

const PictureInput::Copy* PictureInput::Copies::of(const OutputFrame& frame) const {
  const std::vector<const Copy*>& of_reader = input_.copied_[frame.slot()].of_reader;
  return index_ < of_reader.size() ? of_reader[index_] : nullptr;
}

}  // namespace edgepipe
