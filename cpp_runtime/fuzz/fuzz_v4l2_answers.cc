// A driver that answers anything to every system call: opening it is refused, or its pictures lie
// inside the buffers that it gave, and a buffer is lent to one reader at a time.
//
// The input is a sequence of answers: a byte, where 0 to 31 makes the call fail with that errno,
// then the bytes of the call's argument as the driver leaves it. After the end of the input, all
// calls fail.
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "media/sources/v4l2_stream.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostBufferBytes = 1 << 16;

class AnyDriver final : public V4l2Calls {
 public:
  explicit AnyDriver(std::span<const std::uint8_t> answers) : answers_(answers) {}

  int open(const char* /*path*/) override { return 1000; }
  int close(int /*file*/) override { return 0; }
  int wait(int /*file*/, int /*timeout_ms*/) override { return fails() ? -1 : 1; }

  int ioctl(int /*file*/, unsigned long request, void* argument) override {
    if (fails()) return -1;
    if ((_IOC_DIR(request) & _IOC_READ) == 0) return 0;
    const std::size_t bytes = std::min<std::size_t>(_IOC_SIZE(request), answers_.size());
    std::memcpy(argument, answers_.data(), bytes);
    answers_ = answers_.subspan(bytes);
    return 0;
  }

  void* map(int /*file*/, std::size_t bytes, unsigned /*offset*/) override {
    if (bytes > kMostBufferBytes) return MAP_FAILED;
    auto memory = std::make_unique<std::byte[]>(bytes);
    void* address = memory.get();
    memory_[address] = std::move(memory);
    return address;
  }

  void unmap(void* address, std::size_t /*bytes*/) override {
    if (memory_.erase(address) != 1) std::abort();
  }

  [[nodiscard]] bool all_unmapped() const { return memory_.empty(); }

 private:
  bool fails() {
    errno = answers_.empty() ? EIO : answers_.front();
    const bool failing = answers_.empty() || answers_.front() < 32;
    if (!answers_.empty()) answers_ = answers_.subspan(1);
    return failing;
  }

  std::span<const std::uint8_t> answers_;
  std::map<void*, std::unique_ptr<std::byte[]>> memory_;
};

void capture(V4l2Stream& stream) {
  std::set<std::size_t> lent;
  for (;;) {
    const Result<V4l2Stream::Capture> capture = stream.dequeue(0);
    if (!capture.ok() && capture.status().code() != Code::kDeadline) return;
    if (!capture.ok()) continue;
    if (!lent.insert(capture->buffer).second) std::abort();
    if (!capture->damaged) {
      int sum = 0;
      for (const std::byte byte : stream.picture(capture->buffer).bytes) {
        sum += std::to_integer<int>(byte);
      }
      if (sum < 0) std::abort();
    }
    if (lent.size() < 3) continue;
    for (const std::size_t buffer : lent) stream.give_back(buffer);
    lent.clear();
  }
}

}  // namespace
}  // namespace edgepipe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace edgepipe;
  AnyDriver driver(std::span(data, bytes));
  {
    const auto stream = V4l2Stream::open("/dev/video0", {}, driver);
    if (stream.ok()) capture(**stream);
  }
  if (!driver.all_unmapped()) std::abort();
  return 0;
}
