// Bundle: an opened and checked compiled network, which creates the stages of a pipeline.
//
//   Result<std::unique_ptr<Bundle>> bundle = Bundle::open("nanodet.edgepipe");
//   Result<std::unique_ptr<Device>> device = ...;
//   Result<Graph> graph = (*bundle)->make_graph({.devices = {device.get()}});
//
// Opening compares the manifest with its digest in manifest.digest, then every file with the digest
// in the manifest. The digests detect damage and mix-ups. They do not protect against forgery.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/device.h"
#include "edgepipe/graph.h"
#include "edgepipe/manifest.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/status.h"

namespace edgepipe {

class BundleFiles;

class Bundle {
 public:
  /// Opens a folder or an archive and checks it. kNotFound for a missing bundle or file, kCorrupt
  /// for one that is truncated, modified or not listed, kUnsupported for another format version.
  static Result<std::unique_ptr<Bundle>> open(const std::filesystem::path& path);
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  /// The content of a file; valid for the lifetime of the bundle.
  [[nodiscard]] Result<std::span<const std::byte>> content(std::string_view path) const;

  /// The content of a golden file; its size is checked against the tensor.
  [[nodiscard]] Result<std::span<const std::byte>> golden(const GoldenFile& file) const;

  /// The class names of the labels file; empty if there is none.
  [[nodiscard]] Result<std::vector<std::string>> labels() const;

  /// Loads every stage for this machine, with its fallback if the bundle has one. The devices run
  /// the VTA stages and must outlive them; they may be empty if there are no VTA stages. Blocks
  /// while kernels are loaded and programs verified.
  Result<Graph> make_graph(const DeviceSet& devices) const;

  /// The stages' threads as given in the board's file. Empty if the file gives none, if this
  /// machine has a different architecture from the board, or if this process may not use all those
  /// cores.
  [[nodiscard]] std::vector<Pipeline::StageThread> board_threads() const;

  /// Whether any stage needs a Device.
  [[nodiscard]] bool needs_device() const;

 private:
  Bundle(std::unique_ptr<BundleFiles> files, Manifest manifest);

  static Result<std::unique_ptr<Bundle>> open_checked(const std::filesystem::path& path);
  Status check_files() const;

  std::unique_ptr<BundleFiles> files_;
  Manifest manifest_;
};

}  // namespace edgepipe
