// Session: a bundle ready to run on this machine: device memory, device, stages and pipeline.
//
//   Result<std::unique_ptr<Session>> session = Session::open("nanodet.edgepipe", {});
//   (*session)->pipeline().submit(pictures, deadline);
//
// VTA stages run on a device of the DeviceRegistry: by default on this machine's accelerator, or on
// the simulator if there is none.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/bundle.h"
#include "edgepipe/device.h"
#include "edgepipe/device_registry.h"
#include "edgepipe/memory.h"
#include "edgepipe/picture_input.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"

namespace edgepipe {

class Session {
 public:
  /// The devices of the VTA stages and the memory of a pipeline's slots.
  struct Hardware : DeviceGroup {
    std::string name = "none";  // the kind of the devices; none if no stage needs one
    bool board_time = false;    // of the kind that was asked for, see DeviceSet

    [[nodiscard]] DeviceSet device_set(std::chrono::milliseconds time_limit) const;
  };
  struct Options {
    Pipeline::Options pipeline;
    // The simulator's address space; the system provides pages only when they are used.
    std::size_t memory_bytes = std::size_t{1} << (sizeof(void*) == 8 ? 32 : 29);
    DeviceChoice device = {};
    // Of one run of a VTA stage. 0: from the program's modelled time, see DeviceSet.
    std::chrono::milliseconds device_time_limit{0};
    std::vector<std::string> faults;    // injected into kinds that can, e.g. "hang=7"
    std::filesystem::path policy = {};  // empty: the machine's; see Bundle::open
    bool takes_pictures = false;        // frames are filled through pictures(); see picture_input.h
    bool live = false;                  // from a camera, so results should be new
    std::uint64_t most_pixels = kMostPixels;  // of a picture
    Postprocessor::Options results = {};
  };

  /// Opens and checks the bundle, loads its stages and starts the pipeline. Blocks meanwhile.
  static Result<std::unique_ptr<Session>> open(const std::filesystem::path& path,
                                               const Options& options);

  /// Opens the memory and devices for the bundle's stages, as Session::open does.
  static Result<Hardware> open_hardware(const Bundle& bundle, const Options& options);

  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }
  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] Postprocessor& postprocessor() { return postprocessor_; }

  /// Requires Options::takes_pictures.
  [[nodiscard]] PictureInput& pictures() { return *pictures_; }

  /// The network's input of a finished frame: uint8[height, width, channels].
  [[nodiscard]] std::span<const std::byte> seen(const OutputFrame& frame) const {
    return frame.tensor(bundle_->manifest().inputs.front());
  }

  /// The device of the VTA stages: the name of a kind in the DeviceRegistry, or "none" if there are
  /// no such stages.
  [[nodiscard]] std::string_view device_name() const { return hardware_.name; }

  /// One line for a service manager: the bundle and the numbers of delivered and failed frames.
  [[nodiscard]] std::string status_line() const;

 private:
  Session(std::unique_ptr<Bundle> bundle, Hardware hardware, Postprocessor postprocessor,
          std::shared_ptr<PictureInput> pictures, std::unique_ptr<Pipeline> pipeline);

  // Destroyed from the bottom up, so the pipeline's threads end before the objects that they use.
  std::unique_ptr<Bundle> bundle_;
  Hardware hardware_;
  Postprocessor postprocessor_;
  std::shared_ptr<PictureInput> pictures_;  // shared with the first stage
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace edgepipe
