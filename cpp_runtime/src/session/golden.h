// GoldenCheck: a bundle's recorded input, and the comparison of a frame with the recorded outputs.
//
//   Result<GoldenCheck> golden = GoldenCheck::create(bundle);
//   golden->fill(*input_frame);                      // instead of a camera
//   Status same = golden->compare(*output_frame);    // kCorrupt says where they differ
//
// The recorded outputs come from the integer network on stock TVM. Outputs must be bit-exact.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "edgepipe/bundle.h"
#include "edgepipe/frame.h"
#include "edgepipe/status.h"

namespace edgepipe {

/// Compares a tensor's bytes with the golden ones of the same size. kCorrupt names the tensor, the
/// number of different bytes, and the first of them with both values.
Status compare_golden(const std::string& tensor, std::span<const std::byte> found,
                      std::span<const std::byte> expected);

class GoldenCheck {
 public:
  /// Finds the golden files of `bundle`, which must outlive the result. kNotFound if one of its
  /// inputs has none, or no output has one.
  static Result<GoldenCheck> create(const Bundle& bundle);

  /// Copies the golden input into `frame`.
  void fill(const InputFrame& frame) const;

  /// Compares every golden output. The error names tensor, element and both byte values.
  [[nodiscard]] Status compare(const OutputFrame& frame) const;

  [[nodiscard]] std::size_t outputs() const { return outputs_.size(); }

 private:
  struct Tensor {
    std::size_t index;  // in the manifest
    std::string name;
    std::span<const std::byte> content;
  };

  std::vector<Tensor> inputs_;  // in the order of the bundle's inputs
  std::vector<Tensor> outputs_;
};

}  // namespace edgepipe
