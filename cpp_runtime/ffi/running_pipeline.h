// RunningPipeline: a running bundle or exported pipeline, for callers that pass names and bytes.
//
//   Result<std::unique_ptr<RunningPipeline>> pipeline = RunningPipeline::open("folder", {}, {});
//   (*pipeline)->set_input("data", bytes);
//   Result<std::uint64_t> frame = (*pipeline)->run({});
//   Result<RunningPipeline::Taken> taken = (*pipeline)->take();
//
// One thread at a time may call run and set_parameter, and one may call take. Any thread may call
// set_input, get_input, pipeline() and describe. No other call may run during restart.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/pipeline_session.h"
#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "hosted_function.h"
#include "pipeline/live_statistics.h"
#include "tvm_stage.h"

namespace edgepipe::binding {

class RunningPipeline {
 public:
  using Functions = std::map<std::string, tvm::ffi::Function>;  // by stage
  using Bytes = std::span<const std::byte>;

  /// A finished frame, and the results of the bundle's postprocessing.
  struct Taken {
    OutputFrame frame;
    FrameResult result;  // valid until the next frame is taken
  };

  /// Opens a bundle, or a folder with a pipeline.json, and starts its threads; publishes its
  /// statistics. `functions` run the stages that no code in the folder runs; Relax stages without
  /// one run here, on the CPU. Blocks. kUnsupported for a stage that nothing runs.
  static Result<std::unique_ptr<RunningPipeline>> open(const std::filesystem::path& path,
                                                       const Session::Options& options,
                                                       const Functions& functions);

  /// Name, device, slots, stages, labels, parameter groups, inputs and outputs, the stages' inputs
  /// that each input feeds, and the decoder that is left to the caller, as JSON.
  [[nodiscard]] std::string describe() const;

  /// Queues a copy. Each run without this input takes one, and the last one remains for later runs.
  /// kNotFound lists the inputs, kInvalidArgument for a wrong size, kDeadline if kWaitingValues are
  /// queued.
  Status set_input(const std::string& name, Bytes content) EDGEPIPE_EXCLUDES(mutex_);

  /// The value set last; kNotFound if there is none.
  Result<std::string> get_input(const std::string& name) const EDGEPIPE_EXCLUDES(mutex_);

  /// Replaces a parameter of a Relax stage that runs here, for every frame submitted from now on.
  Status set_parameter(const std::string& group, const std::string& parameter, Bytes content);

  /// Submits a frame and returns its number. `inputs` are in the order of the pipeline's inputs;
  /// missing ones use the values of set_input. Does not wait. kInvalidArgument if one has no value,
  /// otherwise as Pipeline::submit; after an error no value of set_input has been taken.
  Result<std::uint64_t> run(std::span<const std::optional<Bytes>> inputs) EDGEPIPE_EXCLUDES(mutex_);

  /// The next finished frame, as Pipeline::next. Does not wait. Once a frame could not be decoded,
  /// it returns that failure until a restart.
  Result<Taken> take();

  /// Why a frame could not be decoded; ok if all could. For the thread that takes.
  [[nodiscard]] const Status& undecoded() const { return undecoded_; }

  /// As Pipeline::restart; parameters are kept.
  Status restart(Clock::time_point deadline);

  [[nodiscard]] Pipeline& pipeline() const { return *pipeline_; }

  /// Ends everything except the stages' threads; call it before abandoning a pipeline that cannot
  /// end.
  void detach() { live_.reset(); }

 private:
  using Value = std::shared_ptr<const std::string>;
  static constexpr std::size_t kWaitingValues = 1024;

  /// What set_input has set for one input.
  struct Setting {
    std::deque<Value> waiting;  // one for each run
    Value last;                 // for runs when none is waiting
  };

  struct ParameterGroup {
    std::string stage;
    nlohmann::json parameters;  // their names, dtypes and shapes
  };

  RunningPipeline() = default;
  Status open_bundle(const std::filesystem::path& path, const Session::Options& options);
  Status open_exported(const std::filesystem::path& folder, const Session::Options& options,
                       const Functions& functions);
  Status read_names(const nlohmann::json& description);
  /// For each input of the pipeline, the stage inputs that it feeds, as pairs of names.
  [[nodiscard]] nlohmann::json input_map() const;
  /// A bundle's own decoder with its Python source, if the caller runs it; otherwise null.
  [[nodiscard]] nlohmann::json python_decoder() const;
  [[nodiscard]] Result<std::size_t> input_index(const std::string& name) const;

  // Destroyed from the bottom up: the pipeline before the stages that it calls.
  std::map<std::string, std::unique_ptr<TvmStage>> tvm_stages_;  // by name
  std::map<std::string, HostedFunction> hosted_;                 // likewise
  std::unique_ptr<Session> bundle_;                              // one of these two
  std::unique_ptr<PipelineSession> exported_;
  Pipeline* pipeline_ = nullptr;
  std::string name_;
  std::string device_;
  std::map<std::string, ParameterGroup> groups_;  // by name
  // The names of an exported pipeline's stage inputs; a bundle uses those of the tensors.
  std::map<std::string, std::vector<std::string>> input_names_;
  std::uint64_t submitted_ = 0;
  bool leaves_python_ = false;
  Status undecoded_;
  mutable Mutex mutex_;
  std::vector<Setting> settings_ EDGEPIPE_GUARDED_BY(mutex_);  // by input
  std::unique_ptr<LiveStatistics> live_;
};

}  // namespace edgepipe::binding
