#include "session/golden.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgepipe {

Result<GoldenCheck> GoldenCheck::create(const Bundle& bundle) {
  const Manifest& manifest = bundle.manifest();
  GoldenCheck check;
  const auto add = [&](const GoldenFile& file, std::vector<Tensor>& tensors) {
    Result<std::span<const std::byte>> content = bundle.golden(file);
    if (!content.ok()) return content.status();
    tensors.push_back({file.tensor, manifest.tensors[file.tensor].name, *content});
    return Status();
  };
  for (const std::size_t input : manifest.inputs) {
    const auto file = std::ranges::find(manifest.golden_inputs, input, &GoldenFile::tensor);
    if (file == manifest.golden_inputs.end()) {
      return Status(
          Code::kNotFound,
          "the bundle has no golden file for its input '" + manifest.tensors[input].name + "'",
          "build the bundle again");
    }
    if (Status status = add(*file, check.inputs_); !status.ok()) return status;
  }
  for (const GoldenFile& file : manifest.golden_outputs) {
    if (Status status = add(file, check.outputs_); !status.ok()) return status;
  }
  if (check.outputs_.empty()) {
    return Status(Code::kNotFound, "the bundle has no golden outputs", "build the bundle again");
  }
  return check;
}

void GoldenCheck::fill(const InputFrame& frame) const {
  for (std::size_t index = 0; index < inputs_.size(); ++index) {
    std::memcpy(frame.input(index).data(), inputs_[index].content.data(),
                inputs_[index].content.size());
  }
}

Status GoldenCheck::compare(const OutputFrame& frame) const {
  for (const Tensor& tensor : outputs_) {
    Status status = compare_golden(tensor.name, frame.tensor(tensor.index), tensor.content);
    if (!status.ok()) return status.with_context("frame " + std::to_string(frame.id()));
  }
  return {};
}

Status compare_golden(const std::string& tensor, std::span<const std::byte> found,
                      std::span<const std::byte> expected) {
  if (std::memcmp(found.data(), expected.data(), found.size()) == 0) return {};
  std::size_t differing = 0;
  std::size_t first = found.size();
  for (std::size_t index = found.size(); index-- > 0;) {
    if (found[index] == expected[index]) continue;
    ++differing;
    first = index;
  }
  const auto text = [](std::byte value) { return std::to_string(std::to_integer<int>(value)); };
  return Status(Code::kCorrupt,
                "output '" + tensor + "' differs from the golden output: " +
                    std::to_string(differing) + " of " + std::to_string(found.size()) +
                    " bytes differ, the first at " + std::to_string(first) + ": found " +
                    text(found[first]) + ", expected " + text(expected[first]),
                "run the bundle on the simulator: if it is right there, examine the board with "
                "`edgepipe doctor`");
}

}  // namespace edgepipe
