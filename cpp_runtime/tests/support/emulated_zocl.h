// EmulatedZocl: XRT's driver zocl, whose ioctls are emulated here and whose buffer object is a
// file.
//
// The accelerator has its own copy, which only SYNC_BO updates, as if there were a cache in
// between.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "edgepipe/conformance/accelerator_view.h"
#include "memory/zocl_ioctl.h"
#include "memory/zocl_memory.h"

namespace edgepipe::testing {

/// One at a time in a process: the folder of its files is named after the process.
class EmulatedZocl {
 public:
  static constexpr std::uint64_t kAddress = 0x6000'0000;
  static constexpr std::uint64_t kOffset =
      4096;  // where the driver says that mmap finds the buffer

  explicit EmulatedZocl(std::size_t arena_bytes)
      : contiguous(arena_bytes), arena_bytes_(arena_bytes) {
    std::filesystem::create_directories(root / "dev/dri");
    add_node("renderD128", "lima");
    add_node("renderD129", "zocl-drm");
    file_ = FileDescriptor(::open(buffer_file().c_str(), O_RDWR | O_CLOEXEC));
  }
  ~EmulatedZocl() { std::filesystem::remove_all(root); }
  EmulatedZocl(const EmulatedZocl&) = delete;
  EmulatedZocl& operator=(const EmulatedZocl&) = delete;

  void add_node(const std::string& name, const std::string& driver) {
    std::filesystem::create_directories(root / "drivers" / driver);
    std::filesystem::create_directories(root / "class/drm" / name / "device");
    std::filesystem::create_directory_symlink(root / "drivers" / driver,
                                              root / "class/drm" / name / "device/driver");
    std::ofstream(root / "dev/dri" / name) << std::string(kOffset + arena_bytes_, 'x');
  }

  ZoclMemory::Options options() {
    return {.bytes = arena_bytes_,
            .least_bytes = arena_bytes_ / 4,
            .devices = (root / "dev").string(),
            .classes = (root / "class").string(),
            .ioctl = [this](int, unsigned long request, void* argument) {
              return answer(request, argument);
            }};
  }

  int answer(unsigned long request, void* argument) {
    errno = refuse_with;
    if (request == zocl::kCreateBo) {
      auto* const create = static_cast<zocl::CreateBo*>(argument);
      if (create->bytes > contiguous) return -1;
      flags = create->flags;
      create->handle = 7;
      return 0;
    }
    if (request == zocl::kInfoBo) {
      auto* const info = static_cast<zocl::InfoBo*>(argument);
      info->address = kAddress;
      return info->handle == 7 ? 0 : -1;
    }
    if (request == zocl::kMapBo) {
      auto* const map = static_cast<zocl::MapBo*>(argument);
      map->offset = kOffset;
      return map->handle == 7 && maps ? 0 : -1;
    }
    if (request == zocl::kSyncBo) {
      const std::lock_guard lock(mutex_);  // a driver's ioctls come from any thread
      synced.push_back(*static_cast<zocl::SyncBo*>(argument));
      return syncs ? copy(synced.back()) : -1;
    }
    return -1;
  }

  /// The file behind its buffer object, from kOffset on.
  [[nodiscard]] std::filesystem::path buffer_file() const { return root / "dev/dri/renderD129"; }

  /// What the accelerator sees of the buffer object. Borrows this object.
  class View final : public conformance::AcceleratorView {
   public:
    explicit View(EmulatedZocl& driver) : driver_(driver) {}

    Status read(std::uint64_t address, std::span<std::byte> to) override {
      const std::lock_guard lock(driver_.mutex_);
      std::copy_n(driver_.seen(address), to.size(), to.data());
      return {};
    }
    Status write(std::uint64_t address, std::span<const std::byte> from) override {
      const std::lock_guard lock(driver_.mutex_);
      std::ranges::copy(from, driver_.seen(address));
      return {};
    }

   private:
    EmulatedZocl& driver_;
  };

  const std::filesystem::path root =
      std::filesystem::path(::testing::TempDir()) / ("zocl_test_" + std::to_string(::getpid()));
  std::size_t contiguous;  // as much as there is in one piece
  int refuse_with = ENOMEM;
  bool maps = true;
  bool syncs = true;
  std::uint32_t flags = 0;
  std::vector<zocl::SyncBo> synced;

 private:
  /// SYNC_BO: copies a window between the file and what the accelerator sees.
  int copy(const zocl::SyncBo& window) {
    std::byte* const seen = accelerators_.data() + window.offset;
    const auto place = static_cast<off_t>(kOffset + window.offset);
    const bool written = window.direction == zocl::kToDevice;
    const ssize_t copied = written ? ::pread(file_.number(), seen, window.bytes, place)
                                   : ::pwrite(file_.number(), seen, window.bytes, place);
    return copied == static_cast<ssize_t>(window.bytes) ? 0 : -1;
  }

  std::byte* seen(std::uint64_t address) { return accelerators_.data() + (address - kAddress); }

  std::mutex mutex_;  // guards synced and accelerators_
  const std::size_t arena_bytes_;
  std::vector<std::byte> accelerators_ = std::vector<std::byte>(arena_bytes_, std::byte{'y'});
  FileDescriptor file_;
};

}  // namespace edgepipe::testing
