// SharedTurns: an accelerator's turns among processes.
//
//   Result<std::unique_ptr<SharedTurns>> turns = SharedTurns::open("/dev/uio0", {.priority = 1});
//   Result<SharedTurns::Turn> turn = (*turns)->take(deadline);
//   if ((*turns)->interrupted()) ...  // its last holder died in a run, or could not end it
//   (*turns)->begin_run();
//   ...
//   (*turns)->end_run();              // the turn ends with its scope
//
// Who may use the accelerator is a lock of the kernel: an open file description lock on byte 0 of
// the device's file. The kernel releases it whenever its process dies, at any instruction. Who is
// next is decided in a page of memory that the processes share. Whatever a dying process leaves in
// that page, it can only delay or reorder the others, never let two of them in:
//
//   byte 0          the accelerator             page  changed    futex: something has been released
//   byte 1          opening the page                  running    a run has begun and not ended
//   byte 2 + n      seat n has a process              seats[n]   its priority, and its ticket while
//                                                                it waits
//
// A process that wants the accelerator draws a ticket. Among those who wait, the highest priority
// is first, then the lowest ticket. The first takes the lock; the others wait for a change of the
// page. Nobody announces a death, so they also look every few milliseconds.
//
// The page is a file, which can be removed while it is used: systemd does that at the end of a unit
// with RemoveIPC=yes. Each process moves to the new page when it next wants the accelerator.
//
// A handover without contention is three system calls. Thread rules: one thread at a time has or
// wants a turn of one object; the other functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/shared_mapping.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class SharedTurns {
 public:
  struct Options {
    int priority = 0;                   // higher ones are served first
    std::string folder = "/dev/shm";    // of the shared page
    std::chrono::milliseconds look{2};  // between two looks for a process that has died
    /// The first in the queue loses its place if it leaves the accelerator unused for so long: it
    /// was stopped, for example by a debugger.
    std::chrono::milliseconds stalled{200};
  };

  /// Holds the accelerator and releases it when destroyed. Movable, not copyable.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->release();
    }

   private:
    friend class SharedTurns;
    explicit Turn(SharedTurns* turns) : turns_(turns) {}

    SharedTurns* turns_;
  };

  /// Joins the users of `device`, the path of its file. kDevice if too many processes share it,
  /// or if the page or the file's locks cannot be used.
  static Result<std::unique_ptr<SharedTurns>> open(const std::string& device,
                                                   const Options& options);

  /// Blocks until it is this process's turn; kDeadline says which process has the accelerator.
  Result<Turn> take(Clock::time_point deadline);

  /// With a turn: whether the last run of any process has begun, but not ended.
  [[nodiscard]] bool interrupted() const { return running(); }

  /// Whether a run of any process has begun and not ended.
  [[nodiscard]] bool running() const;

  /// Call them with a turn. If the process dies between them, the next one finds `interrupted`.
  void begin_run();
  void end_run();

 private:
  struct Seat;
  struct Page;
  struct PageFile {
    FileDescriptor file;
    SharedMapping mapping;
  };

  SharedTurns(std::string device, FileDescriptor file, std::size_t seat, const Options& options)
      : device_(std::move(device)), file_(std::move(file)), seat_(seat), options_(options) {}
  [[nodiscard]] Page& page() const { return *page_; }
  Status open_page();
  Result<PageFile> open_page_file() const;
  Status follow_page();
  [[nodiscard]] std::optional<std::size_t> first_in_queue() const;
  Result<bool> lock_accelerator();
  Status wait_in_queue(Clock::time_point deadline);
  void pass_over(std::size_t seat);
  void draw_ticket();
  void announce();
  void release();

  const std::string device_;
  const FileDescriptor file_;
  const std::size_t seat_;
  const Options options_;
  // The last one is used; running() may still read an earlier one.
  std::vector<PageFile> pages_;
  std::atomic<Page*> page_{nullptr};
};

}  // namespace edgepipe
