// The decoder of a manifest of arbitrary text is either refused, or it gives results within its
// limits for tensors of arbitrary numbers.
//
// The input is manifest.json, the number of its bytes (a little-endian uint32) in front of it, then
// the numbers of all tensors, which begin anew at their end.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "edgepipe/manifest.h"
#include "postprocess/decoder.h"

namespace edgepipe {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 16;  // so that an input takes milliseconds

/// As a bundle is checked when it is loaded: results are computed from float32 outputs only.
bool takes_little(const Manifest& manifest, const Decoder& decoder) {
  std::size_t left = kMostValues * sizeof(float);
  for (const std::size_t index : decoder.tensors()) {
    if (index >= manifest.tensors.size()) std::abort();
    if (manifest.tensors[index].bytes > left) return false;
    left -= manifest.tensors[index].bytes;
  }
  return true;
}

void check(const FrameResult& result, const Decoder& decoder) {
  if (result.detections.size() > decoder.most_detections()) std::abort();
  if (result.points.size() > decoder.most_points()) std::abort();
  if (result.kind != ResultKind::kClassMap) return;
  const ClassMap& map = result.map;
  const std::size_t cells =
      static_cast<std::size_t>(map.width) * static_cast<std::size_t>(map.height);
  if (map.width < 1 || map.height < 1 || map.classes.size() != cells) std::abort();
}

void decode(const Manifest& manifest, std::span<const std::uint8_t> numbers) {
  auto decoder = make_decoder(manifest, std::vector<std::string>(3, "a"));
  if (!decoder.ok() || *decoder == nullptr || !takes_little(manifest, **decoder)) return;
  std::vector<std::vector<float>> values;
  std::size_t next = 0;
  for (const std::size_t index : (*decoder)->tensors()) {
    std::vector<float>& tensor = values.emplace_back(manifest.tensors[index].bytes / sizeof(float));
    for (float& value : tensor) {
      if (next + sizeof(value) > numbers.size()) next = 0;
      std::memcpy(&value, numbers.data() + next, std::min(sizeof(value), numbers.size()));
      next += sizeof(value);
    }
  }
  const std::vector<std::span<const float>> tensors(values.begin(), values.end());
  const Result<FrameResult> result = (*decoder)->decode(tensors);
  if (!result.ok()) std::abort();  // only a user's own decoder can fail
  check(*result, **decoder);
}

}  // namespace
}  // namespace edgepipe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  std::span<const std::uint8_t> rest(data, bytes);
  std::uint32_t length = 0;
  if (rest.size() < sizeof(length)) return 0;
  std::memcpy(&length, rest.data(), sizeof(length));
  rest = rest.subspan(sizeof(length));
  const auto text = rest.first(std::min<std::size_t>(length, rest.size()));
  const auto manifest = edgepipe::parse_manifest(std::as_bytes(text));
  if (manifest.ok()) edgepipe::decode(*manifest, rest.subspan(text.size()));
  return 0;
}
