// Outage: whether a live source delivers pictures, and since when and why it does not.
//
//   Outage outage("/dev/video0", policy);
//   outage.delivered();                        // for every picture
//   if (outage.silent()) { close(); outage.failed_silently(); }
//   ... outage.attempted(reopen());
//
//   [ delivering ] --failed(), failed_silently()--> [ outage ] --delivered()--> [ delivering ] ...
//
// All functions are for any thread and do not block.
#pragma once

#include <cstdint>
#include <string>

#include "edgepipe/picture_source.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class Outage {
 public:
  /// `name` begins the texts.
  Outage(std::string name, SilencePolicy policy);

  /// A picture has arrived; ends an outage.
  void delivered() EDGEPIPE_EXCLUDES(mutex_);

  /// The source waits. Counts as progress if there is no limit to how long it may wait.
  void waiting() EDGEPIPE_EXCLUDES(mutex_);

  /// Whether the time limit has passed since the last picture or attempt, or since excused().
  [[nodiscard]] bool silent() const EDGEPIPE_EXCLUDES(mutex_);

  /// Restarts the time limit: the source was prevented from delivering.
  void excused() EDGEPIPE_EXCLUDES(mutex_);

  /// The source failed, as `text` says, and has been closed; begins an outage or continues it.
  void failed(const std::string& text) EDGEPIPE_EXCLUDES(mutex_);
  void failed_silently() EDGEPIPE_EXCLUDES(mutex_);

  /// The source has been opened again, or could not be.
  void attempted(bool opened) EDGEPIPE_EXCLUDES(mutex_);

  /// kDevice once an outage has lasted for the policy's time.
  [[nodiscard]] Status given_up() const EDGEPIPE_EXCLUDES(mutex_);

  /// Sets silences, reconnects, steps and outage.
  void count_in(SourceCounters& counters) const EDGEPIPE_EXCLUDES(mutex_);

  /// The error that began the present or last outage; "" if there was none.
  [[nodiscard]] std::string fault() const EDGEPIPE_EXCLUDES(mutex_);

 private:
  using Milliseconds = std::chrono::milliseconds;

  [[nodiscard]] Milliseconds length() const EDGEPIPE_REQUIRES(mutex_);
  void tell(const std::string& text) const;

  const std::string name_;
  const SilencePolicy policy_;

  mutable Mutex mutex_;
  bool out_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  std::string fault_ EDGEPIPE_GUARDED_BY(mutex_);
  Clock::time_point picture_ EDGEPIPE_GUARDED_BY(mutex_) = Clock::now();  // the last one
  Clock::time_point quiet_ EDGEPIPE_GUARDED_BY(mutex_) = Clock::now();    // since when
  SourceCounters counters_ EDGEPIPE_GUARDED_BY(mutex_);                   // those of count_in()
};

}  // namespace edgepipe
