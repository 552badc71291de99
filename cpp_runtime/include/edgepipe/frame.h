// InputFrame and OutputFrame: leases on a slot, from Pipeline::acquire and Pipeline::next.
//
//   Result<InputFrame> frame = pipeline.acquire(deadline);
//   std::memcpy((*frame).input(0).data(), picture, bytes);  // or let a camera write there
//   pipeline.submit(std::move(*frame));
//
// A lease belongs to one thread at a time and is released before its pipeline is destroyed. Its
// memory is valid until then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace edgepipe {

class Pipeline;

/// The right to fill the inputs of one frame. If destroyed without Pipeline::submit, nothing is
/// sent.
class InputFrame {
 public:
  InputFrame(InputFrame&& other) noexcept
      : pipeline_(std::exchange(other.pipeline_, nullptr)), slot_(other.slot_) {}
  InputFrame& operator=(InputFrame&&) = delete;
  ~InputFrame();

  /// The memory of the pipeline's input number `index`, which must be written completely.
  [[nodiscard]] std::span<std::byte> input(std::size_t index) const;

  /// The slot that owns this memory; see Stage::bind.
  [[nodiscard]] std::size_t slot() const { return slot_; }

 private:
  friend class Pipeline;
  InputFrame(Pipeline* pipeline, std::size_t slot) : pipeline_(pipeline), slot_(slot) {}

  Pipeline* pipeline_;
  std::size_t slot_;
};

/// The right to read one finished frame. Its slot is reused once it is destroyed.
class OutputFrame {
 public:
  OutputFrame(OutputFrame&& other) noexcept
      : pipeline_(std::exchange(other.pipeline_, nullptr)),
        slot_(other.slot_),
        id_(other.id_),
        latency_(other.latency_) {}
  OutputFrame& operator=(OutputFrame&&) = delete;
  ~OutputFrame();

  /// The frame's number: 0 for the first one submitted, then 1, 2, ...
  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// The slot of this frame; see Stage::bind.
  [[nodiscard]] std::size_t slot() const { return slot_; }

  /// From submit to the end of the frame's last stage.
  [[nodiscard]] std::chrono::nanoseconds latency() const { return latency_; }

  /// The memory of the pipeline's output number `index`.
  [[nodiscard]] std::span<const std::byte> output(std::size_t index) const;

  /// The memory of tensor number `index` of the graph, e.g. the picture that the caller submitted.
  /// It still holds that tensor for inputs, outputs and those that the graph keeps.
  [[nodiscard]] std::span<const std::byte> tensor(std::size_t index) const;

 private:
  friend class Pipeline;
  OutputFrame(Pipeline* pipeline, std::size_t slot, std::uint64_t id,
              std::chrono::nanoseconds latency)
      : pipeline_(pipeline), slot_(slot), id_(id), latency_(latency) {}

  Pipeline* pipeline_;
  std::size_t slot_;
  std::uint64_t id_;
  std::chrono::nanoseconds latency_;
};

}  // namespace edgepipe
