// FileView: a file behind device memory, read and written as the accelerator would.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "edgepipe/conformance/accelerator_view.h"

namespace edgepipe::testing {

class FileView final : public conformance::AcceleratorView {
 public:
  /// The byte at `offset` of the file is that at `base_address` of the memory.
  FileView(const std::string& path, std::uint64_t offset, std::uint64_t base_address)
      : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        offset_(offset),
        base_address_(base_address) {}

  Status read(std::uint64_t address, std::span<std::byte> to) override {
    const ssize_t bytes = ::pread(file_.number(), to.data(), to.size(), place_of(address));
    return verdict(bytes, to.size());
  }
  Status write(std::uint64_t address, std::span<const std::byte> from) override {
    const ssize_t bytes = ::pwrite(file_.number(), from.data(), from.size(), place_of(address));
    return verdict(bytes, from.size());
  }

 private:
  [[nodiscard]] off_t place_of(std::uint64_t address) const {
    return static_cast<off_t>(address - base_address_ + offset_);
  }
  static Status verdict(ssize_t found, std::size_t expected) {
    if (found == static_cast<ssize_t>(expected)) return {};
    return {Code::kDevice, "the file behind the memory gave " + std::to_string(found) +
                               " bytes, expected " + std::to_string(expected)};
  }

  const FileDescriptor file_;
  const std::uint64_t offset_;
  const std::uint64_t base_address_;
};

}  // namespace edgepipe::testing
