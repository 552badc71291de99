// The part of zocl's user interface that ZoclMemory needs (XRT 2020.1 and later, zynq_ioctl.h).
#pragma once

#include <linux/ioctl.h>

#include <cstdint>

namespace edgepipe::zocl {

inline constexpr std::uint32_t kCacheable = 1U << 24;   // XCL_BO_FLAGS_CACHEABLE
inline constexpr std::uint32_t kContiguous = 1U << 28;  // DRM_ZOCL_BO_FLAGS_CMA
inline constexpr std::uint32_t kToDevice = 0;           // DRM_ZOCL_SYNC_BO_TO_DEVICE
inline constexpr std::uint32_t kFromDevice = 1;

struct CreateBo {
  std::uint64_t bytes;
  std::uint32_t handle;  // written by the driver
  std::uint32_t flags;
};

struct MapBo {
  std::uint32_t handle;
  std::uint32_t unused;
  std::uint64_t offset;  // written by the driver: where mmap finds the buffer
};

struct SyncBo {
  std::uint32_t handle;
  std::uint32_t direction;
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct InfoBo {
  std::uint32_t handle;
  std::uint32_t flags;
  std::uint64_t bytes;    // written by the driver, like the next
  std::uint64_t address;  // physical
};

// DRM's own commands end at 0x40.
inline constexpr unsigned long kCreateBo = _IOWR('d', 0x40, CreateBo);
inline constexpr unsigned long kMapBo = _IOWR('d', 0x43, MapBo);
inline constexpr unsigned long kSyncBo = _IOWR('d', 0x44, SyncBo);
inline constexpr unsigned long kInfoBo = _IOWR('d', 0x45, InfoBo);

}  // namespace edgepipe::zocl
