#include "edgepipe/session.h"

#include <utility>

#include "edgepipe/simulator.h"

namespace edgepipe {

Result<std::unique_ptr<Session>> Session::open(const std::filesystem::path& path,
                                               const Options& options) {
  Result<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return bundle.status();
  Result<Postprocessor> postprocessor = Postprocessor::create(**bundle);
  if (!postprocessor.ok()) return postprocessor.status();
  Result<std::unique_ptr<HostMemory>> memory =
      HostMemory::create({.arena_bytes = options.memory_bytes});
  if (!memory.ok()) return memory.status();
  std::unique_ptr<Device> device;
  if ((*bundle)->needs_device()) {
    Result<std::unique_ptr<Simulator>> simulator =
        Simulator::create((*bundle)->manifest().accelerator, **memory);
    if (!simulator.ok()) return simulator.status();
    device = std::move(*simulator);
  }
  Result<Graph> graph = (*bundle)->make_graph(device.get());
  if (!graph.ok()) return graph.status();
  Result<std::unique_ptr<Pipeline>> pipeline =
      Pipeline::create(std::move(*graph), **memory, options.pipeline);
  if (!pipeline.ok()) return pipeline.status();
  return std::unique_ptr<Session>(new Session(std::move(*bundle), std::move(*memory),
                                              std::move(device), std::move(*postprocessor),
                                              std::move(*pipeline)));
}

Session::Session(std::unique_ptr<Bundle> bundle, std::unique_ptr<DeviceMemory> memory,
                 std::unique_ptr<Device> device, Postprocessor postprocessor,
                 std::unique_ptr<Pipeline> pipeline)
    : bundle_(std::move(bundle)),
      memory_(std::move(memory)),
      device_(std::move(device)),
      postprocessor_(std::move(postprocessor)),
      pipeline_(std::move(pipeline)) {}

}  // namespace edgepipe
