// SharedMapping: a part of a file or device, mapped for reading and writing, shared with others.
//
//   Result<SharedMapping> registers = SharedMapping::open("/dev/uio0", {.bytes = 0x4000});
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

class SharedMapping {
 public:
  struct Options {
    off_t offset = 0;       // where in the file the mapping begins; a multiple of the page size
    std::size_t bytes = 0;  // 0: a regular file from offset to its end
    bool uncached = false;  // opens with O_SYNC, which device drivers treat as "not cached"
  };

  /// kNotFound if the file cannot be opened, kInvalidArgument if it cannot be mapped like this.
  static Result<SharedMapping> open(const std::string& path, const Options& options);

  /// Maps `bytes` of an open file; offsets of drivers can exceed off_t on 32-bit machines.
  /// kInvalidArgument, with the file's `name`, if it cannot be mapped.
  static Result<SharedMapping> map(int file, std::uint64_t offset, std::size_t bytes,
                                   const std::string& name);

  SharedMapping(SharedMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit SharedMapping(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace edgepipe
