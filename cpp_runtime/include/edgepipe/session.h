// Session: a bundle ready to run on this machine: device memory, device, stages and pipeline.
//
//   Result<std::unique_ptr<Session>> session = Session::open("nanodet.edgepipe", {});
//   (*session)->pipeline().submit(pictures, deadline);
//
// VTA stages run on this machine's accelerator, or on the simulator of the one that the manifest
// describes.
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
#include "edgepipe/memory.h"
#include "edgepipe/picture_input.h"
#include "edgepipe/pipeline.h"
#include "edgepipe/postprocess.h"
#include "edgepipe/status.h"
#include "emulation/fpga_model.h"

namespace edgepipe {

enum class DeviceKind {
  kAuto,       // the accelerator if this machine has one (a UIO device, see uio_device.h)
  kSimulator,  // the simulator, bit for bit the same
  kTimed,      // the simulator, no faster than the board by its model (see timed_device.h)
  kUio,        // the accelerator, or an error
  kModel,      // the board's driver on a model of the FPGA (model_device.h)
  kDriver,     // a shared library with the functions of vta/driver.h, see foreign_device.h
};

/// What runs the VTA stages. Of several devices, stage k runs on the k-th, round and round.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::kAuto;
  std::vector<std::size_t> indices = {0};  // which of those of this kind; not empty
  std::filesystem::path driver = {};       // kDriver only
};

/// What parse_device_choice reads, for error texts.
inline constexpr const char* kDeviceChoices =
    "auto, simulator, timed, uio, model, perhaps with which of them as in uio:1 or uio:0+1, or "
    "driver:PATH";

/// Reads one of kDeviceChoices. kInvalidArgument for anything else.
Result<DeviceChoice> parse_device_choice(std::string_view text);

class Session {
 public:
  /// The memory of a pipeline's slots and what runs its VTA stages; in the order of construction.
  struct Hardware {
    std::shared_ptr<DeviceMemory> own_memory;      // none when the device brings its own
    std::vector<std::unique_ptr<Device>> devices;  // none when no stage needs one
    std::string_view name = "none";

    [[nodiscard]] DeviceMemory& memory() const {
      return own_memory ? *own_memory : devices.front()->memory();
    }
    [[nodiscard]] DeviceSet device_set(std::chrono::milliseconds time_limit) const;
  };
  struct Options {
    Pipeline::Options pipeline;
    // The simulator's address space; memory is taken from the system only as it is used.
    std::size_t memory_bytes = std::size_t{1} << (sizeof(void*) == 8 ? 32 : 29);
    DeviceChoice device = {};
    std::chrono::milliseconds device_time_limit{10'000};  // of one run of a VTA stage
    std::vector<Fault> faults;                            // what the model of kModel does wrong
    bool takes_pictures = false;  // frames are filled through pictures(); see picture_input.h
  };

  /// Opens and checks the bundle, loads its stages and starts the pipeline. Blocks meanwhile.
  static Result<std::unique_ptr<Session>> open(const std::filesystem::path& path,
                                               const Options& options);

  /// Opens what the bundle's stages run on, as Session::open does.
  static Result<Hardware> open_hardware(const Bundle& bundle, const Options& options);

  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }
  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] Postprocessor& postprocessor() { return postprocessor_; }

  /// Only with Options::takes_pictures.
  [[nodiscard]] PictureInput& pictures() { return *pictures_; }

  /// What the network saw of a finished frame: uint8[height, width, channels].
  [[nodiscard]] std::span<const std::byte> seen(const OutputFrame& frame) const {
    return frame.tensor(bundle_->manifest().inputs.front());
  }

  /// What runs the VTA stages: "simulator", "timed", "uio", "model", "driver", or "none" without
  /// such stages.
  [[nodiscard]] std::string_view device_name() const { return hardware_.name; }

  /// One line for a service manager: the bundle, frames delivered and failed.
  [[nodiscard]] std::string status_line() const;

 private:
  Session(std::unique_ptr<Bundle> bundle, Hardware hardware, Postprocessor postprocessor,
          std::shared_ptr<PictureInput> pictures, std::unique_ptr<Pipeline> pipeline);

  // Destroyed from the bottom up: the pipeline's threads end before what they use.
  std::unique_ptr<Bundle> bundle_;
  Hardware hardware_;
  Postprocessor postprocessor_;
  std::shared_ptr<PictureInput> pictures_;  // also the first stage's
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace edgepipe
