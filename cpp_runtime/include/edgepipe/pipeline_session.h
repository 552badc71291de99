// PipelineSession: an exported pipeline, ready to run, with stages of any kind in any graph.
//
//   Result<PipelineDescription> description = PipelineDescription::parse(text, "pipeline.json");
//   Result<std::unique_ptr<PipelineSession>> session =
//       PipelineSession::open("exported", *description, {}, {});
//   (*session)->pipeline().submit(frames, deadline);
//
// Compiled stages, stages of bundles and functions of shared libraries are loaded from the folder.
// The host program runs all other kinds ("tvm", "python") and supplies a function for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/bundle.h"
#include "edgepipe/graph.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/session.h"
#include "edgepipe/stage_function.h"
#include "edgepipe/status.h"

namespace edgepipe {

class StageLoader;

/// One stage in pipeline.json.
struct StageDescription {
  std::string name;
  std::string kind;  // "arm", "bundle", "library", or a kind that the host program runs
  std::vector<std::size_t> reads;   // indices into PipelineDescription::tensors
  std::vector<std::size_t> writes;  // the same
  std::vector<int> cores;           // one thread on each; empty: one unpinned thread
  std::string path;                 // the folder, bundle or library; empty for a host's kind
  std::string symbol;               // the library's function, or the bundle's stage
};

/// The contents of pipeline.json, which edgepipe/pipeline/artifact.py writes. Every path is
/// relative to the folder, so the folder can be moved.
struct PipelineDescription {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<std::size_t> inputs;   // indices into tensors
  std::vector<std::size_t> outputs;  // the same
  std::vector<StageDescription> stages;

  static constexpr std::uint64_t kFormat = 4;

  /// kCorrupt, with `where` and the field, for an invalid text; kUnsupported for another format.
  /// Whether the stages form a graph is checked by Graph::validate.
  static Result<PipelineDescription> parse(std::span<const std::byte> text,
                                           const std::string& where);
};

class PipelineSession {
 public:
  /// A stage run by the host program: `context` is passed to `function` and must outlive the
  /// session.
  struct HostedStage {
    std::string name;
    EpStageFunction function;
    void* context;
  };

  /// Loads the stages that the folder's description names and starts the pipeline. A stage runs on
  /// the cores in the description; `options.pipeline.threads` is ignored. Blocks meanwhile.
  /// kNotFound for a missing file or stage, kUnsupported for a kind that neither this class nor
  /// `hosted` runs.
  static Result<std::unique_ptr<PipelineSession>> open(const std::filesystem::path& folder,
                                                       PipelineDescription description,
                                                       const std::vector<HostedStage>& hosted,
                                                       const Session::Options& options);

  [[nodiscard]] const PipelineDescription& description() const { return description_; }
  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }

  /// As Session::device_name.
  [[nodiscard]] std::string_view device_name() const { return hardware_.name; }

  /// Keeps the slots' memory alive after the session; null if the device owns it.
  [[nodiscard]] std::shared_ptr<const void> memory() const { return hardware_.own_memory; }

 private:
  struct OpenBundle {
    std::string path;
    std::unique_ptr<Bundle> bundle;
  };

  explicit PipelineSession(PipelineDescription description)
      : description_(std::move(description)) {}

  Status open_bundles(const std::filesystem::path& folder, const std::filesystem::path& policy);
  Status open_hardware(const Session::Options& options);
  Result<StageNode> make_stage(const StageDescription& stage, const std::filesystem::path& folder,
                               const std::vector<HostedStage>& hosted, StageLoader& loader) const;
  Result<StageNode> make_bundle_stage(const StageDescription& stage, StageLoader& loader) const;

  // Destroyed from the bottom up, so the pipeline's threads end before the objects that they use.
  PipelineDescription description_;
  std::vector<OpenBundle> bundles_;
  Session::Hardware hardware_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace edgepipe
