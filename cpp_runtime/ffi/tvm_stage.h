// TvmStage: a Relax module compiled by stock TVM, run by its virtual machine inside this process.
//
//   Result<std::unique_ptr<TvmStage>> stage = TvmStage::open(folder, entry, ports);
//   hosted.push_back({.name = name, .function = TvmStage::call, .context = stage->get()});
//
// The files are those that edgepipe/pipeline/stages.py writes for a stage of kind "tvm". Inputs are
// read where the pipeline has them; outputs are copied out of the machine's memory, once.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "edgepipe/graph.h"
#include "edgepipe/stage_function.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe::binding {

class TvmStage {
 public:
  /// Loads what pipeline.json's `entry` describes from below `root`; `inputs` are the stage's
  /// tensors in order. kNotFound, kCorrupt or kUnsupported (a device other than the CPU). Blocks.
  static Result<std::unique_ptr<TvmStage>> open(const std::filesystem::path& root,
                                                const nlohmann::json& entry,
                                                std::vector<TensorSpec> inputs);

  /// An EpStageFunction; `context` is the stage. Called by one thread at a time.
  static int call(void* context, const EpStageBuffer* inputs, std::uint32_t input_count,
                  const EpStageBuffer* outputs, std::uint32_t output_count, char* error,
                  std::uint64_t error_bytes);

  /// Uses `content` for a parameter from frame `first_frame` on. kNotFound lists the parameters,
  /// kInvalidArgument for a wrong number of bytes. Any thread.
  Status replace(const std::string& parameter, std::span<const std::byte> content,
                 std::uint64_t first_frame) EDGEPIPE_EXCLUDES(mutex_);

  /// Keeps the newest parameters and uses them from frame 0 on; nothing may run meanwhile.
  void restart() EDGEPIPE_EXCLUDES(mutex_);

 private:
  using Tensor = tvm::ffi::Tensor;
  using Parameters = std::map<std::string, Tensor, std::less<>>;

  TvmStage() = default;
  Status load(const std::filesystem::path& root, const nlohmann::json& entry);
  Status load_parameters(const std::filesystem::path& file, const nlohmann::json& list);
  Parameters current() EDGEPIPE_EXCLUDES(mutex_);
  void run(const EpStageBuffer* inputs, std::uint32_t input_count, const EpStageBuffer* outputs,
           std::uint32_t output_count);

  std::string name_;
  std::vector<TensorSpec> inputs_;
  std::vector<std::string> order_;  // the names of main's parameters
  tvm::ffi::Any machine_;           // a Module, which cannot be empty
  tvm::ffi::Function main_{nullptr};
  std::uint64_t frame_ = 0;  // used by the stage's thread only
  Mutex mutex_;
  std::deque<std::pair<std::uint64_t, Parameters>> versions_ EDGEPIPE_GUARDED_BY(mutex_);
};

}  // namespace edgepipe::binding
