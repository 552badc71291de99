#include "stage/kernel_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "stage/core_team.h"

namespace edgepipe {
namespace {

constexpr std::size_t kAlignment = 64;

// Enough parts for threads to finish at about the same time, even if one of them is delayed.
constexpr int kLoopParts = 64;
// How much a part of a parallel loop may allocate through the workspace functions; guaranteed by
// the code generator (edgepipe/codegen/arm/tensor_ir.py).
constexpr std::size_t kLoopScratchBytes = 4096;

using ErrorText = std::array<char, 512>;

struct Arena {
  std::byte* next = nullptr;
  std::byte* end = nullptr;
};
thread_local Arena arena;
thread_local ErrorText error_text{};

// Kernels call back the functions below; their types are TVM's.
void* allocate_workspace(int /*device_type*/, int /*device_id*/, std::uint64_t bytes,
                         int /*dtype_code*/, int /*dtype_bits*/) {
  const std::uint64_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (whole < bytes || whole > static_cast<std::uint64_t>(arena.end - arena.next)) return nullptr;
  std::byte* const taken = arena.next;
  arena.next += static_cast<std::size_t>(whole);
  return taken;
}

int free_workspace(int /*device_type*/, int /*device_id*/, void* taken) {
  arena.next = static_cast<std::byte*>(taken);
  return 0;
}

void keep_error(const char* kind, const char** parts, std::int32_t count) {
  std::size_t used = 0;
  const auto append = [&](const char* text) {
    if (text == nullptr) return;
    const std::size_t length = std::min(std::strlen(text), error_text.size() - 1 - used);
    std::memcpy(error_text.data() + used, text, length);
    used += length;
  };
  append(kind);
  append(": ");
  for (std::int32_t i = 0; i < count; ++i) append(parts[i]);
  error_text[used] = '\0';
}

// TVM's form of a parallel loop: a function that computes part `task` of `num_task` equal parts.
struct LoopEnvironment {
  void* sync_handle;
  std::int32_t num_task;
};
using Loop = int (*)(int task, LoopEnvironment* environment, void* data);

/// A loop that a team shares. It keeps the text of the first error, which is local to the helper.
struct SharedLoop {
  Loop loop;
  void* data;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  ErrorText error{};
};

int run_part(void* context, std::size_t part) {
  auto* const shared = static_cast<SharedLoop*>(context);
  LoopEnvironment environment = {.sync_handle = nullptr, .num_task = kLoopParts};
  alignas(kAlignment) std::array<std::byte, kLoopScratchBytes> scratch;
  const Arena before =
      std::exchange(arena, {.next = scratch.data(), .end = scratch.data() + scratch.size()});
  const int result = shared->loop(static_cast<int>(part), &environment, shared->data);
  arena = before;
  if (result != 0 && !shared->failed.test_and_set()) shared->error = error_text;
  return result;
}

int run_loop(Loop loop, void* data, int /*wanted_parts*/) {
  CoreTeam* const team = CoreTeam::current();
  if (team == nullptr || team->threads() == 1) {
    LoopEnvironment environment = {.sync_handle = nullptr, .num_task = 1};
    return loop(0, &environment, data);
  }
  SharedLoop shared = {.loop = loop, .data = data};
  const int result = team->run(kLoopParts, &run_part, &shared);
  if (result != 0) error_text = shared.error;
  return result;
}

}  // namespace

Result<std::unique_ptr<KernelLibrary>> KernelLibrary::load(std::span<const std::byte> bytes,
                                                           const std::string& name) {
  Result<MemoryLibrary> loaded = load_library(bytes, name);
  if (!loaded.ok()) return loaded.status();
  std::unique_ptr<KernelLibrary> library(new KernelLibrary(*std::move(loaded), name));
  if (Status status = library->connect(); !status.ok()) return status;
  return library;
}

Status KernelLibrary::connect() const {
  // Variables of the library that point to functions of its loader. Every library has the first
  // one. The others exist only if a kernel uses scratch memory or has a parallel loop.
  auto* const error = static_cast<void**>(::dlsym(loaded_.library.get(), "edgepipe_kernel_error"));
  if (error == nullptr) return Status(Code::kCorrupt, name_ + ": not a library of kernels");
  *error = reinterpret_cast<void*>(&keep_error);
  const std::array<std::pair<const char*, void*>, 3> functions = {
      {{"__TVMBackendAllocWorkspace", reinterpret_cast<void*>(&allocate_workspace)},
       {"__TVMBackendFreeWorkspace", reinterpret_cast<void*>(&free_workspace)},
       {"__TVMBackendParallelLaunch", reinterpret_cast<void*>(&run_loop)}}};
  for (const auto& [symbol, function] : functions) {
    auto* const variable = static_cast<void**>(::dlsym(loaded_.library.get(), symbol));
    if (variable != nullptr) *variable = function;
  }
  return {};
}

Result<Kernel> KernelLibrary::find(const std::string& kernel) const {
  void* const found = ::dlsym(loaded_.library.get(), ("__tvm_ffi_" + kernel).c_str());
  if (found == nullptr) return Status(Code::kCorrupt, name_ + ": no kernel '" + kernel + "'");
  return reinterpret_cast<Kernel>(found);
}

const char* KernelLibrary::last_error() { return error_text.data(); }

ScratchScope::ScratchScope(std::span<std::byte> memory) {
  arena = {.next = memory.data(), .end = memory.data() + memory.size()};
}

ScratchScope::~ScratchScope() { arena = {}; }

}  // namespace edgepipe
