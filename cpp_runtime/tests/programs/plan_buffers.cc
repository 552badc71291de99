// edgepipe-plan-buffers: prints which buffer each tensor of a graph has in the runtime's slots.
//
//   echo '[{"bytes": [8, 4], "stages": [{"device": "arm", "reads": [0], "writes": [1]}],
//           "inputs": [0], "outputs": [1]}]' | edgepipe-plan-buffers
//
// One line per graph: the numbers of the buffers, in the order of the tensors.
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "pipeline/buffer_plan.h"

namespace {

class DeviceStage final : public edgepipe::Stage {
 public:
  explicit DeviceStage(const std::string& device) : device_(device) {}
  [[nodiscard]] std::string_view name() const override { return device_; }
  [[nodiscard]] edgepipe::WrittenBy written_by() const override {
    return device_ == "vta" ? edgepipe::WrittenBy::kAccelerator : edgepipe::WrittenBy::kCpu;
  }
  edgepipe::Status bind(std::size_t /*slot*/, std::span<const edgepipe::BufferView> /*inputs*/,
                        std::span<const edgepipe::BufferView> /*outputs*/) override {
    return {};
  }
  edgepipe::Status run(std::size_t /*slot*/) override { return {}; }

 private:
  std::string device_;
};

}  // namespace

int main() {
  for (const nlohmann::json& described : nlohmann::json::parse(std::cin)) {
    edgepipe::Graph graph;
    for (const std::size_t bytes : described["bytes"]) graph.tensors.push_back({.bytes = bytes});
    described["inputs"].get_to(graph.inputs);
    described["outputs"].get_to(graph.outputs);
    for (const nlohmann::json& stage : described["stages"]) {
      graph.nodes.push_back({.stage = std::make_unique<DeviceStage>(stage["device"]),
                             .reads = stage["reads"],
                             .writes = stage["writes"]});
    }
    if (const edgepipe::Status status = graph.validate(); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 1;
    }
    for (const std::size_t buffer : edgepipe::BufferPlan::of(graph).buffer_of) {
      std::printf("%zu ", buffer);
    }
    std::printf("\n");
  }
  return 0;
}
