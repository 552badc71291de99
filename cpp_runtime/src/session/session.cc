#include "edgepipe/session.h"

#include <string>
#include <utility>

#include "bundle/fingerprint.h"
#include "session/crews.h"

namespace edgepipe {
namespace {

constexpr const char* kRebuild = "build the bundle again, for this machine's processor or board";

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const std::filesystem::path& path,
                                               const Options& options) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(path, options.policy);
  if (!bundle.ok()) return bundle.status();
  Result<Postprocessor> postprocessor = Postprocessor::create(**bundle, options.results);
  if (!postprocessor.ok()) return postprocessor.status();
  Result<Hardware> hardware = open_hardware(**bundle, options);
  if (!hardware.ok()) return hardware.status();
  Result<Graph> graph = (*bundle)->make_graph(hardware->device_set(options.device_time_limit));
  if (!graph.ok()) return graph.status().advised(kRebuild);
  std::shared_ptr<PictureInput> pictures;
  if (options.takes_pictures) {
    auto attached =
        PictureInput::attach(*graph, (*bundle)->manifest().preprocess, options.most_pixels);
    if (!attached.ok()) return attached.status().with_context(path.string());
    pictures = *std::move(attached);
  }
  Pipeline::Options pipeline_options = options.pipeline;
  if (pipeline_options.threads.empty()) {
    pipeline_options.threads = (*bundle)->board_threads();
    pipeline_options.crews =
        crews_for((*bundle)->manifest(), pipeline_options.threads, hardware->devices.size());
  }
  if (pipeline_options.slots == 0) {
    const Manifest& manifest = (*bundle)->manifest();
    const bool few = options.live && manifest.live_slots != 0;
    pipeline_options.slots = few ? manifest.live_slots : manifest.slots;
  }
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(std::move(*graph), hardware->memory(), pipeline_options);
  if (!pipeline.ok()) return pipeline.status();
  return std::unique_ptr<Session>(new Session(std::move(*bundle), std::move(*hardware),
                                              std::move(*postprocessor), std::move(pictures),
                                              std::move(*pipeline)));
}

Result<Session::Hardware> Session::open_hardware(const Bundle& bundle, const Options& options) {
  const Fingerprint& fingerprint = bundle.manifest().fingerprint;
  if (Status status = check_version(fingerprint); !status.ok()) return status;
  const DeviceRegistry& registry = DeviceRegistry::instance();
  const DeviceChoice& choice = options.device;
  Result<DeviceKind> kind = registry.find(choice.kind == "auto" ? registry.detect() : choice.kind);
  if (!kind.ok()) return kind.status();
  Hardware hardware;
  hardware.board_time = kind->board_time;
  if (!bundle.needs_device()) {
    Result<std::unique_ptr<HostMemory>> memory =
        HostMemory::create({.arena_bytes = options.memory_bytes});
    if (!memory.ok()) return memory.status();
    hardware.own_memory = *std::move(memory);
    return hardware;
  }
  if (!options.faults.empty() && !kind->injects_faults) {
    return Status(Code::kInvalidArgument, "device '" + kind->name + "' cannot inject faults");
  }
  if (kind->programmable_logic) {
    Status status = check_machine(bundle.manifest().board, kDeviceTree);
    if (status.ok()) status = check_logic_record(fingerprint, kLogicRecord);
    if (!status.ok()) return status;
  }
  Result<DeviceGroup> group = kind->open({.accelerator = bundle.manifest().accelerator,
                                          .indices = choice.indices,
                                          .argument = choice.argument,
                                          .memory_bytes = options.memory_bytes,
                                          .faults = options.faults,
                                          .shared = choice.shared && kind->shares,
                                          .priority = choice.priority});
  if (!group.ok()) return group.status();
  if (group->devices.empty()) {
    return Status(Code::kDevice, "device '" + kind->name + "' opened without any device");
  }
  static_cast<DeviceGroup&>(hardware) = *std::move(group);
  hardware.name = std::move(kind->name);
  return hardware;
}

DeviceSet Session::Hardware::device_set(std::chrono::milliseconds time_limit) const {
  DeviceSet set{.devices = {},
                .time_limit = time_limit,
                .least_time_limit = least_time_limit,
                .board_time = board_time};
  for (const std::unique_ptr<Device>& device : devices) set.devices.push_back(device.get());
  return set;
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
