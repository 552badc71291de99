// StageRunner: a bundle or one ARM stage, run step by step, with one slot and one call for each
// stage.
//
//   Result<std::unique_ptr<StageRunner>> runner = StageRunner::open_bundle("net.edgepipe", choice);
//   (*runner)->load_golden();
//   (*runner)->run_all();
//   Status same = (*runner)->check_golden();
//
// Not thread-safe. To run frames rather than single stages, use a Session and its
// Pipeline.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/bundle.h"
#include "edgepipe/graph.h"
#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "pipeline/histogram.h"
#include "pipeline/recovering_stage.h"
#include "stage/core_team.h"

namespace edgepipe::binding {

class StageRunner {
 public:
  /// Opens and checks a bundle and loads its stages. Blocks meanwhile.
  static Result<std::unique_ptr<StageRunner>> open_bundle(const std::filesystem::path& path,
                                                          DeviceChoice device);

  /// Opens the folder of one ARM stage, which needs no device; it has no golden files.
  static Result<std::unique_ptr<StageRunner>> open_arm_stage(const std::filesystem::path& folder);

  /// From the next run on, ARM kernels share their loops among this many threads, including the
  /// caller's; the others are pinned to the process's second core, third core and so on, if there
  /// are enough. kInvalidArgument for a number that a team cannot have.
  Status set_threads(std::size_t threads);

  [[nodiscard]] std::size_t stages() const { return graph_.nodes.size(); }

  /// Name, device, stages and tensors as JSON.
  [[nodiscard]] std::string describe() const;

  /// The time of each stage since the last call, and the least time of its device, in microseconds,
  /// as JSON; resets them.
  std::string take_statistics();

  /// The bytes of a tensor, borrowed until the next run. kNotFound lists the known names.
  Result<std::span<std::byte>> tensor(std::string_view name);

  /// Copies the bundle's golden inputs into their tensors. kNotFound if there are none.
  Status load_golden();

  /// Compares every golden output with that of the last run; kCorrupt names the first difference.
  Status check_golden();

  /// Runs a stage on the current tensors. kNotFound if there is no such stage.
  Status run(std::size_t stage);
  Status run_all();

  /// Copies one input for each tensor that a stage reads, runs it, and returns its outputs, one
  /// tensor after the other. kInvalidArgument for a wrong number of inputs or bytes.
  Result<std::string> run_on(std::size_t stage, std::span<const std::span<const std::byte>> inputs);

 private:
  StageRunner(std::unique_ptr<Bundle> bundle, Session::Hardware hardware, std::string name);
  Status adopt(Graph graph);

  // Destroyed from the bottom up: stages and buffers before their device and memory.
  std::unique_ptr<Bundle> bundle_;  // none for a single stage
  Session::Hardware hardware_;
  std::string name_;
  std::vector<Buffer> buffers_;  // by tensor
  Graph graph_;
  std::deque<RecoveringStage> stages_;   // of graph_; a deque, because they cannot move
  std::vector<Histogram> times_;         // by stage
  std::vector<Histogram> device_times_;  // by stage: the part in which its device worked
  std::unique_ptr<CoreTeam> team_;       // none: one thread
};

}  // namespace edgepipe::binding
