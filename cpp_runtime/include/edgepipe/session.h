// Session: a bundle ready to run on this machine: device memory, device, stages and pipeline.
//
//   Result<std::unique_ptr<Session>> session = Session::open("nanodet.edgepipe", {});
//   (*session)->pipeline().submit(pictures, deadline);
//
// VTA stages run on the simulator of the accelerator that the manifest describes.
#pragma once

#include <filesystem>
#include <memory>

#include "edgepipe/bundle.h"
#include "edgepipe/device.h"
#include "edgepipe/memory.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"

namespace edgepipe {

class Session {
 public:
  struct Options {
    Pipeline::Options pipeline;
    std::size_t memory_bytes = std::size_t{1} << 32;  // address space for slots and programs
  };

  /// Opens and checks the bundle, loads its stages and starts the pipeline. Blocks meanwhile.
  static Result<std::unique_ptr<Session>> open(const std::filesystem::path& path,
                                               const Options& options);

  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }
  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] Postprocessor& postprocessor() { return postprocessor_; }

 private:
  Session(std::unique_ptr<Bundle> bundle, std::unique_ptr<DeviceMemory> memory,
          std::unique_ptr<Device> device, Postprocessor postprocessor,
          std::unique_ptr<Pipeline> pipeline);

  // Destroyed from the bottom up: the pipeline's threads end before what they use.
  std::unique_ptr<Bundle> bundle_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Device> device_;
  Postprocessor postprocessor_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace edgepipe
