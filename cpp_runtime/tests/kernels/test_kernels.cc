// A library of kernels for the tests of ArmStage, hand-written in the form of TVM's.
#include <tvm/ffi/c_api.h>

#include <cstdint>

#define KERNEL_EXPORT extern "C" __attribute__((visibility("default")))

KERNEL_EXPORT void* (*__TVMBackendAllocWorkspace)(int, int, std::uint64_t, int, int);
KERNEL_EXPORT int (*__TVMBackendFreeWorkspace)(int, int, void*);
struct LoopEnvironment {
  void* sync_handle;
  std::int32_t num_task;
};
using Loop = int (*)(int task, LoopEnvironment* environment, void* data);
KERNEL_EXPORT int (*__TVMBackendParallelLaunch)(Loop, void*, int);
KERNEL_EXPORT void (*edgepipe_kernel_error)(const char*, const char**, int);
int (*__TVMBackendParallelLaunch)(Loop, void*, int) = nullptr;
void* (*__TVMBackendAllocWorkspace)(int, int, std::uint64_t, int, int) = nullptr;
int (*__TVMBackendFreeWorkspace)(int, int, void*) = nullptr;
void (*edgepipe_kernel_error)(const char*, const char**, int) = nullptr;

namespace {

int refuse(const char* text) {
  const char* parts[] = {text, nullptr, "."};
  edgepipe_kernel_error("ValueError", parts, 3);
  return -1;
}

std::int8_t* bytes_of(const TVMFFIAny& arg) {
  return static_cast<std::int8_t*>(static_cast<const DLTensor*>(arg.v_ptr)->data);
}

}  // namespace

/// add(x, constant, output): output = x + constant[0], using 64 bytes of scratch memory.
KERNEL_EXPORT int __tvm_ffi_add(void*, const TVMFFIAny* args, std::int32_t count, TVMFFIAny*) {
  if (count != 3) return refuse("add: expected 3 arguments");
  void* const scratch = __TVMBackendAllocWorkspace(1, 0, 64, 0, 8);
  if (scratch == nullptr) return refuse("add: no scratch memory");
  auto* const sums = static_cast<std::int8_t*>(scratch);
  const std::int64_t elements = static_cast<const DLTensor*>(args[0].v_ptr)->shape[0];
  for (std::int64_t i = 0; i < elements; ++i) {
    sums[i] = static_cast<std::int8_t>(bytes_of(args[0])[i] + bytes_of(args[1])[0]);
  }
  for (std::int64_t i = 0; i < elements; ++i) bytes_of(args[2])[i] = sums[i];
  return __TVMBackendFreeWorkspace(1, 0, scratch);
}

namespace {

/// Computes a task's part of the elements, using a kilobyte of scratch memory; refuses -128.
int add_part(int task, LoopEnvironment* environment, void* data) {
  const auto* const args = static_cast<const TVMFFIAny*>(data);
  const std::int64_t elements = static_cast<const DLTensor*>(args[0].v_ptr)->shape[0];
  const std::int64_t step = (elements + environment->num_task - 1) / environment->num_task;
  auto* const sums = static_cast<std::int8_t*>(__TVMBackendAllocWorkspace(1, 0, 1024, 0, 8));
  if (sums == nullptr) return refuse("add_shared: no scratch memory");
  for (std::int64_t i = task * step; i < elements && i < (task + 1) * step; ++i) {
    if (bytes_of(args[0])[i] == -128) return refuse("add_shared: found -128");
    sums[i % 1024] = static_cast<std::int8_t>(bytes_of(args[0])[i] + bytes_of(args[1])[0]);
    bytes_of(args[2])[i] = sums[i % 1024];
  }
  return __TVMBackendFreeWorkspace(1, 0, sums);
}

}  // namespace

/// The same as add(), with a parallel loop.
KERNEL_EXPORT int __tvm_ffi_add_shared(void*, const TVMFFIAny* args, std::int32_t, TVMFFIAny*) {
  return __TVMBackendParallelLaunch(&add_part, const_cast<TVMFFIAny*>(args), 0);
}
