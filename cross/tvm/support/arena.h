// Arena: memory for the arguments of one remote call; TVM's wheels lack this header.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace tvm::support {

/// Blocks for trivial types, freed together by RecycleAll() or with the arena.
class Arena {
 public:
  template <typename T>
  T* allocate_(size_t count = 1) {
    if (count > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t units = (count * sizeof(T) + sizeof(Unit) - 1) / sizeof(Unit);
    blocks_.push_back(std::make_unique<Unit[]>(units));
    return reinterpret_cast<T*>(blocks_.back().get());
  }

  void RecycleAll() { blocks_.clear(); }

 private:
  using Unit = std::max_align_t;

  std::vector<std::unique_ptr<Unit[]>> blocks_;
};

}  // namespace tvm::support
