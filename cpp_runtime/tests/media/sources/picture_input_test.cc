// Pictures that become frames inside the first stage: in whose memory, on which thread, and when
// they are returned.
#include "edgepipe/picture_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"
#include "pipeline/frame_loop.h"
#include "support/jpeg_lacks.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using testing::Buffers;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::soon;
using namespace std::chrono_literals;

constexpr std::size_t kPixelBytes = 4;  // gray, 2x2 pixels, and so is the frame
const Preprocess kPreprocess{.width = 2, .height = 2, .order = "GRAY", .fit = "stretch"};

/// A driver with a few buffers that knows which of them it has lent.
class Driver final : public PictureOwner {
 public:
  void give_back(std::size_t buffer) override {
    MutexLock lock(mutex_);
    lent_[buffer] = false;
    given_back_by_ = std::this_thread::get_id();
  }

  PictureLease lend(const std::shared_ptr<Driver>& self, std::uint8_t value) {
    MutexLock lock(mutex_);
    const auto buffer = static_cast<std::size_t>(std::ranges::find(lent_, false) - lent_.begin());
    EXPECT_LT(buffer, lent_.size()) << "the reader keeps more pictures than it may";
    lent_[buffer] = true;
    memory_[buffer].fill(std::byte{value});
    return {{.format = PixelFormat::kGray,
             .width = 2,
             .height = 2,
             .row_bytes = 2,
             .bytes = memory_[buffer]},
            self,
            buffer};
  }

  std::size_t lent() {
    MutexLock lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(lent_, true));
  }
  std::thread::id given_back_by() {
    MutexLock lock(mutex_);
    return given_back_by_;
  }
  /// Overwrites a buffer, as a driver does once the buffer is returned.
  void overwrite(std::size_t buffer, std::uint8_t value) { memory_[buffer].fill(std::byte{value}); }

 private:
  static constexpr std::size_t kBuffers = PictureSource::kMostLent;

  Mutex mutex_;
  std::array<std::array<std::byte, kPixelBytes>, kBuffers> memory_{};
  std::array<bool, kBuffers> lent_{};
  std::thread::id given_back_by_;
};

/// Pictures of 1, 2, 3, ... up to `count`; JPEG ones are damaged.
class Numbers final : public PictureSource {
 public:
  Numbers(std::shared_ptr<Driver> driver, int count, bool live = false, int damaged = -1)
      : driver_(std::move(driver)), count_(count), live_(live), damaged_(damaged) {}

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& /*stop*/) override {
    if (sent_ == count_) return false;
    ++sent_;
    lease = driver_->lend(driver_, static_cast<std::uint8_t>(sent_));
    if (sent_ != damaged_) return true;
    Picture broken = lease.picture();
    broken.width = 0;
    lease = PictureLease({.format = PixelFormat::kJpeg, .bytes = broken.bytes}, driver_, 0);
    return true;
  }
  [[nodiscard]] SourceCounters counters() const override { return {}; }
  [[nodiscard]] bool live() const override { return live_; }
  [[nodiscard]] std::string description() const override { return "numbers"; }

 private:
  std::shared_ptr<Driver> driver_;
  int count_;
  bool live_;
  int damaged_;
  int sent_ = 0;
};

class PictureInputTest : public ::testing::Test {
 protected:
  /// frame (4 bytes) -> `first` -> out (4 bytes), fed with pictures.
  Status start(FunctionStage::Body first, std::unique_ptr<PictureSource> source,
               FunctionStage::Body fallback = nullptr) {
    Graph graph;
    graph.tensors = {{.name = "frame", .bytes = kPixelBytes},
                     {.name = "out", .bytes = kPixelBytes}};
    graph.inputs = {0};
    graph.outputs = {1};
    StageNode node{.stage = std::make_unique<FunctionStage>("head", std::move(first)),
                   .reads = {0},
                   .writes = {1}};
    if (fallback) node.fallback = std::make_unique<FunctionStage>("arm", std::move(fallback));
    graph.nodes.push_back(std::move(node));
    Result<std::shared_ptr<PictureInput>> input = PictureInput::attach(graph, kPreprocess);
    if (!input.ok()) return input.status();
    input_ = *std::move(input);
    input_->connect(std::move(source));
    Result<std::unique_ptr<Pipeline>> made = Pipeline::create(std::move(graph), *memory_, {});
    if (!made.ok()) return made.status();
    pipeline_ = *std::move(made);
    return {};
  }

  Status send() {
    Result<InputFrame> frame = pipeline_->acquire(soon());
    if (!frame.ok()) return frame.status();
    Result<bool> more = input_->lend(*frame, stop_);
    if (!more.ok()) return more.status();
    if (!*more) return {Code::kClosed, "no more pictures"};
    return pipeline_->submit(std::move(*frame)).status();
  }

  std::vector<int> take() {
    Result<OutputFrame> frame = pipeline_->next(soon());
    EXPECT_TRUE(frame.ok()) << frame.status().message();
    std::vector<int> bytes;
    if (frame.ok()) {
      for (const std::byte byte : frame->output(0)) bytes.push_back(static_cast<int>(byte));
    }
    return bytes;
  }

  /// Copies once go_ is set; its picture has been fitted once entered_ is set.
  FunctionStage::Body gated() {
    return [this](Buffers in, Buffers out) {
      stage_thread_ = std::this_thread::get_id();
      entered_ = true;
      while (!go_) std::this_thread::sleep_for(1ms);
      return copy(in, out);
    };
  }

  static Status copy(Buffers in, Buffers out) {
    std::memcpy(out[0].data, in[0].data, kPixelBytes);
    return {};
  }

  // Used by the stage, so they outlive the pipeline.
  std::atomic<bool> go_{false};
  std::atomic<bool> entered_{false};
  std::thread::id stage_thread_;

  std::unique_ptr<HostMemory> memory_ = testing::host_memory();
  std::shared_ptr<Driver> driver_ = std::make_shared<Driver>();
  std::shared_ptr<PictureInput> input_;
  std::unique_ptr<Pipeline> pipeline_;
  std::atomic<bool> stop_{false};
};

TEST_F(PictureInputTest, PicturesBecomeFramesInOrder) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 100)).ok());
  FrameLoop loop;
  loop.fill = [&](const InputFrame& frame) { return input_->lend(frame, stop_); };
  int taken = 0;
  loop.take = [&](const OutputFrame& frame) {
    EXPECT_THAT(frame.output(0), Each(static_cast<std::byte>(++taken)));
    return Status();
  };
  EXPECT_TRUE(run_frames(*pipeline_, loop, stop_).ok());
  EXPECT_EQ(taken, 100);
  EXPECT_EQ(driver_->lent(), 0u);
}

TEST_F(PictureInputTest, TheFirstStageReadsTheDriversBufferOnItsOwnThreadAndReturnsItBeforeItRuns) {
  ASSERT_TRUE(start(gated(), std::make_unique<Numbers>(driver_, 2)).ok());
  ASSERT_TRUE(send().ok());
  while (!entered_) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(driver_->lent(), 0u);  // before the stage's own work
  ASSERT_TRUE(send().ok());
  // What is written into the driver's memory after the submit is what the stage reads.
  driver_->overwrite(0, 77);
  driver_->overwrite(1, 77);
  go_ = true;
  EXPECT_THAT(take(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(take(), ElementsAre(77, 77, 77, 77));
  EXPECT_EQ(driver_->lent(), 0u);
  EXPECT_EQ(driver_->given_back_by(), stage_thread_);
  EXPECT_NE(stage_thread_, std::this_thread::get_id());
}

TEST_F(PictureInputTest, NoPictureAllocates) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 1000)).ok());
  const auto run = [&](int frames) {
    for (int frame = 0; frame < frames; ++frame) {
      ASSERT_TRUE(send().ok());
      ASSERT_TRUE(pipeline_->next(soon()).ok());
    }
  };
  run(10);
  const long before = conformance::allocation_count();
  run(100);
  EXPECT_EQ(conformance::allocation_count() - before, 0);
}

TEST_F(PictureInputTest, OnePictureWaitsAtMostSoTheNextIsTakenLate) {
  ASSERT_TRUE(start(gated(), std::make_unique<Numbers>(driver_, 3)).ok());
  ASSERT_TRUE(send().ok());
  ASSERT_TRUE(send().ok());
  stop_ = true;  // otherwise it would block: a third picture may not be taken yet
  EXPECT_EQ(send().code(), Code::kClosed);
  go_ = true;
}

TEST_F(PictureInputTest, PicturesOfDroppedFramesAreReturned) {
  ASSERT_TRUE(start(gated(), std::make_unique<Numbers>(driver_, 2)).ok());
  ASSERT_TRUE(send().ok());
  while (!entered_) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(send().ok());
  EXPECT_EQ(driver_->lent(), 1u);
  pipeline_->cancel();
  input_->release_waiting();
  EXPECT_EQ(driver_->lent(), 0u);
  go_ = true;
}

TEST_F(PictureInputTest, ADestroyedPipelineReturnsItsPictures) {
  const auto fails = [](Buffers, Buffers) { return Status(Code::kInternal, "broken"); };
  ASSERT_TRUE(start(fails, std::make_unique<Numbers>(driver_, 2)).ok());
  ASSERT_TRUE(send().ok());
  static_cast<void>(send());
  pipeline_.reset();
  input_.reset();
  EXPECT_EQ(driver_->lent(), 0u);
}

TEST_F(PictureInputTest, TheFallbackRunsOnTheFrameThatWasFittedAndFitsTheLaterOnes) {
  const auto broken = [](Buffers, Buffers) { return Status(Code::kDevice, "gone"); };
  ASSERT_TRUE(start(broken, std::make_unique<Numbers>(driver_, 2), copy).ok());
  ASSERT_TRUE(send().ok());
  EXPECT_THAT(take(), ElementsAre(1, 1, 1, 1));
  ASSERT_TRUE(send().ok());
  EXPECT_THAT(take(), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(pipeline_->statistics().stages[0].fallback_frames, 2u);
}

TEST_F(PictureInputTest, ADamagedPictureOfALiveSourceIsMarkedAndTheRunContinues) {
  if (const std::string why = testing::jpeg_lacks(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 2, true, 1)).ok());
  for (const bool damaged : {true, false}) {
    ASSERT_TRUE(send().ok());
    const Result<OutputFrame> frame = pipeline_->next(soon());
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(input_->damaged(*frame), damaged);
  }
}

TEST_F(PictureInputTest, ADamagedPictureOfAFileEndsTheRunAndNamesTheSource) {
  if (const std::string why = testing::jpeg_lacks(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 1, false, 1)).ok());
  ASSERT_TRUE(send().ok());
  const Status status = pipeline_->next(soon()).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("stage 0 'head' at frame 0: numbers: "));
}

// ---- copies for those who show pictures

/// The gray value of a frame's copy in all channels of all pixels; -1: no copy.
int value_of(const PictureInput::Copy* copy) {
  if (copy == nullptr) return -1;
  const std::span<const std::byte> bytes = copy->picture.bytes;
  EXPECT_EQ(copy->picture.format, PixelFormat::kRgb);
  EXPECT_EQ(bytes.size(), 12u);
  EXPECT_THAT(bytes, Each(bytes[0]));
  return static_cast<int>(bytes[0]);
}

TEST_F(PictureInputTest, AReaderGetsCopiesOfAsManyPicturesAsItAsksFor) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 100)).ok());
  PictureInput::Copies& copies = input_->add_copies(1 << 20);
  std::vector<int> values;
  const auto run = [&](int frames) {
    for (int frame = 0; frame < frames; ++frame) {
      ASSERT_TRUE(send().ok());
      const Result<OutputFrame> finished = pipeline_->next(soon());
      ASSERT_TRUE(finished.ok());
      values.push_back(value_of(copies.of(*finished)));
    }
  };
  run(2);
  copies.ask(3);
  run(5);
  copies.ask(PictureInput::Copies::kAll);
  run(3);
  copies.ask(0);
  run(1);
  EXPECT_THAT(values, ElementsAre(-1, -1, 3, 4, 5, -1, -1, 8, 9, 10, -1));
}

TEST_F(PictureInputTest, FramesInFlightKeepTheirOwnCopiesAfterTheDriverHasTheBufferAgain) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 2)).ok());
  PictureInput::Copies& copies = input_->add_copies(1 << 20);
  copies.ask(PictureInput::Copies::kAll);
  ASSERT_TRUE(send().ok());
  const Result<OutputFrame> first = pipeline_->next(soon());
  ASSERT_TRUE(send().ok());
  const Result<OutputFrame> second = pipeline_->next(soon());
  ASSERT_TRUE(first.ok() && second.ok());
  driver_->overwrite(0, 77);
  driver_->overwrite(1, 77);
  EXPECT_EQ(value_of(copies.of(*first)), 1);
  EXPECT_EQ(value_of(copies.of(*second)), 2);
}

TEST_F(PictureInputTest, ReadersShareACopyOfOneSizeAndMayComeAtAnyTime) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 10)).ok());
  PictureInput::Copies& page = input_->add_copies(1 << 20);
  page.ask(PictureInput::Copies::kAll);
  ASSERT_TRUE(send().ok());
  const Result<OutputFrame> early = pipeline_->next(soon());
  ASSERT_TRUE(early.ok());
  PictureInput::Copies& stream = input_->add_copies(1 << 22);
  PictureInput::Copies& idle = input_->add_copies(1 << 20);
  EXPECT_EQ(stream.of(*early), nullptr);
  stream.ask(1);
  ASSERT_TRUE(send().ok());
  const Result<OutputFrame> frame = pipeline_->next(soon());
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(value_of(page.of(*frame)), 2);
  EXPECT_EQ(page.of(*frame), stream.of(*frame));
  EXPECT_EQ(idle.of(*frame), nullptr);
}

TEST_F(PictureInputTest, NoPictureAllocatesWhileCopiesAreMade) {
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 1000)).ok());
  input_->add_copies(1 << 20).ask(PictureInput::Copies::kAll);
  const auto run = [&](int frames) {
    for (int frame = 0; frame < frames; ++frame) {
      ASSERT_TRUE(send().ok());
      ASSERT_TRUE(pipeline_->next(soon()).ok());
    }
  };
  run(10);
  const long before = conformance::allocation_count();
  run(100);
  EXPECT_EQ(conformance::allocation_count() - before, 0);
}

TEST_F(PictureInputTest, TheCopyStaysWhenTheFallbackRunsTheFrameAgain) {
  const auto broken = [](Buffers, Buffers) { return Status(Code::kDevice, "gone"); };
  ASSERT_TRUE(start(broken, std::make_unique<Numbers>(driver_, 1), copy).ok());
  PictureInput::Copies& copies = input_->add_copies(1 << 20);
  copies.ask(1);
  ASSERT_TRUE(send().ok());
  const Result<OutputFrame> frame = pipeline_->next(soon());
  ASSERT_TRUE(frame.ok()) << frame.status().message();
  EXPECT_EQ(value_of(copies.of(*frame)), 1);
}

TEST_F(PictureInputTest, ADamagedPictureHasNoCopy) {
  if (const std::string why = testing::jpeg_lacks(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(start(copy, std::make_unique<Numbers>(driver_, 2, true, 2)).ok());
  PictureInput::Copies& copies = input_->add_copies(1 << 20);
  copies.ask(PictureInput::Copies::kAll);
  for (const int value : {1, -1}) {
    ASSERT_TRUE(send().ok());
    const Result<OutputFrame> frame = pipeline_->next(soon());
    ASSERT_TRUE(frame.ok()) << frame.status().message();
    EXPECT_EQ(value_of(copies.of(*frame)), value);
  }
}

TEST(PictureInput, AGraphOfSeveralInputsIsRefused) {
  Graph graph = testing::chain({testing::affine(1)});
  graph.tensors.push_back({.name = "second", .bytes = 8});
  graph.inputs.push_back(2);
  const auto input = PictureInput::attach(graph, kPreprocess);
  EXPECT_EQ(input.status().message(), "found 2 inputs, expected one for a camera");
  EXPECT_EQ(input.status().hint(), "load the bundle in Python, which takes several inputs");
}

}  // namespace
}  // namespace edgepipe
