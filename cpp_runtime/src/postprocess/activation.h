// Activation: what a network's scores still have to pass through to become probabilities.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

namespace edgepipe {

enum class Activation { kNone, kSigmoid, kSoftmax };

/// "none", "sigmoid" or "softmax", as a checked manifest has it.
constexpr Activation activation_of(std::string_view name) {
  return name == "sigmoid"   ? Activation::kSigmoid
         : name == "softmax" ? Activation::kSoftmax
                             : Activation::kNone;
}

/// The value whose sigmoid is `share`; infinite for 0 and 1.
inline float logit(double share) {
  share = std::clamp(share, 0.0, 1.0);
  return static_cast<float>(std::log(share / (1 - share)));
}

}  // namespace edgepipe
