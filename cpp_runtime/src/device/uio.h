// The driver's parts on UIO devices: registers, interrupt, reset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "base/shared_mapping.h"
#include "device/hardware_device.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// A UIO device's file and its first memory region.
struct UioInfo {
  std::string path;
  std::uint64_t bytes = 0;
};

/// Finds a UIO device by name, the `index`-th of several. kNotFound lists the existing names.
Result<UioInfo> find_uio(const std::string& name, const std::string& classes,
                         const std::string& devices, std::size_t index = 0);

/// Whether a process has an accelerator alone.
enum class Use : std::uint8_t { kAlone, kShared };

/// 32-bit registers in uncached memory.
class UioRegisters final : public RegisterFile {
 public:
  /// Acquires the device for this process, or for all that share it. kInvalidArgument if its region
  /// is smaller than `bytes`, kDevice if another process uses it and one of both wants it alone.
  static Result<std::unique_ptr<UioRegisters>> open(const UioInfo& info, std::size_t bytes,
                                                    Use use = Use::kAlone);

  [[nodiscard]] std::uint32_t read(std::uint32_t offset) const override;
  void write(std::uint32_t offset, std::uint32_t value) override;

 private:
  UioRegisters(SharedMapping mapping, FileDescriptor lock)
      : mapping_(std::move(mapping)), lock_(std::move(lock)) {}
  [[nodiscard]] volatile std::uint32_t* word(std::uint32_t offset) const;

  const SharedMapping mapping_;
  const FileDescriptor lock_;
};

class UioInterrupt final : public InterruptSource {
 public:
  /// Null if the device has no interrupt. kDevice if it cannot be opened.
  static Result<std::unique_ptr<UioInterrupt>> open(const UioInfo& info);

  Status arm() override;
  Result<bool> wait(std::chrono::steady_clock::time_point deadline) override;

 private:
  explicit UioInterrupt(FileDescriptor file) : file_(std::move(file)) {}

  const FileDescriptor file_;
};

/// The reset of the virtual board's FPGA model (fpga_model.h): a page with a request word.
class UioReset final : public ResetLine {
 public:
  static Result<std::unique_ptr<UioReset>> open(const UioInfo& info, Use use = Use::kAlone);

  Status reset() override;

 private:
  explicit UioReset(std::unique_ptr<UioRegisters> page) : page_(std::move(page)) {}

  const std::unique_ptr<UioRegisters> page_;
};

}  // namespace edgepipe
