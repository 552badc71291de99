// NVTXScopedRange: a range in a profile of CUDA, which boards do not have; TVM's wheels lack this
// header.
#pragma once

#include <string>

namespace tvm::support {

class NVTXScopedRange {
 public:
  explicit NVTXScopedRange(const std::string& /*name*/) {}
};

}  // namespace tvm::support
