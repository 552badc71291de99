#include "memory/zocl_memory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/open_failure.h"
#include "base/sysfs.h"
#include "memory/contiguous.h"
#include "memory/zocl_ioctl.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;

/// The render node whose kernel driver is zocl, such as /dev/dri/renderD128; empty if there is
/// none.
Result<std::string> find_node(const ZoclMemory::Options& options) {
  const Result<std::vector<fs::path>> entries = list_folder(options.classes + "/drm");
  if (!entries.ok()) return entries.status();
  for (const fs::path& entry : *entries) {
    const std::string name = entry.filename().string();
    if (!name.starts_with("renderD")) continue;
    std::error_code error;
    const fs::path driver = fs::read_symlink(entry / "device/driver", error);
    if (driver.filename().string().starts_with("zocl")) return options.devices + "/dri/" + name;
  }
  return std::string();
}

Status refused(const std::string& node, const char* what) {
  return {Code::kDevice, "memory: " + node + ": " + what + ": " + std::strerror(errno)};
}

}  // namespace

bool ZoclMemory::present(const Options& options) {
  const Result<std::string> node = find_node(options);
  return !node.ok() || !node->empty();  // open() then says why it cannot
}

Result<std::unique_ptr<ZoclMemory>> ZoclMemory::open(const Options& options) {
  const Result<std::string> found = find_node(options);
  if (!found.ok()) return found.status().with_context("memory");
  const std::string& node = *found;
  if (node.empty()) {
    return Status(Code::kNotFound,
                  "memory: no device of the driver zocl below " + options.classes + "/drm",
                  "install XRT");
  }
  FileDescriptor file(::open(node.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kNotFound, "memory: " + node, errno);
  zocl::CreateBo created{};
  const Status status = allocate_contiguous(
      options.bytes, options.least_bytes, node, "CREATE_BO", [&](std::size_t bytes) {
        created = {.bytes = bytes, .handle = 0, .flags = zocl::kContiguous | zocl::kCacheable};
        return options.ioctl(file.number(), zocl::kCreateBo, &created) == 0;
      });
  if (!status.ok()) return status;
  zocl::InfoBo info{.handle = created.handle, .flags = 0, .bytes = 0, .address = 0};
  if (options.ioctl(file.number(), zocl::kInfoBo, &info) != 0) return refused(node, "INFO_BO");
  zocl::MapBo map{.handle = created.handle, .unused = 0, .offset = 0};
  if (options.ioctl(file.number(), zocl::kMapBo, &map) != 0) return refused(node, "MAP_BO");
  Result<SharedMapping> mapping =
      SharedMapping::map(file.number(), map.offset, static_cast<std::size_t>(created.bytes), node);
  if (!mapping.ok()) return mapping.status().with_context("memory");
  return std::unique_ptr<ZoclMemory>(
      new ZoclMemory(*std::move(mapping), info.address, std::move(file), created.handle, options));
}

ZoclMemory::ZoclMemory(SharedMapping mapping, std::uint64_t address, FileDescriptor file,
                       std::uint32_t handle, const Options& options)
    : ArenaMemory(std::move(mapping), address),
      file_(std::move(file)),
      handle_(handle),
      coherent_(options.coherent),
      ioctl_(options.ioctl) {}

Status ZoclMemory::sync(std::size_t offset, std::size_t bytes, Direction direction) {
  if (coherent_) return {};
  zocl::SyncBo window{
      .handle = handle_,
      .direction = direction == Direction::kToDevice ? zocl::kToDevice : zocl::kFromDevice,
      .offset = offset,
      .bytes = bytes};
  if (ioctl_(file_.number(), zocl::kSyncBo, &window) == 0) return {};
  return {Code::kDevice,
          std::string("memory: zocl: SYNC_BO of ") + std::to_string(bytes) +
              " bytes: " + std::strerror(errno),
          "examine the board with `edgepipe doctor`"};
}

}  // namespace edgepipe
