#include "edgepipe/session.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "bundle/fingerprint.h"
#include "device/foreign_device.h"
#include "device/uio_device.h"
#include "emulation/model_device.h"
#include "emulation/timed_device.h"
#include "memory/non_coherent_memory.h"
#include "memory/udmabuf_memory.h"
#include "simulator/simulator.h"

namespace edgepipe {

Result<std::unique_ptr<Session>> Session::open(const std::filesystem::path& path,
                                               const Options& options) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return bundle.status();
  Result<Postprocessor> postprocessor = Postprocessor::create(**bundle);
  if (!postprocessor.ok()) return postprocessor.status();
  Result<Hardware> hardware = open_hardware(**bundle, options);
  if (!hardware.ok()) return hardware.status();
  Result<Graph> graph = (*bundle)->make_graph(hardware->device_set(options.device_time_limit));
  if (!graph.ok()) return graph.status();
  std::shared_ptr<PictureInput> pictures;
  if (options.takes_pictures) {
    auto attached = PictureInput::attach(*graph, (*bundle)->manifest().preprocess);
    if (!attached.ok()) return attached.status().with_context(path.string());
    pictures = *std::move(attached);
  }
  Pipeline::Options pipeline_options = options.pipeline;
  if (pipeline_options.threads.empty()) {
    pipeline_options.threads = (*bundle)->board_threads();
  }
  if (pipeline_options.slots == 0) pipeline_options.slots = (*bundle)->manifest().slots;
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(std::move(*graph), hardware->memory(), pipeline_options);
  if (!pipeline.ok()) return pipeline.status();
  return std::unique_ptr<Session>(new Session(std::move(*bundle), std::move(*hardware),
                                              std::move(*postprocessor), std::move(pictures),
                                              std::move(*pipeline)));
}

namespace {

using Hardware = Session::Hardware;

Status open_uio(Hardware& hardware, const Bundle& bundle, const Session::Options& options) {
  const std::vector<std::size_t>& indices = options.device.indices;
  Status status = check_logic_record(bundle.manifest().fingerprint, kLogicRecord);
  if (!status.ok()) return status;
  Result<std::unique_ptr<DeviceMemory>> memory =
      open_uio_memory({.memory = {.name = "udmabuf" + std::to_string(indices.front())}});
  if (!memory.ok()) return memory.status();
  hardware.own_memory = *std::move(memory);
  for (const std::size_t index : indices) {
    Result<std::unique_ptr<HardwareDevice>> device =
        open_uio_device(bundle.manifest().accelerator, *hardware.own_memory, {.index = index});
    if (!device.ok()) return device.status();
    hardware.devices.push_back(*std::move(device));
  }
  hardware.name = "uio";
  return {};
}

Status open_models(Hardware& hardware, const Accelerator& accelerator,
                   const Session::Options& options) {
  Result<std::unique_ptr<NonCoherentMemory>> memory =
      NonCoherentMemory::create({.arena_bytes = options.memory_bytes});
  if (!memory.ok()) return memory.status();
  FpgaModel::Options model;
  model.faults = options.faults;
  for (std::size_t count = options.device.indices.size(); count > 0; --count) {
    Result<std::unique_ptr<ModelDevice>> device =
        ModelDevice::create(accelerator, **memory, (*memory)->device_side(), {.model = model});
    if (!device.ok()) return device.status();
    hardware.devices.push_back(*std::move(device));
  }
  hardware.own_memory = *std::move(memory);
  hardware.name = "model";
  return {};
}

Status open_simulators(Hardware& hardware, const Accelerator& accelerator,
                       const Session::Options& options) {
  for (std::size_t count = options.device.indices.size(); count > 0; --count) {
    Result<std::unique_ptr<Simulator>> device =
        Simulator::create(accelerator, *hardware.own_memory);
    if (!device.ok()) return device.status();
    hardware.devices.push_back(*std::move(device));
  }
  hardware.name = "simulator";
  return {};
}

Status open_timed(Hardware& hardware, const Accelerator& accelerator,
                  const Session::Options& options) {
  if (Status status = open_simulators(hardware, accelerator, options); !status.ok()) return status;
  for (std::unique_ptr<Device>& device : hardware.devices) {
    device = std::make_unique<TimedDevice>(std::move(device));
  }
  hardware.name = "timed";
  return {};
}

Status open_driver(Hardware& hardware, const Accelerator& accelerator,
                   const Session::Options& options) {
  Result<std::unique_ptr<Device>> device = open_foreign_device(accelerator, options.device.driver);
  if (!device.ok()) return device.status();
  hardware.devices.push_back(*std::move(device));
  hardware.name = "driver";
  return {};
}

DeviceKind resolve(DeviceKind kind) {
  if (kind != DeviceKind::kAuto) return kind;
  return uio_device_present({}) ? DeviceKind::kUio : DeviceKind::kSimulator;
}

}  // namespace

Result<Session::Hardware> Session::open_hardware(const Bundle& bundle, const Options& options) {
  if (Status status = check_version(bundle.manifest().fingerprint); !status.ok()) return status;
  const Accelerator& accelerator = bundle.manifest().accelerator;
  const DeviceKind kind = bundle.needs_device() ? resolve(options.device.kind) : DeviceKind::kAuto;
  Hardware hardware;
  Status status;
  if (kind == DeviceKind::kUio) {
    status = open_uio(hardware, bundle, options);
  } else if (kind == DeviceKind::kModel) {
    status = open_models(hardware, accelerator, options);
  } else if (kind == DeviceKind::kDriver) {
    status = open_driver(hardware, accelerator, options);
  } else {
    Result<std::unique_ptr<HostMemory>> memory =
        HostMemory::create({.arena_bytes = options.memory_bytes});
    if (!memory.ok()) return memory.status();
    hardware.own_memory = *std::move(memory);
    if (kind == DeviceKind::kSimulator) status = open_simulators(hardware, accelerator, options);
    if (kind == DeviceKind::kTimed) status = open_timed(hardware, accelerator, options);
  }
  if (!status.ok()) return status;
  return hardware;
}

DeviceSet Session::Hardware::device_set(std::chrono::milliseconds time_limit) const {
  DeviceSet set{.devices = {}, .time_limit = time_limit};
  for (const std::unique_ptr<Device>& device : devices) set.devices.push_back(device.get());
  return set;
}

Result<DeviceChoice> parse_device_choice(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, DeviceKind>, 5> kKinds{
      {{"auto", DeviceKind::kAuto},
       {"simulator", DeviceKind::kSimulator},
       {"timed", DeviceKind::kTimed},
       {"uio", DeviceKind::kUio},
       {"model", DeviceKind::kModel}}};
  const Status refused(Code::kInvalidArgument,
                       "device '" + std::string(text) + "' is unknown, expected " + kDeviceChoices);
  constexpr std::string_view kDriverPrefix = "driver:";
  if (text.starts_with(kDriverPrefix) && text.size() > kDriverPrefix.size()) {
    return DeviceChoice{.kind = DeviceKind::kDriver, .driver = text.substr(kDriverPrefix.size())};
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto kind = std::ranges::find(kKinds, text.substr(0, colon),
                                      &std::pair<std::string_view, DeviceKind>::first);
  if (kind == kKinds.end()) return refused;
  DeviceChoice choice{.kind = kind->second};
  if (colon == text.size()) return choice;
  choice.indices.clear();
  for (std::string_view rest = text.substr(colon);  // ':' or '+' precedes an index
       !rest.empty();) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('+'), rest.size());
    std::size_t index = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + end, index);
    const bool repeated = std::ranges::find(choice.indices, index) != choice.indices.end();
    if (parsed.ec != std::errc() || parsed.ptr != rest.data() + end || index > 63 || repeated) {
      return refused;
    }
    choice.indices.push_back(index);
    rest.remove_prefix(end);
  }
  return choice;
}

std::string Session::status_line() const {
  const PipelineStatistics statistics = pipeline_->statistics();
  return bundle_->manifest().name + ": " + std::to_string(statistics.delivered) + " frames, " +
         std::to_string(statistics.failed) + " failed";
}

Session::Session(std::unique_ptr<Bundle> bundle, Hardware hardware, Postprocessor postprocessor,
                 std::shared_ptr<PictureInput> pictures, std::unique_ptr<Pipeline> pipeline)
    : bundle_(std::move(bundle)),
      hardware_(std::move(hardware)),
      postprocessor_(std::move(postprocessor)),
      pictures_(std::move(pictures)),
      pipeline_(std::move(pipeline)) {}

}  // namespace edgepipe
