#include "device/shared_turns.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/open_failure.h"
#include "base/range_lock.h"

namespace edgepipe {
namespace {

constexpr FileRange kAccelerator{.first = 0, .bytes = 1};
constexpr FileRange kSetUp{.first = 1, .bytes = 1};
constexpr std::size_t kSeats = 64;

constexpr FileRange seat_lock(std::size_t seat) { return {.first = 2 + seat, .bytes = 1}; }

using Word = std::atomic<std::uint32_t>;
using Ticket = std::atomic<std::uint64_t>;
// Otherwise they would use a lock of this process.
static_assert(Word::is_always_lock_free && Ticket::is_always_lock_free);
static_assert(sizeof(Word) == sizeof(std::uint32_t), "a futex");

/// Waits until `word` is no longer `seen`; false if `limit` passes before anybody wakes it.
bool await_change(Word& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  // The kernel's own struct for this system call: two words of the machine.
  const struct {
    long seconds;
    long nanoseconds;
  } timeout{static_cast<long>(limit.count() / 1'000'000'000),
            static_cast<long>(limit.count() % 1'000'000'000)};
  return ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

/// Whoever may open the device, and only they, may open its page.
Result<FileDescriptor> create_page(const std::string& path, const struct stat& device) {
  FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return open_failure(Code::kDevice, path, errno);
  const mode_t mode = S_ISCHR(device.st_mode) ? device.st_mode & 0666 : 0600;
  // Not a member of the group: the device is open to everybody, or this is its owner.
  [[maybe_unused]] const int given = ::fchown(file.number(), static_cast<uid_t>(-1), device.st_gid);
  if (::fchmod(file.number(), mode) != 0) return open_failure(Code::kDevice, path, errno);
  return file;
}

}  // namespace

struct SharedTurns::Seat {
  Ticket ticket;  // 0: does not wait
  std::atomic<std::int32_t> priority;
  Word unused;
};

struct SharedTurns::Page {
  Word changed;
  Word running;
  Word holder;  // the process that had the accelerator last, for error texts
  Word unused;
  Ticket last_ticket;
  std::array<Seat, kSeats> seats;
};

Result<std::unique_ptr<SharedTurns>> SharedTurns::open(const std::string& device,
                                                       const Options& options) {
  FileDescriptor file(::open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kDevice, device, errno);
  for (std::size_t seat = 0; seat < kSeats; ++seat) {
    const Result<bool> mine = lock_range(file.number(), seat_lock(seat));
    if (!mine.ok()) return mine.status().with_context(device);
    if (!*mine) continue;
    std::unique_ptr<SharedTurns> turns(new SharedTurns(device, std::move(file), seat, options));
    if (Status status = turns->open_page(); !status.ok()) return status.with_context(device);
    return turns;
  }
  return Status(Code::kDevice, device + ": found " + std::to_string(kSeats) +
                                   " users that share it, expected fewer; stop some of them");
}

/// Opens the device's page, or creates it, and takes a seat in it.
Status SharedTurns::open_page() {
  if (Status status = await_range(file_.number(), kSetUp); !status.ok()) return status;
  Result<PageFile> opened = open_page_file();
  unlock_range(file_.number(), kSetUp);
  if (!opened.ok()) return opened.status();
  pages_.push_back(*std::move(opened));
  Page& next = *reinterpret_cast<Page*>(pages_.back().mapping.bytes().data());
  next.seats[seat_].ticket = 0;  // of a process that died here
  next.seats[seat_].priority = options_.priority;
  // What an earlier page says of a run that has not ended may be true still.
  if (page_ != nullptr && page().running != 0) next.running = 1;
  page_ = &next;
  return {};
}

/// The page is named after the device's inode, to which the kernel's locks belong, too. A new one
/// is all zeros.
Result<SharedTurns::PageFile> SharedTurns::open_page_file() const {
  struct stat device {};
  if (::fstat(file_.number(), &device) != 0) return open_failure(Code::kDevice, device_, errno);
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "/edgepipe-turns-%llx-%llx",
                static_cast<unsigned long long>(device.st_dev),
                static_cast<unsigned long long>(device.st_ino));
  const std::string path = options_.folder + name.data();
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid() && errno == ENOENT) {
    Result<FileDescriptor> created = create_page(path, device);
    if (!created.ok()) return created.status();
    file = *std::move(created);
  }
  if (!file.valid()) return open_failure(Code::kDevice, path, errno);
  struct stat found {};
  if (::fstat(file.number(), &found) != 0) return open_failure(Code::kDevice, path, errno);
  // Another user could shorten the file, which ends every process that has mapped it.
  const bool trusted = found.st_uid == 0 || found.st_uid == ::geteuid() ||
                       found.st_gid == device.st_gid || (device.st_mode & S_IWOTH) != 0;
  if (!S_ISREG(found.st_mode) || !trusted) {
    return Status(Code::kDevice, path + ": found a file of user " + std::to_string(found.st_uid) +
                                     ", expected one of a user of the device; remove it");
  }
  if (found.st_size < static_cast<off_t>(sizeof(Page)) &&
      ::ftruncate(file.number(), sizeof(Page)) != 0) {
    return open_failure(Code::kDevice, path, errno);
  }
  Result<SharedMapping> mapping = SharedMapping::map(file.number(), 0, sizeof(Page), path);
  if (!mapping.ok()) return mapping.status();
  return PageFile{.file = std::move(file), .mapping = *std::move(mapping)};
}

/// Moves to a new page if somebody has removed this one.
Status SharedTurns::follow_page() {
  struct stat found {};
  if (::fstat(pages_.back().file.number(), &found) != 0 || found.st_nlink != 0) return {};
  const bool waits = page().seats[seat_].ticket != 0;
  if (Status status = open_page(); !status.ok()) return status.with_context(device_);
  if (waits) draw_ticket();
  return {};
}

bool SharedTurns::running() const { return page().running != 0; }
void SharedTurns::begin_run() { page().running = 1; }
void SharedTurns::end_run() { page().running = 0; }

/// The seat whose turn is next; none if nobody waits.
std::optional<std::size_t> SharedTurns::first_in_queue() const {
  std::optional<std::size_t> first;
  std::pair<std::int64_t, std::uint64_t> best;
  for (std::size_t seat = 0; seat < kSeats; ++seat) {
    const Seat& at = page().seats[seat];
    const std::uint64_t ticket = at.ticket;
    if (ticket == 0) continue;
    const std::pair key(-std::int64_t{at.priority}, ticket);
    if (first && best < key) continue;
    first = seat;
    best = key;
  }
  return first;
}

Result<bool> SharedTurns::lock_accelerator() {
  Result<bool> mine = lock_range(file_.number(), kAccelerator);
  if (!mine.ok()) return mine.status().with_context(device_);
  if (*mine) page().holder = static_cast<std::uint32_t>(::getpid());
  return mine;
}

void SharedTurns::draw_ticket() { page().seats[seat_].ticket = ++page().last_ticket; }

Result<SharedTurns::Turn> SharedTurns::take(Clock::time_point deadline) {
  if (Status status = follow_page(); !status.ok()) return status;
  draw_ticket();
  const Status status = wait_in_queue(deadline);
  page().seats[seat_].ticket = 0;
  if (status.ok()) return Turn(this);
  announce();  // another one may be the first now
  return status;
}

Status SharedTurns::wait_in_queue(Clock::time_point deadline) {
  constexpr Clock::time_point kNot{};
  Clock::time_point unused_since = kNot;  // by the one who is first, but not this process
  for (;;) {
    const std::uint32_t seen = page().changed;
    std::optional<std::size_t> first = first_in_queue();
    if (page().seats[seat_].ticket == 0) {  // passed over; this process was stopped and goes on
      draw_ticket();
      continue;
    }
    if (first == seat_) {
      const Result<bool> mine = lock_accelerator();
      if (!mine.ok()) return mine.status();
      if (*mine) return {};
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      return {Code::kDeadline,
              device_ + ": no turn on the device before the deadline: process " +
                  std::to_string(page().holder) + " had the last one",
              "allow the device more time, or give it fewer stages and pipelines"};
    }
    if (await_change(page().changed, seen,
                     std::min<std::chrono::nanoseconds>(deadline - now, options_.look))) {
      unused_since = kNot;
      continue;
    }
    if (Status status = follow_page(); !status.ok()) return status;
    first = first_in_queue();
    if (!first || first == seat_) continue;
    if (!locked_by_others(file_.number(), seat_lock(*first))) {
      pass_over(*first);  // it has died
    } else if (locked_by_others(file_.number(), kAccelerator)) {
      unused_since = kNot;
    } else if (unused_since == kNot) {
      unused_since = now;
    } else if (now - unused_since >= options_.stalled) {
      pass_over(*first);
      unused_since = kNot;
    }
  }
}

/// Takes the ticket of a seat that does not use its turn, unless it has a new one by now.
void SharedTurns::pass_over(std::size_t seat) {
  std::uint64_t ticket = page().seats[seat].ticket;
  if (ticket != 0 && page().seats[seat].ticket.compare_exchange_strong(ticket, 0)) announce();
}

/// Lets everybody who waits look again. Costs no system call if nobody does.
void SharedTurns::announce() {
  ++page().changed;
  if (!first_in_queue()) return;
  ::syscall(SYS_futex, &page().changed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedTurns::release() {
  unlock_range(file_.number(), kAccelerator);
  announce();
}

}  // namespace edgepipe
