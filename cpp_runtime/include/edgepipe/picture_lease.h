// PictureLease: a picture in its owner's memory, which is returned when the lease ends.
//
//   PictureLease lease;
//   Result<bool> more = source.next(lease, stop);  // e.g. in the camera driver's buffer
//   fitter.fit(lease.picture(), frame);
//   lease.release();                               // the driver may fill the buffer again
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "edgepipe/picture.h"

namespace edgepipe {

/// The owner of a picture's memory. Must outlive all leases on it.
class PictureOwner {
 public:
  PictureOwner() = default;
  PictureOwner(const PictureOwner&) = delete;
  PictureOwner& operator=(const PictureOwner&) = delete;
  virtual ~PictureOwner() = default;

  /// Takes a buffer back. For any thread; does not block.
  virtual void give_back(std::size_t buffer) = 0;
};

/// Movable, not copyable; belongs to one thread at a time. Allocates nothing.
class PictureLease {
 public:
  PictureLease() = default;
  PictureLease(const Picture& picture, std::shared_ptr<PictureOwner> owner, std::size_t buffer)
      : picture_(picture), owner_(std::move(owner)), buffer_(buffer) {}
  PictureLease(PictureLease&& other) noexcept = default;
  PictureLease& operator=(PictureLease&& other) noexcept {
    std::swap(picture_, other.picture_);
    std::swap(owner_, other.owner_);
    std::swap(buffer_, other.buffer_);
    other.release();
    return *this;
  }
  ~PictureLease() { release(); }

  [[nodiscard]] bool held() const { return owner_ != nullptr; }

  /// The picture; its bytes are valid until the lease ends.
  [[nodiscard]] const Picture& picture() const { return picture_; }

  /// Returns the memory. No effect on an empty lease.
  void release() {
    if (const std::shared_ptr<PictureOwner> owner = std::move(owner_)) owner->give_back(buffer_);
  }

 private:
  Picture picture_;
  std::shared_ptr<PictureOwner> owner_;
  std::size_t buffer_ = 0;
};

}  // namespace edgepipe
