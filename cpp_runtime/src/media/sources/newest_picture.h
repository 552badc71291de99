// NewestPicture: hands the newest picture of a live source from its thread to a reader.
//
//   newest.keep(std::move(picture));               // the source's thread, for every picture
//   Result<bool> more = newest.take(lease, outage, stop);  // the reader; false once `stop` is set
//
// A picture that was not taken before the next one came is dropped and counted.
#pragma once

#include <atomic>
#include <cstdint>

#include "edgepipe/picture_source.h"
#include "edgepipe/sync.h"
#include "media/sources/outage.h"

namespace edgepipe {

class NewestPicture {
 public:
  void keep(PictureLease picture) EDGEPIPE_EXCLUDES(mutex_);

  /// Returns the newest picture to its owner unread, because the source closes.
  void drop() EDGEPIPE_EXCLUDES(mutex_);

  /// Counts pictures that never arrived.
  void missed(std::uint64_t count) EDGEPIPE_EXCLUDES(mutex_);

  /// Blocks until there is a picture, `stop` is set, or the outage's policy gives up (kDevice).
  Result<bool> take(PictureLease& lease, const Outage& outage, const std::atomic<bool>& stop)
      EDGEPIPE_EXCLUDES(mutex_);

  /// Pictures that arrived, were taken, dropped, missed, or wait.
  [[nodiscard]] SourceCounters counters() const EDGEPIPE_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  PictureLease picture_ EDGEPIPE_GUARDED_BY(mutex_);
  SourceCounters counters_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe
