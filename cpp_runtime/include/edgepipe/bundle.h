// Bundle: an opened and checked compiled network, which creates the stages of a pipeline.
//
//   Result<std::unique_ptr<Bundle>> bundle = Bundle::open("nanodet.edgepipe");
//   Result<std::unique_ptr<Device>> device = ...;
//   Result<Graph> graph = (*bundle)->make_graph({.devices = {device.get()}});
//
// A bundle is native code. Opening it first asks the machine's policy, which can require that a
// trusted signer has signed the manifest, and that versions only grow. Then the manifest is
// compared with its digest in manifest.digest, and every file with its digest in the manifest.
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
  /// for one that is truncated, modified or not listed, kUnsupported for another format version;
  /// kUnsigned to kUnverifiable if the policy refuses it. `policy` is the policy's file; empty:
  /// /etc/edgepipe/policy. Blocks while files are digested and a signature is verified.
  static Result<std::unique_ptr<Bundle>> open(const std::filesystem::path& path,
                                              const std::filesystem::path& policy = {});
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  /// Who signed it; empty if the policy requires no signature.
  [[nodiscard]] const std::string& signer() const { return signer_; }

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
  Bundle(std::unique_ptr<BundleFiles> files, Manifest manifest, std::string signer);

  static Result<std::unique_ptr<Bundle>> open_checked(const std::filesystem::path& path,
                                                      const std::filesystem::path& policy);
  Status check_files() const;

  std::unique_ptr<BundleFiles> files_;
  Manifest manifest_;
  std::string signer_;
};

}  // namespace edgepipe
