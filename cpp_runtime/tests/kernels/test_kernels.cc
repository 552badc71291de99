// A library of kernels for the tests of ArmStage: what TVM would make, written by hand.
#include <tvm/ffi/c_api.h>

#include <cstdint>

#define KERNEL_EXPORT extern "C" __attribute__((visibility("default")))

KERNEL_EXPORT void* (*__TVMBackendAllocWorkspace)(int, int, std::uint64_t, int, int);
KERNEL_EXPORT int (*__TVMBackendFreeWorkspace)(int, int, void*);
KERNEL_EXPORT void (*edgepipe_kernel_error)(const char*, const char**, int);
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

/// add(x, constant, output): output = x + constant[0], by way of 64 bytes of scratch memory.
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
