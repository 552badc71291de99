// V4l2Camera with a simulated camera behind its system calls.
#include "media/sources/v4l2_camera.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/videodev2.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "edgepipe/conformance/allocation_counter.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr std::size_t kPictureBytes = 4 * 2;  // gray, 4x2 pixels
constexpr int kFirstFile = 1000;              // no descriptor of this process
constexpr int kFirstDmaBuf = 2000;            // the same
constexpr std::size_t kBuffers = 5;

/// A camera of four gray pixels by two. The test decides when it has a picture. Like a driver, it
/// streams to one opener at a time.
class FakeCamera final : public V4l2Calls {
 public:
  int open(const char* /*path*/) override {
    MutexLock lock(mutex_);
    if (!plugged_) return fail(ENOENT);
    return kFirstFile + opened_++;
  }

  int close(int file) override {
    MutexLock lock(mutex_);
    if (file == streaming_) streaming_ = kNone;
    return 0;
  }

  void* map(int /*file*/, std::size_t /*bytes*/, unsigned offset) override {
    MutexLock lock(mutex_);
    ++mapped_;
    return memory_[offset].data();
  }

  void unmap(void* /*address*/, std::size_t /*bytes*/) override {
    MutexLock lock(mutex_);
    --mapped_;
  }

  int wait(int file, int timeout_ms) override {
    MutexLock lock(mutex_);
    if (file == streaming_ && filled_.empty()) {
      changed_.wait_until(lock, Clock::now() + std::chrono::milliseconds(timeout_ms));
    }
    conformance::fail_allocations(std::exchange(starved_, 0));
    if (file != streaming_) return fail(ENODEV);
    return filled_.empty() ? 0 : 1;
  }

  int ioctl(int file, unsigned long request, void* argument) override {
    MutexLock lock(mutex_);
    auto* buffer = static_cast<v4l2_buffer*>(argument);
    switch (request) {
      case VIDIOC_QUERYCAP: {
        auto* capability = static_cast<v4l2_capability*>(argument);
        std::strcpy(reinterpret_cast<char*>(capability->card), "fake");
        capability->capabilities = capabilities_;
        return 0;
      }
      case VIDIOC_ENUM_FMT: {
        auto* format = static_cast<v4l2_fmtdesc*>(argument);
        format->pixelformat = V4L2_PIX_FMT_GREY;
        return format->index == 0 ? 0 : fail(EINVAL);
      }
      case VIDIOC_S_FMT: {
        auto& pixels = static_cast<v4l2_format*>(argument)->fmt.pix;
        pixels.width = width_;
        pixels.height = 2;
        pixels.bytesperline = width_;
        return 0;
      }
      case VIDIOC_REQBUFS:
        if (streaming_ != kNone) return fail(EBUSY);
        streaming_ = file;
        free_.clear();
        filled_.clear();
        static_cast<v4l2_requestbuffers*>(argument)->count = buffers_;
        return 0;
      case VIDIOC_QUERYBUF:
        buffer->length = kPictureBytes;
        buffer->m.offset = buffer->index;
        return 0;
      case VIDIOC_EXPBUF: {
        if (!exports_) return fail(ENOTTY);
        auto* exported = static_cast<v4l2_exportbuffer*>(argument);
        exported->fd = kFirstDmaBuf + static_cast<int>(exported->index);
        return 0;
      }
      case VIDIOC_QBUF:
        if (file != streaming_) return fail(ENODEV);
        free_.insert(buffer->index);
        changed_.notify();
        return 0;
      case VIDIOC_DQBUF:
        if (file != streaming_) return fail(ENODEV);
        if (filled_.empty()) return fail(EAGAIN);
        *buffer = filled_.front();
        filled_.pop_front();
        changed_.notify();
        return 0;
      default:
        return 0;  // STREAMON, STREAMOFF
    }
  }

  /// Fills a free buffer with `value` and waits until the camera's thread has taken it.
  void capture(std::uint8_t value, std::uint32_t sequence, std::uint32_t flags = 0) {
    MutexLock lock(mutex_);
    ASSERT_FALSE(free_.empty()) << "the reader keeps the buffers";
    fill(value, sequence, flags);
    while (!filled_.empty()) changed_.wait_until(lock, far_future());
  }

  /// Fills a buffer if the camera is open and has one free.
  void try_capture(std::uint32_t sequence, std::uint32_t flags = 0) {
    MutexLock lock(mutex_);
    if (!free_.empty()) fill(0, sequence, flags);
  }

  /// Makes this many allocations of the camera's thread fail.
  void starve(long allocations) {
    MutexLock lock(mutex_);
    starved_ = allocations;
  }

  void unplug() {
    MutexLock lock(mutex_);
    plugged_ = false;
    streaming_ = kNone;
    changed_.notify();
  }

  void plug() {
    MutexLock lock(mutex_);
    plugged_ = true;
  }

  void give_buffers(unsigned count) {
    MutexLock lock(mutex_);
    buffers_ = count;
  }

  void offer(std::uint32_t capabilities) {
    MutexLock lock(mutex_);
    capabilities_ = capabilities;
  }

  void choose_width(unsigned pixels) {
    MutexLock lock(mutex_);
    width_ = pixels;
  }

  void export_buffers() {
    MutexLock lock(mutex_);
    exports_ = true;
  }

  int mapped() {
    MutexLock lock(mutex_);
    return mapped_;
  }

  /// How many buffers the driver may fill.
  std::size_t queued() {
    MutexLock lock(mutex_);
    return free_.size();
  }

  const std::byte* buffer(std::size_t index) {
    MutexLock lock(mutex_);
    return reinterpret_cast<const std::byte*>(memory_[index].data());
  }

 private:
  static constexpr int kNone = -1;

  void fill(std::uint8_t value, std::uint32_t sequence, std::uint32_t flags)
      EDGEPIPE_REQUIRES(mutex_) {
    v4l2_buffer buffer{};
    buffer.index = *free_.begin();
    buffer.bytesused = kPictureBytes;
    buffer.sequence = sequence;
    buffer.flags = flags;
    free_.erase(free_.begin());
    memory_[buffer.index].fill(value);
    filled_.push_back(buffer);
    changed_.notify();
  }

  static int fail(int error) {
    errno = error;
    return -1;
  }

  Mutex mutex_;
  CondVar changed_;
  bool plugged_ = true;
  std::uint32_t capabilities_ = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
  int opened_ = 0;         // times
  int streaming_ = kNone;  // the file that captures
  unsigned buffers_ = kBuffers;
  bool exports_ = false;
  unsigned width_ = 4;
  int mapped_ = 0;
  long starved_ = 0;
  std::array<std::array<std::uint8_t, kPictureBytes>, kBuffers> memory_{};
  std::set<std::uint32_t> free_;
  std::deque<v4l2_buffer> filled_;
};

class V4l2CameraTest : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }

  void open(const SilencePolicy& silence) {
    camera_.reset();
    Result<std::unique_ptr<PictureSource>> opened = V4l2Camera::open(
        {.path = "fake", .stream = {}, .reconnect_ms = 1, .silence = silence}, calls_);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    camera_ = std::move(*opened);
  }

  void TearDown() override {
    camera_.reset();
    EXPECT_EQ(calls_.mapped(), 0);
  }

  void expect_faults(const std::string& text) {
    while (camera_->fault().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(camera_->fault(), text);
  }

  /// Waits until as many pictures have come in, good and bad.
  void expect_pictures(std::uint64_t count) {
    while (camera_->counters().captured + camera_->counters().missed < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void expect_reconnects(std::uint64_t count) {
    while (camera_->counters().reconnects < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  PictureLease next() {
    PictureLease lease;
    const std::atomic<bool> stop{false};
    Result<bool> more = camera_->next(lease, stop);
    EXPECT_TRUE(more.ok() && *more);
    EXPECT_EQ(lease.picture().bytes.size(), kPictureBytes);
    return lease;
  }

  int next_value() { return value_of(next()); }

  static int value_of(const PictureLease& lease) {
    return static_cast<int>(lease.picture().bytes[0]);
  }

  FakeCamera calls_;
  std::unique_ptr<PictureSource> camera_;
};

TEST_F(V4l2CameraTest, GivesTheNewestPictureAndCountsTheOlderAsDropped) {
  for (std::uint32_t number = 0; number < 20; ++number) {
    calls_.capture(static_cast<std::uint8_t>(number), number);
  }
  expect_pictures(20);
  EXPECT_EQ(camera_->counters().waiting, 1U);
  EXPECT_EQ(next_value(), 19);
  const SourceCounters counters = camera_->counters();
  EXPECT_EQ(counters.waiting, 0U);
  EXPECT_EQ(counters.captured, 20U);
  EXPECT_EQ(counters.taken, 1U);
  EXPECT_EQ(counters.dropped, 19U);
  EXPECT_EQ(counters.missed, 0U);
}

TEST_F(V4l2CameraTest, DoesNotReuseAPictureWhileItIsRead) {
  calls_.capture(1, 0);
  const PictureLease lease = next();
  for (std::uint32_t number = 1; number < 9; ++number) calls_.capture(100, number);
  EXPECT_EQ(value_of(lease), 1);
  EXPECT_EQ(next_value(), 100);
}

TEST_F(V4l2CameraTest, LendsTheDriversOwnBufferUntilTheLeaseEnds) {
  calls_.capture(1, 0);
  PictureLease lease = next();
  EXPECT_EQ(lease.picture().bytes.data(), calls_.buffer(0));
  EXPECT_EQ(calls_.queued(), kBuffers - 1);
  lease.release();
  EXPECT_EQ(calls_.queued(), kBuffers);
}

TEST_F(V4l2CameraTest, AnOldPictureIsReturnedToTheDriverAtOnce) {
  for (std::uint32_t number = 0; number < 9; ++number) {
    calls_.capture(1, number);
    expect_pictures(number + 1);
    // All but the newest; the camera counts a picture just before it gives the old one back.
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (calls_.queued() != kBuffers - 1 && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(calls_.queued(), kBuffers - 1);
  }
}

TEST_F(V4l2CameraTest, ALentPictureStaysValidWithoutDeviceAndCamera) {
  calls_.capture(5, 0);
  const PictureLease lease = next();
  calls_.unplug();
  camera_.reset();
  EXPECT_EQ(value_of(lease), 5);
}

TEST_F(V4l2CameraTest, APictureCarriesItsDmaBufWhereTheDriverExportsIt) {
  calls_.capture(1, 0);
  EXPECT_EQ(next().picture().dma_buf, -1);
  calls_.unplug();
  calls_.export_buffers();
  calls_.plug();
  expect_reconnects(1);
  calls_.capture(2, 0);
  EXPECT_EQ(next().picture().dma_buf, kFirstDmaBuf);
}

TEST_F(V4l2CameraTest, ContinuesAfterItsThreadRanOutOfMemory) {
  for (const long allocations : {1, 2, 3, 4}) {
    calls_.starve(allocations);
    calls_.unplug();
    calls_.plug();
    expect_reconnects(static_cast<std::uint64_t>(allocations));
    calls_.capture(static_cast<std::uint8_t>(allocations), 0);
    EXPECT_EQ(next_value(), allocations);
  }
}

TEST_F(V4l2CameraTest, CountsGapsAndDamagedPicturesAsMissed) {
  calls_.capture(1, 0);
  calls_.capture(2, 5);
  calls_.capture(3, 6, V4L2_BUF_FLAG_ERROR);
  expect_pictures(7);
  EXPECT_EQ(next_value(), 2);
  EXPECT_EQ(camera_->counters().missed, 5U);
}

TEST_F(V4l2CameraTest, ContinuesWhenTheDeviceComesBack) {
  calls_.capture(1, 0);
  EXPECT_EQ(next_value(), 1);
  calls_.unplug();
  calls_.plug();
  expect_reconnects(1);
  calls_.capture(7, 0);
  EXPECT_EQ(next_value(), 7);
  EXPECT_EQ(camera_->counters().missed, 0U);
}

TEST_F(V4l2CameraTest, ASilentDeviceIsClosedReopenedAndCounted) {
  Mutex mutex;
  std::vector<std::string> told;
  open({.limit = 50ms, .on_fault = [&](const std::string& text) {
          MutexLock lock(mutex);
          told.push_back(text);
        }});
  calls_.capture(1, 0);
  PictureLease lease = next();  // the driver is busy while it is read
  expect_faults("fake: no picture for 0.05 s");
  EXPECT_GT(camera_->counters().outage, 0ms);
  lease.release();
  expect_reconnects(1);
  EXPECT_GE(camera_->counters().silences, 1U);
  for (std::uint32_t number = 0; camera_->counters().outage > 0ms; ++number) {
    calls_.try_capture(number);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(next_value(), 0);
  EXPECT_EQ(camera_->counters().missed, 0U);
  camera_.reset();  // which reports nothing more
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told[0], "fake: no picture for 0.05 s; closed, to be opened again");
  EXPECT_THAT(told[1], MatchesRegex("fake: delivers pictures again, after [0-9]+\\.[0-9]+ s"));
}

TEST_F(V4l2CameraTest, PicturesMarkedAsDamagedAreSilence) {
  open({.limit = 50ms});
  const auto deadline = Clock::now() + 20s;
  for (std::uint32_t number = 0; camera_->counters().silences == 0; ++number) {
    ASSERT_LT(Clock::now(), deadline);
    calls_.try_capture(number, V4L2_BUF_FLAG_ERROR);
    std::this_thread::sleep_for(5ms);
  }
}

TEST_F(V4l2CameraTest, WithoutATimeLimitSilenceIsProgress) {
  const std::uint64_t steps = camera_->counters().steps;
  while (camera_->counters().steps == steps) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(camera_->counters().silences, 0U);
}

TEST_F(V4l2CameraTest, WithinItsTimeLimitSilenceIsNoProgressButAnAttemptIs) {
  open({.limit = 600ms});
  calls_.capture(1, 0);
  expect_pictures(1);
  const std::uint64_t steps = camera_->counters().steps;
  SourceCounters now;
  for (; now.reconnects == 0; now = camera_->counters()) {
    EXPECT_LE(now.steps, steps);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GT(now.steps, steps);
}

TEST_F(V4l2CameraTest, SilenceDoesNotCountWhileTheReaderHoldsEveryBuffer) {
  calls_.give_buffers(3);
  open({.limit = 500ms});
  calls_.capture(1, 0);
  const PictureLease first = next();
  calls_.capture(2, 1);
  PictureLease second = next();
  calls_.capture(3, 2);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(camera_->counters().silences, 0U);
  second.release();
  while (camera_->counters().silences == 0) std::this_thread::sleep_for(1ms);
}

TEST_F(V4l2CameraTest, GivesUpAfterTheGivenTime) {
  open({.limit = 60s, .give_up = 300ms});
  calls_.unplug();
  PictureLease lease;
  const std::atomic<bool> stop{false};
  const Status status = camera_->next(lease, stop).status();
  EXPECT_EQ(status.code(), Code::kDevice);
  EXPECT_THAT(status.message(),
              MatchesRegex("fake: no picture for 0.3 s, although it was opened again .* times"));
  EXPECT_EQ(status.hint(),
            "check the camera and its cable, or the program that writes the pictures");
  EXPECT_EQ(camera_->fault(), "fake: is gone: No such device");
}

TEST_F(V4l2CameraTest, StopEndsTheWaitForAPicture) {
  PictureLease lease;
  const std::atomic<bool> stop{true};
  Result<bool> more = camera_->next(lease, stop);
  ASSERT_TRUE(more.ok());
  EXPECT_FALSE(*more);
}

TEST(V4l2Camera, AMissingDeviceAtTheStartIsAnError) {
  FakeCamera calls;
  calls.unplug();
  const auto opened = V4l2Camera::open({.path = "/dev/video7", .stream = {}}, calls);
  EXPECT_EQ(opened.status().code(), Code::kNotFound);
  EXPECT_EQ(opened.status().message(), "/dev/video7: cannot be opened: No such file or directory");
  EXPECT_EQ(opened.status().hint(),
            "connect a camera; `v4l2-ctl --list-devices` shows which there are");
}

TEST(V4l2Camera, ALargerSizeThanAllowedIsAnError) {
  FakeCamera calls;
  calls.choose_width(100);
  const auto opened = V4l2Camera::open({.path = "fake", .stream = {.most_pixels = 199}}, calls);
  EXPECT_EQ(opened.status().message(),
            "fake: the picture is 100x2 pixels, expected at most 199 in all");
}

TEST(V4l2Camera, AFormatItDoesNotHaveIsAnError) {
  FakeCamera calls;
  const auto opened =
      V4l2Camera::open({.path = "fake", .stream = {.format = PixelFormat::kNv12}}, calls);
  EXPECT_EQ(opened.status().message(), "fake: none of its 1 formats is nv12");
  EXPECT_EQ(opened.status().hint(), "`v4l2-ctl --list-formats --device fake` shows them");
}

TEST(V4l2Camera, ACameraDeviceWithoutPicturesIsAnError) {
  FakeCamera calls;
  calls.offer(V4L2_CAP_META_CAPTURE | V4L2_CAP_STREAMING);
  const auto opened = V4l2Camera::open({.path = "fake", .stream = {}}, calls);
  EXPECT_EQ(opened.status().message(),
            "fake: not a single-planar camera that captures into mapped buffers");
  EXPECT_EQ(opened.status().hint(),
            "a camera may have several devices: `v4l2-ctl --list-devices` shows them");
}

TEST(V4l2Camera, ACameraThatIsInUseIsAnError) {
  FakeCamera calls;
  const auto user = V4l2Camera::open({.path = "fake", .stream = {}}, calls);
  ASSERT_TRUE(user.ok()) << user.status().message();
  const auto opened = V4l2Camera::open({.path = "fake", .stream = {}}, calls);
  EXPECT_EQ(opened.status().message(), "fake: allocates no buffers: Device or resource busy");
  EXPECT_EQ(opened.status().hint(), "stop the program that uses the camera");
}

}  // namespace
}  // namespace edgepipe
