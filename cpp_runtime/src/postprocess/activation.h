// Activation: what a network's scores still have to pass through to become probabilities.
#pragma once

#include <string_view>

namespace edgepipe {

enum class Activation { kNone, kSigmoid, kSoftmax };

/// "none", "sigmoid" or "softmax", as a checked manifest has it.
constexpr Activation activation_of(std::string_view name) {
  return name == "sigmoid"   ? Activation::kSigmoid
         : name == "softmax" ? Activation::kSoftmax
                             : Activation::kNone;
}

}  // namespace edgepipe
