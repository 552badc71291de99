#include "media/sources/picture_pool.h"

#include <algorithm>
#include <cassert>

namespace edgepipe {

PictureLease PicturePool::lend(const Picture& shape) {
  MutexLock lock(mutex_);
  auto* const free = std::ranges::find(buffers_, false, &Buffer::lent);
  assert(free != buffers_.end() && "a reader keeps more pictures than it may");
  free->lent = true;
  free->bytes.resize(packed_bytes(shape.format, shape.width, shape.height));
  Picture picture = shape;
  picture.row_bytes = packed_row_bytes(shape.format, shape.width);
  picture.bytes = free->bytes;
  return {picture, shared_from_this(), static_cast<std::size_t>(free - buffers_.begin())};
}

void PicturePool::give_back(std::size_t buffer) {
  MutexLock lock(mutex_);
  buffers_[buffer].lent = false;
}

}  // namespace edgepipe
