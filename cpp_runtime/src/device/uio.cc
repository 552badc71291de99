#include "device/uio.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "base/open_failure.h"
#include "base/sysfs.h"
#include "device/vta_registers.h"

namespace edgepipe {
namespace {

using Clock = std::chrono::steady_clock;

// Only the virtual board has a reset line. Its model first ends the program that it runs, which may
// take seconds, and longer on a busy machine.
constexpr std::chrono::seconds kResetPatience{60};

// The processor may reorder writes to ordinary memory and device memory, but the accelerator must
// not see the start before its data. GCC's atomic fences order only what other cores see.
void device_barrier() {
#if defined(__aarch64__) || defined(__arm__)
  asm volatile("dmb osh" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Why a device's lock was refused. A process that shares the device holds a shared lock.
Status taken(const UioInfo& info, int file, Use use) {
  const std::string stop = "`fuser " + info.path + "` shows its number";
  if (use == Use::kShared) {
    return {Code::kDevice,
            info.path + ": another process uses it alone, expected only ones that share it",
            "let it use uio:shared, too, or stop that process: " + stop};
  }
  if (::flock(file, LOCK_SH | LOCK_NB) == 0) {
    return {Code::kDevice, info.path + ": another process uses it and shares it, expected none",
            "use uio:shared, too, or stop that process: " + stop};
  }
  return {Code::kDevice, info.path + ": another process uses it", "stop that process: " + stop};
}

}  // namespace

Result<UioInfo> find_uio(const std::string& name, const std::string& classes,
                         const std::string& devices, std::size_t index) {
  std::string found;
  std::vector<std::filesystem::path> matches;
  const Result<std::vector<std::filesystem::path>> entries = list_folder(classes + "/uio");
  if (!entries.ok()) return entries.status();
  for (const std::filesystem::path& entry : *entries) {
    Result<std::string> entry_name = read_attribute(entry / "name");
    if (entry_name.status().code() == Code::kOutOfMemory) return entry_name.status();
    if (!entry_name.ok()) continue;
    if (*entry_name == name) matches.push_back(entry);
    found += (found.empty() ? "" : ", ") + *entry_name;
  }
  if (index >= matches.size()) {
    return Status(Code::kNotFound, "uio: no device " +
                                       (index == 0 ? "" : std::to_string(index) + " ") + "named '" +
                                       name + "', found " + (found.empty() ? "none" : found));
  }
  // uio9 before uio10; directory order is arbitrary.
  std::ranges::sort(matches, {}, [](const std::filesystem::path& path) {
    const std::string text = path.filename().string();
    return std::pair(text.size(), text);
  });
  Result<std::uint64_t> bytes = read_number(matches[index] / "maps/map0/size");
  if (!bytes.ok()) return bytes.status();
  return UioInfo{.path = devices + "/" + matches[index].filename().string(), .bytes = *bytes};
}

Result<std::unique_ptr<UioRegisters>> UioRegisters::open(const UioInfo& info, std::size_t bytes,
                                                         Use use) {
  if (info.bytes < bytes) {
    return Status(Code::kInvalidArgument, info.path + ": its registers have " +
                                              std::to_string(info.bytes) + " bytes, expected " +
                                              std::to_string(bytes));
  }
  FileDescriptor lock(::open(info.path.c_str(), O_RDWR | O_CLOEXEC));
  if (!lock.valid()) return open_failure(Code::kDevice, info.path, errno);
  const int kind = use == Use::kShared ? LOCK_SH : LOCK_EX;
  if (::flock(lock.number(), kind | LOCK_NB) != 0) return taken(info, lock.number(), use);
  Result<SharedMapping> mapping =
      SharedMapping::open(info.path, {.bytes = bytes, .uncached = true});
  if (!mapping.ok()) return mapping.status();
  return std::unique_ptr<UioRegisters>(new UioRegisters(*std::move(mapping), std::move(lock)));
}

volatile std::uint32_t* UioRegisters::word(std::uint32_t offset) const {
  return reinterpret_cast<volatile std::uint32_t*>(mapping_.bytes().data() + offset);
}

std::uint32_t UioRegisters::read(std::uint32_t offset) const {
  const std::uint32_t value = *word(offset);
  device_barrier();
  return value;
}

void UioRegisters::write(std::uint32_t offset, std::uint32_t value) {
  device_barrier();
  *word(offset) = value;
}

Result<std::unique_ptr<UioInterrupt>> UioInterrupt::open(const UioInfo& info) {
  FileDescriptor file(::open(info.path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return open_failure(Code::kDevice, info.path, errno);
  std::uint32_t count = 0;
  // The kernel returns EIO for a device without interrupt, EAGAIN if it has not fired.
  if (::read(file.number(), &count, sizeof count) < 0 && errno == EIO) {
    return std::unique_ptr<UioInterrupt>();
  }
  return std::unique_ptr<UioInterrupt>(new UioInterrupt(std::move(file)));
}

Status UioInterrupt::arm() {
  std::uint32_t count = 0;
  const ssize_t drained = ::read(file_.number(), &count, sizeof count);
  if (drained < 0 && errno != EAGAIN) {
    return {Code::kDevice, std::string("uio: interrupt: ") + std::strerror(errno)};
  }
  const std::uint32_t enable = 1;
  if (::write(file_.number(), &enable, sizeof enable) != sizeof enable) {
    return {Code::kDevice, std::string("uio: interrupt: ") + std::strerror(errno)};
  }
  return {};
}

Result<bool> UioInterrupt::wait(Clock::time_point deadline) {
  for (;;) {
    // At most a year, which fits in time_t on every machine.
    const std::chrono::nanoseconds left = std::clamp<std::chrono::nanoseconds>(
        deadline - Clock::now(), std::chrono::nanoseconds::zero(), std::chrono::hours(24 * 365));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{
        .tv_sec = static_cast<decltype(timespec::tv_sec)>(seconds.count()),
        .tv_nsec = static_cast<decltype(timespec::tv_nsec)>((left - seconds).count())};
    pollfd waiting{.fd = file_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::ppoll(&waiting, 1, &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Status(Code::kDevice, std::string("uio: ") + std::strerror(errno));
    if (ready == 0) return false;
    std::uint32_t count = 0;
    if (::read(file_.number(), &count, sizeof count) == sizeof count) return true;
    if (errno != EAGAIN && errno != EINTR) {
      return Status(Code::kDevice, std::string("uio: interrupt: ") + std::strerror(errno));
    }
  }
}

Result<std::unique_ptr<UioReset>> UioReset::open(const UioInfo& info, Use use) {
  // The page starts where the accelerator's blocks end.
  Result<std::unique_ptr<UioRegisters>> page =
      UioRegisters::open(info, vta::kBytesWithReset - vta::kResetRequest, use);
  if (!page.ok()) return page.status();
  return std::unique_ptr<UioReset>(new UioReset(*std::move(page)));
}

Status UioReset::reset() {
  constexpr std::uint32_t kRequest = 0;
  constexpr std::uint32_t kAcknowledge = vta::kResetAcknowledge - vta::kResetRequest;
  const std::uint32_t request = page_->read(kRequest) + 1;
  page_->write(kRequest, request);
  const Clock::time_point deadline = Clock::now() + kResetPatience;
  while (page_->read(kAcknowledge) != request) {
    if (Clock::now() > deadline) return {Code::kDeadline, "uio: reset is not acknowledged"};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

}  // namespace edgepipe
