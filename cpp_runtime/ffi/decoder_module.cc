#include "decoder_module.h"

#include <tvm/ffi/container/tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "base/json_reader.h"
#include "bundle/checked_values.h"
#include "bundle/postprocess_keys.h"
#include "methods.h"
#include "postprocess/decoder.h"
#include "postprocess/result_bytes.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

constexpr const char* kWhere = "decoder";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;  // of a tensor

class DecoderModule final : public Methods<DecoderModule> {
 public:
  DecoderModule(Manifest manifest, std::unique_ptr<Decoder> decoder)
      : manifest_(std::move(manifest)), decoder_(std::move(decoder)) {}

  static std::span<const Method> methods() {
    static constexpr std::array kMethods = {entry<&DecoderModule::decode>("decode")};
    return kMethods;
  }

  const char* kind() const final { return "edgepipe_decoder"; }

 private:
  void decode(ffi::PackedArgs args, ffi::Any* result) {
    if (args.size() != static_cast<int>(manifest_.tensors.size())) {
      check(Status(Code::kInvalidArgument, "decode: found " + std::to_string(args.size()) +
                                               " arrays, expected " +
                                               std::to_string(manifest_.tensors.size())));
    }
    std::vector<std::span<const float>> tensors;
    for (const std::size_t index : decoder_->tensors()) {
      const std::span<const std::byte> bytes =
          memory_of(args[static_cast<int>(index)].cast<ffi::TensorView>());
      const TensorSpec& expected = manifest_.tensors[index];
      if (bytes.size() != expected.bytes) {
        check(Status(Code::kInvalidArgument,
                     "decode: '" + expected.name + "' has " + std::to_string(bytes.size()) +
                         " bytes, expected " + std::to_string(expected.bytes)));
      }
      tensors.emplace_back(reinterpret_cast<const float*>(bytes.data()),
                           bytes.size() / sizeof(float));
    }
    std::string found;
    append_result(found, value_of(decoder_->decode(tensors)));
    *result = ffi::Bytes(std::move(found));
  }

  Manifest manifest_;
  std::unique_ptr<Decoder> decoder_;
};

/// The parts of a manifest that a decoder needs.
Result<Manifest> parse(JsonReader& reader) {
  Manifest manifest;
  manifest.preprocess.width = small_whole(reader, "width", 1);
  manifest.preprocess.height = small_whole(reader, "height", 1);
  reader.objects("tensors", [&](JsonReader& item) {
    TensorSpec tensor{.name = item.text("name"),
                      .dtype = "float32",
                      .shape = item.integers("shape"),
                      .layout = "nchw",
                      .bytes = sizeof(float)};
    for (const std::int64_t side : tensor.shape) {
      if (side < 1 || side > kMostBytes / static_cast<std::int64_t>(tensor.bytes)) {
        item.fail("shape", "not a valid shape");
        break;
      }
      tensor.bytes *= static_cast<std::size_t>(side);
    }
    manifest.outputs.push_back(manifest.tensors.size());
    manifest.tensors.push_back(std::move(tensor));
  });
  reader.object("postprocess", [&](JsonReader& item) { read_postprocess(item, manifest); });
  manifest.postprocess.most_boxes = static_cast<std::size_t>(small_whole(reader, "most_boxes", 1));
  manifest.postprocess.most_candidates =
      static_cast<std::size_t>(small_whole(reader, "most_candidates", 1));
  if (!reader.status().ok()) return reader.status();
  return manifest;
}

}  // namespace

ffi::Module open_decoder(const std::string& description) {
  const nlohmann::json json =
      value_of(parse_json_object(std::as_bytes(std::span(description)), kWhere));
  JsonReader reader(json, kWhere);
  Manifest manifest = value_of(parse(reader));
  const Labels labels = reader.texts("labels");
  check(reader.status());
  std::unique_ptr<Decoder> decoder = value_of(make_decoder(manifest, labels));
  if (!decoder) check(Status(Code::kInvalidArgument, "the description gives plain tensors"));
  return ffi::Module(ffi::make_object<DecoderModule>(std::move(manifest), std::move(decoder)));
}

}  // namespace edgepipe::binding
