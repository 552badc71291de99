#include "edgepipe/session.h"

#include <string>
#include <utility>

#include "edgepipe/fingerprint.h"
#include "edgepipe/foreign_device.h"
#include "edgepipe/simulator.h"
#include "edgepipe/timed_device.h"
#include "edgepipe/uio_device.h"

namespace edgepipe {

Result<std::unique_ptr<Session>> Session::open(const std::filesystem::path& path,
                                               const Options& options) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return bundle.status();
  Result<Postprocessor> postprocessor = Postprocessor::create(**bundle);
  if (!postprocessor.ok()) return postprocessor.status();
  Result<Hardware> hardware = open_hardware(**bundle, options);
  if (!hardware.ok()) return hardware.status();
  Result<Graph> graph = (*bundle)->make_graph(hardware->device.get());
  if (!graph.ok()) return graph.status();
  DeviceMemory& memory = hardware->memory ? *hardware->memory : hardware->device->memory();
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(std::move(*graph), memory, options.pipeline);
  if (!pipeline.ok()) return pipeline.status();
  return std::unique_ptr<Session>(new Session(std::move(*bundle), std::move(*hardware),
                                              std::move(*postprocessor), std::move(*pipeline)));
}

Result<Session::Hardware> Session::open_hardware(const Bundle& bundle, const Options& options) {
  if (Status status = check_version(bundle.manifest().fingerprint); !status.ok()) return status;
  Hardware hardware;
  const Accelerator& accelerator = bundle.manifest().accelerator;
  if (bundle.needs_device() && options.device.kind == DeviceChoice::kDriver) {
    Result<std::unique_ptr<Device>> device =
        open_foreign_device(accelerator, options.device.driver);
    if (!device.ok()) return device.status();
    hardware.device = std::move(*device);
    hardware.name = "driver";
    return hardware;
  }
  const bool has_accelerator = bundle.needs_device() && uio_device_present({});
  if (bundle.needs_device() && (options.device.kind == DeviceChoice::kUio ||
                                (options.device.kind == DeviceChoice::kAuto && has_accelerator))) {
    Status status = check_logic_record(bundle.manifest().fingerprint, kLogicRecord);
    if (!status.ok()) return status;
    Result<std::unique_ptr<HardwareDevice>> device = open_uio_device(accelerator, {});
    if (!device.ok()) return device.status();
    hardware.device = std::move(*device);
    hardware.name = "uio";
    return hardware;
  }
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = options.memory_bytes});
  if (!memory.ok()) return memory.status();
  hardware.memory = std::move(*memory);
  if (bundle.needs_device()) {
    Result<std::unique_ptr<Simulator>> simulator = Simulator::create(accelerator, *hardware.memory);
    if (!simulator.ok()) return simulator.status();
    hardware.device = std::move(*simulator);
    hardware.name = "simulator";
    if (options.device.kind == DeviceChoice::kTimed) {
      hardware.device = std::make_unique<TimedDevice>(std::move(hardware.device));
      hardware.name = "timed";
    }
  }
  return hardware;
}

Result<DeviceChoice> parse_device_choice(std::string_view text) {
  constexpr std::string_view kDriverPrefix = "driver:";
  if (text == "auto") return DeviceChoice{.kind = DeviceChoice::kAuto};
  if (text == "simulator") return DeviceChoice{.kind = DeviceChoice::kSimulator};
  if (text == "timed") return DeviceChoice{.kind = DeviceChoice::kTimed};
  if (text == "uio") return DeviceChoice{.kind = DeviceChoice::kUio};
  if (text.starts_with(kDriverPrefix) && text.size() > kDriverPrefix.size()) {
    return DeviceChoice{.kind = DeviceChoice::kDriver, .driver = text.substr(kDriverPrefix.size())};
  }
  return Status(Code::kInvalidArgument,
                "device '" + std::string(text) + "' is unknown, expected " + kDeviceChoices);
}

std::string Session::status_line() const {
  const PipelineStatistics statistics = pipeline_->statistics();
  return bundle_->manifest().name + ": " + std::to_string(statistics.delivered) + " frames, " +
         std::to_string(statistics.failed) + " failed";
}

Session::Session(std::unique_ptr<Bundle> bundle, Hardware hardware, Postprocessor postprocessor,
                 std::unique_ptr<Pipeline> pipeline)
    : bundle_(std::move(bundle)),
      memory_(std::move(hardware.memory)),
      device_(std::move(hardware.device)),
      device_name_(hardware.name),
      postprocessor_(std::move(postprocessor)),
      pipeline_(std::move(pipeline)) {}

}  // namespace edgepipe
