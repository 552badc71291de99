#include "memory/udmabuf_memory.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/open_failure.h"
#include "base/range_lock.h"
#include "base/sysfs.h"
#include "memory/range_allocator.h"

namespace edgepipe {
namespace {

// The driver's directions, as in the kernel's enum dma_data_direction.
constexpr std::uint64_t kToDevice = 1;
constexpr std::uint64_t kFromDevice = 2;

/// The buffer's folder; empty if there is none.
Result<std::string> find_class(const UdmabufMemory::Options& options) {
  // The class was renamed in the driver's version 3.
  for (const char* name : {"/u-dma-buf/", "/udmabuf/"}) {
    std::string folder = options.classes + name + options.name;
    const Status status = read_attribute(folder + "/size").status();
    if (status.ok()) return folder;
    if (status.code() == Code::kOutOfMemory) return status;
  }
  return std::string();
}

Result<FileDescriptor> open_for_writing(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kNotFound, path, errno);
  return file;
}

}  // namespace

bool UdmabufMemory::present(const Options& options) {
  const Result<std::string> folder = find_class(options);
  return !folder.ok() || !folder->empty();  // open() then says why it cannot
}

Result<std::unique_ptr<UdmabufMemory>> UdmabufMemory::open(const Options& options) {
  const Result<std::string> found = find_class(options);
  if (!found.ok()) return found.status().with_context("memory");
  const std::string& folder = *found;
  if (folder.empty()) {
    return Status(Code::kNotFound,
                  "memory: no u-dma-buf named '" + options.name + "' below " + options.classes,
                  "load its kernel module, u-dma-buf");
  }
  Result<std::uint64_t> bytes = read_number(folder + "/size");
  if (!bytes.ok()) return bytes.status();
  Result<std::uint64_t> address = read_number(folder + "/phys_addr");
  if (!address.ok()) return address.status();
  const std::string path = options.devices + "/" + options.name;
  Result<SharedMapping> mapping =
      SharedMapping::open(path, {.bytes = static_cast<std::size_t>(*bytes)});
  if (!mapping.ok()) return mapping.status().with_context("memory");
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return open_failure(Code::kNotFound, "memory: " + path, errno);

  FileDescriptor for_device;
  FileDescriptor for_cpu;
  // A device that the kernel reports as coherent needs no maintenance either.
  const Result<std::uint64_t> kernel_coherent = read_number(folder + "/dma_coherent");
  if (!options.coherent && !(kernel_coherent.ok() && *kernel_coherent == 1)) {
    Result<FileDescriptor> device = open_for_writing(folder + "/sync_for_device");
    if (!device.ok()) return device.status().with_context("memory");
    Result<FileDescriptor> cpu = open_for_writing(folder + "/sync_for_cpu");
    if (!cpu.ok()) return cpu.status().with_context("memory");
    for_device = *std::move(device);
    for_cpu = *std::move(cpu);
  }
  return std::unique_ptr<UdmabufMemory>(new UdmabufMemory(
      *std::move(mapping), *address, std::move(file), std::move(for_device), std::move(for_cpu)));
}

UdmabufMemory::UdmabufMemory(SharedMapping mapping, std::uint64_t address, FileDescriptor file,
                             FileDescriptor for_device, FileDescriptor for_cpu)
    : ArenaMemory(std::move(mapping), address),
      file_(std::move(file)),
      for_device_(std::move(for_device)),
      for_cpu_(std::move(for_cpu)) {}

Result<std::size_t> UdmabufMemory::claim(std::size_t offset, std::size_t bytes) {
  const FileRange range{.first = offset, .bytes = aligned_bytes(bytes)};
  for (;;) {
    const Result<bool> mine = lock_range(file_.number(), range);
    if (!mine.ok()) return mine.status().with_context("memory: u-dma-buf");
    if (*mine) return std::size_t{0};
    const std::optional<FileRange> other = locked_by_others(file_.number(), range);
    if (other) return static_cast<std::size_t>(other->first + other->bytes);
  }
}

void UdmabufMemory::disclaim(std::size_t offset, std::size_t bytes) noexcept {
  unlock_range(file_.number(), {.first = offset, .bytes = aligned_bytes(bytes)});
}

// One word contains the window: offset, size in multiples of 16, direction, and 1 for "now".
Status UdmabufMemory::sync(std::size_t offset, std::size_t bytes, Direction direction) {
  const bool to_device = direction == Direction::kToDevice;
  const FileDescriptor& file = to_device ? for_device_ : for_cpu_;
  if (!file.valid()) return {};
  const std::uint64_t size = (std::uint64_t{bytes} + 15) & 0xFFFF'FFF0U;
  const std::uint64_t window =
      std::uint64_t{offset} << 32 | size | (to_device ? kToDevice : kFromDevice) << 2 | 1;
  std::array<char, 24> text{};
  const int length =
      std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(window));
  ssize_t written = 0;
  do {
    written = ::pwrite(file.number(), text.data(), static_cast<std::size_t>(length), 0);
  } while (written < 0 && errno == EINTR);
  if (written == length) return {};
  return {Code::kDevice,
          std::string("memory: u-dma-buf: ") + (to_device ? "sync_for_device" : "sync_for_cpu") +
              " of " + std::to_string(bytes) +
              " bytes: " + (written < 0 ? std::strerror(errno) : "written in part"),
          "examine the board with `edgepipe doctor`"};
}

}  // namespace edgepipe
