// PicturePool: the buffers of a source that writes its pictures into memory of this process.
//
//   PictureLease lease = pool->lend(shape);  // a free buffer, to be filled
//   read(file, PicturePool::writable(lease));
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "edgepipe/picture_source.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class PicturePool final : public PictureOwner, public std::enable_shared_from_this<PicturePool> {
 public:
  /// Lends a free buffer as a picture of `shape`, large enough for it without padding. Never waits,
  /// because a reader holds at most kMostLent buffers, a live source the newest picture, and the
  /// pool has one more. Allocates when the size grows.
  PictureLease lend(const Picture& shape) EDGEPIPE_EXCLUDES(mutex_);

  void give_back(std::size_t buffer) override EDGEPIPE_EXCLUDES(mutex_);

  /// The bytes of a picture from lend(), for its source to write.
  static std::span<std::byte> writable(const PictureLease& lease) {
    const std::span<const std::byte> bytes = lease.picture().bytes;
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // owned by this pool
  }

 private:
  struct Buffer {
    std::vector<std::byte> bytes;
    bool lent = false;
  };

  Mutex mutex_;
  std::array<Buffer, PictureSource::kMostLent + 2> buffers_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe
