#include "emulation/rtl_core.h"

#include <new>
#include <utility>

namespace edgepipe {

Result<std::unique_ptr<RtlCore>> RtlCore::open(const std::string& path, std::span<std::byte> memory,
                                               std::uint64_t first) {
  Result<LoadedLibrary> library =
      load_library_file(path, "RTL library " + path + ": cannot be loaded");
  if (!library.ok()) return library.status();
  Functions functions;
  void* const handle = library->get();
  const bool complete = find_function(handle, "VtaRtlCoreOpen", functions.open) &&
                        find_function(handle, "VtaRtlCoreClose", functions.close) &&
                        find_function(handle, "VtaRtlCoreRead", functions.read) &&
                        find_function(handle, "VtaRtlCoreWrite", functions.write) &&
                        find_function(handle, "VtaRtlCoreRun", functions.run);
  if (!complete) {
    return Status(Code::kUnsupported,
                  path + ": lacks functions of a Verilated accelerator (VtaRtlCoreOpen, ...)",
                  "build it with vta_rtl.verilated.driver_library");
  }
  std::unique_ptr<RtlCore> core(new RtlCore(*std::move(library), functions, memory, first));
  if (core->core_ == nullptr) return Status(Code::kOutOfMemory, path + ": no memory for its model");
  return core;
}

RtlCore::RtlCore(LoadedLibrary library, const Functions& functions, std::span<std::byte> memory,
                 std::uint64_t first)
    : library_(std::move(library)),
      functions_(functions),
      memory_(memory),
      first_(first),
      core_(functions.open(memory.data(), first, memory.size())) {}

RtlCore::~RtlCore() {
  if (core_ != nullptr) functions_.close(core_);
}

std::uint32_t RtlCore::read(std::uint32_t offset) const { return functions_.read(core_, offset); }

void RtlCore::write(std::uint32_t offset, std::uint32_t value) {
  functions_.write(core_, offset, value);
}

bool RtlCore::run(std::uint32_t cycles) { return functions_.run(core_, cycles) != 0; }

void RtlCore::reset() {
  functions_.close(core_);
  core_ = functions_.open(memory_.data(), first_, memory_.size());
  if (core_ == nullptr) throw std::bad_alloc();
}

}  // namespace edgepipe
