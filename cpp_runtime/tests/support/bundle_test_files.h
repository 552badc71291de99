// Creates small bundles for tests: a folder, or a ustar archive written by an independent writer.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bundle/fingerprint.h"
#include "bundle/sha256.h"
#include "support/stock_accelerator.h"

namespace edgepipe::testing {

using Files = std::map<std::string, std::string>;

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// One ustar member: header block, content, padding.
inline std::string ustar_member(const std::string& path, const std::string& content,
                                char type = '0') {
  std::string block(512, '\0');
  const auto put = [&](std::size_t offset, const std::string& text) {
    block.replace(offset, text.size(), text);
  };
  char digits[16];
  std::snprintf(digits, sizeof(digits), "%011zo", content.size());
  put(0, path);
  put(100, "0000644");
  put(124, digits);
  put(136, "00000000000");
  put(148, "        ");
  block[156] = type;
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char letter : block) sum += static_cast<unsigned char>(letter);
  std::snprintf(digits, sizeof(digits), "%06o", sum);
  put(148, std::string(digits) + '\0' + ' ');
  std::string padding((512 - content.size() % 512) % 512, '\0');
  return block + content + padding;
}

inline std::string ustar(const Files& files) {
  std::string archive;
  for (const auto& [path, content] : files) archive += ustar_member(path, content);
  return archive + std::string(1024, '\0');
}

/// A manifest of two ARM stages uint8[1,2,2,3] -> int8[1,16,2,2] -> float32[1,5]; `files` are
/// listed with their digests.
inline nlohmann::json manifest_of(const Files& files) {
  nlohmann::json manifest = {
      {"format", 2},
      {"version", 0},
      {"name", "tiny"},
      {"board", "host"},
      {"architectures", {"x86_64", "aarch64"}},
      {"accelerator", stock_accelerator()},
      {"fingerprint",
       {{"configuration", "1x16_i8w8a32_15_15_18_17"},
        {"revision", "0.0.1"},
        {"clock_hz", 333000000},
        {"bitstream", ""},
        {"builder_version", kVersion}}},
      {"inputs", {"picture"}},
      {"outputs", {"scores"}},
      {"postprocess", {{"kind", "classify"}, {"labels", "labels.txt"}, {"top", 2}}},
      {"preprocess", {{"width", 2}, {"height", 2}, {"order", "BGR"}, {"fit", "stretch"}}},
  };
  const auto tensor = [&](const char* name, const char* dtype, std::vector<int> shape,
                          const char* layout, int bytes) {
    manifest["tensors"].push_back(
        {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"layout", layout}, {"bytes", bytes}});
  };
  tensor("picture", "uint8", {1, 2, 2, 3}, "nhwc", 12);
  tensor("features", "int8", {1, 17, 2, 2}, "vta", 128);
  tensor("scores", "float32", {1, 5}, "nchw", 20);
  const auto stage = [&](const char* name, const char* folder, const char* in, const char* out) {
    manifest["stages"].push_back({{"name", name},
                                  {"kind", "arm"},
                                  {"folder", folder},
                                  {"inputs", {in}},
                                  {"outputs", {out}}});
  };
  stage("first", "stages/0_arm", "picture", "features");
  stage("second", "stages/1_arm", "features", "scores");
  const auto golden = [&](const char* direction, const char* name, const char* file) {
    manifest["golden"][direction].push_back({{"tensor", name}, {"file", file}});
  };
  golden("inputs", "picture", "golden/picture.bin");
  golden("outputs", "scores", "golden/scores.bin");
  for (const auto& [path, content] : files) {
    manifest["files"].push_back(
        {{"path", path}, {"bytes", content.size()}, {"sha256", sha256(bytes_of(content))}});
  }
  return manifest;
}

/// The files that manifest_of() refers to.
inline Files tiny_files() {
  return {{"golden/picture.bin", std::string(12, '\1')},
          {"golden/scores.bin", std::string(20, '\2')},
          {"labels.txt", "cat\ndog\n"},
          {"stages/0_arm/plan.json", "{\"not\": \"read by these tests\"}"},
          {"stages/1_arm/weights.bin", std::string(700, '\3')}};
}

inline Files with_manifest(Files files, const nlohmann::json& manifest) {
  const std::string text = manifest.dump();
  files["manifest.json"] = text;
  files["manifest.digest"] = sha256(bytes_of(text)) + "\n";
  return files;
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

/// A temporary folder for one test, removed at its end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "edgepipe-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write_folder(const std::string& name, const Files& files) const {
    for (const auto& [path, content] : files) write_file(path_ / name / path, content);
    return path_ / name;
  }
  std::filesystem::path write_archive(const std::string& name, const std::string& content) const {
    write_file(path_ / name, content);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace edgepipe::testing
