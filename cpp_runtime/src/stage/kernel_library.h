// KernelLibrary: a shared library of TVM kernels, loaded from memory.
//
//   Result<std::unique_ptr<KernelLibrary>> library = KernelLibrary::load(bytes, "kernels.so");
//   Result<Kernel> kernel = (*library)->find("convolution_0");
//   ScratchScope scratch(arena);  // the kernel's allocations come from here
//   if (kernel(nullptr, args, count, &result) != 0) text = KernelLibrary::last_error();
//
// Kernels follow TVM-FFI's packed calling convention; the TVM runtime is not needed. find() may be
// called from any thread; kernels may run concurrently if each thread has its own ScratchScope. The
// CoreTeam of the thread that runs a kernel, if it has one, shares the kernel's parallel loops.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/loaded_library.h"
#include "edgepipe/status.h"

namespace edgepipe {

using Kernel = int (*)(void* self, const TVMFFIAny* args, std::int32_t count, TVMFFIAny* result);

class KernelLibrary {
 public:
  /// Loads a library's bytes. kCorrupt if the loader refuses them or they are not kernels,
  /// kOutOfMemory as memory_file() and load_library().
  static Result<std::unique_ptr<KernelLibrary>> load(std::span<const std::byte> bytes,
                                                     const std::string& name);
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  /// The kernel of that name; kCorrupt if there is none. Valid for the lifetime of the library.
  [[nodiscard]] Result<Kernel> find(const std::string& kernel) const;

  /// The message of the calling thread's last failed kernel; empty if none failed.
  static const char* last_error();

 private:
  KernelLibrary(MemoryLibrary loaded, std::string name)
      : loaded_(std::move(loaded)), name_(std::move(name)) {}
  Status connect() const;

  const MemoryLibrary loaded_;
  const std::string name_;
};

/// During its lifetime, kernels of this thread allocate from `arena` in last-in, first-out order.
class ScratchScope {
 public:
  explicit ScratchScope(std::span<std::byte> arena);
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;
  ~ScratchScope();
};

}  // namespace edgepipe
