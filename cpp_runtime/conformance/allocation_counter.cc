#include "edgepipe/conformance/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0};
thread_local long failing = 0;

/// Null if this allocation is to fail.
void* counted_or_null(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  if (failing > 0) {
    --failing;
    return nullptr;
  }
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                        : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

void* counted(std::size_t bytes, std::size_t alignment) {
  void* const memory = counted_or_null(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new[](std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

long edgepipe::conformance::allocation_count() { return allocations; }

void edgepipe::conformance::fail_allocations(long count) { failing = count; }
