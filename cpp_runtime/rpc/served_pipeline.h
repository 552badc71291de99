// ServedPipeline: a bundle's or an exported pipeline, run for a client of edgepipe-rpcd.
//
//   Result<std::unique_ptr<ServedPipeline>> pipeline =
//       ServedPipeline::open("folder", DeviceChoice::kAuto, 0);
//   (*pipeline)->set_input("data", bytes);
//   Result<std::uint64_t> frame = (*pipeline)->run(Clock::now());
//   Result<std::string> result = (*pipeline)->get_output(Clock::now());
//
// The functions are those of edgepipe/pipeline/running.py. Not thread-safe: a session has one
// client, whose calls come one after the other; waiting is the client's affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/pipeline_session.h"
#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "tvm_stage.h"

namespace edgepipe::rpc {

class ServedPipeline {
 public:
  /// Opens a bundle, or a folder with a pipeline.json, and starts its threads, unpinned where a
  /// core is not there. 0 slots are as many as the pipeline chooses. Blocks. A stage of an exported
  /// pipeline that is a Python function is kUnsupported.
  static Result<std::unique_ptr<ServedPipeline>> open(const std::filesystem::path& path,
                                                      DeviceChoice device, std::size_t slots);

  /// Name, device, slots, stages, and the tensors of inputs and outputs, as JSON.
  [[nodiscard]] std::string describe() const;

  /// Keeps a copy for the next runs. kNotFound lists the inputs, kInvalidArgument for a wrong size.
  Status set_input(const std::string& name, std::string_view content);

  /// What set_input has set; kNotFound before.
  Result<std::string> get_input(const std::string& name) const;

  /// Replaces a parameter of a group for every frame that is run from now on.
  Status set_parameter(const std::string& group, const std::string& parameter,
                       std::string_view content);

  /// Sends a frame of what has been set on its way and returns its number; kInvalidArgument while
  /// an input is not set, else as Pipeline::submit.
  Result<std::uint64_t> run(Clock::time_point deadline);

  /// The next finished frame: its number and its latency in ns (8 bytes each, little-endian), then
  /// every output. As Pipeline::next.
  Result<std::string> get_output(Clock::time_point deadline);

  /// As Pipeline::restart; parameters stay as they are.
  Status restart(Clock::time_point deadline);

  [[nodiscard]] Pipeline& pipeline() const { return *pipeline_; }

 private:
  ServedPipeline() = default;
  Status open_bundle(const std::filesystem::path& path, const Session::Options& options);
  Status open_exported(const std::filesystem::path& folder, const Session::Options& options);

  // Destroyed from the bottom up: the pipeline goes before the stages that it calls.
  std::map<std::string, std::unique_ptr<TvmStage>> tvm_stages_;  // by name
  std::unique_ptr<Session> bundle_;                              // one of these two
  std::unique_ptr<PipelineSession> exported_;
  Pipeline* pipeline_ = nullptr;
  std::string name_;
  std::string device_ = "none";
  std::map<std::string, std::string> groups_;  // parameter group -> stage
  std::map<std::string, std::string> values_;  // input -> bytes
  std::uint64_t submitted_ = 0;
};

}  // namespace edgepipe::rpc
