#include "media/sources/newest_picture.h"

#include <utility>

#include "media/sources/stop_interval.h"

namespace edgepipe {

// Leases are swapped inside the lock and end outside it.

void NewestPicture::keep(PictureLease picture) {
  MutexLock lock(mutex_);
  ++counters_.captured;
  if (picture_.held()) ++counters_.dropped;
  std::swap(picture_, picture);
  changed_.notify();
}

void NewestPicture::drop() {
  PictureLease picture;
  MutexLock lock(mutex_);
  if (picture_.held()) ++counters_.dropped;
  std::swap(picture_, picture);
}

void NewestPicture::missed(std::uint64_t count) {
  MutexLock lock(mutex_);
  counters_.missed += count;
}

Result<bool> NewestPicture::take(PictureLease& lease, const Outage& outage,
                                 const std::atomic<bool>& stop) {
  lease.release();
  MutexLock lock(mutex_);
  while (!picture_.held()) {
    if (stop) return false;
    if (Status status = outage.given_up(); !status.ok()) return status;
    changed_.wait_until(lock, Clock::now() + kStopInterval);
  }
  if (stop) return false;
  lease = std::move(picture_);
  ++counters_.taken;
  return true;
}

SourceCounters NewestPicture::counters() const {
  MutexLock lock(mutex_);
  SourceCounters counters = counters_;
  counters.waiting = picture_.held() ? 1 : 0;
  return counters;
}

}  // namespace edgepipe
