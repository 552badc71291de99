// edgepipe-bench-check: the time to check a bundle's VTA programs when they are loaded.
//
//   edgepipe-bench-check BUNDLE
//
// Loads every VTA stage, binds two slots and prints one JSON object: the number of stages, and the
// milliseconds for their first slots (the whole check) and for their second slots (a checked
// program at other addresses). Both include writing the instructions.
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/console.h"
#include "bundle/stage_loader.h"
#include "edgepipe/bundle.h"
#include "simulator/simulator.h"

namespace {

using edgepipe::Buffer;
using edgepipe::BufferView;
using edgepipe::Result;
using edgepipe::Status;

struct Figures {
  unsigned stages = 0;
  double first_ms = 0;
  double further_ms = 0;
};

Result<Figures> measure(const char* path) {
  const auto bundle = edgepipe::Bundle::open(path);
  if (!bundle.ok()) return bundle.status();
  const auto memory = edgepipe::HostMemory::create({.arena_bytes = std::size_t{1} << 30});
  if (!memory.ok()) return memory.status();
  const edgepipe::Manifest& manifest = (*bundle)->manifest();
  const auto device = edgepipe::Simulator::create(manifest.accelerator, **memory);
  if (!device.ok()) return device.status();
  const edgepipe::DeviceSet devices{.devices = {device->get()}};
  edgepipe::StageLoader loader(devices);
  Figures figures;
  for (const edgepipe::StageSpec& spec : manifest.stages) {
    if (spec.kind != "vta") continue;
    const Result<edgepipe::StageNode> node = loader.load(**bundle, spec);
    if (!node.ok()) return node.status();
    ++figures.stages;
    for (const std::size_t slot : {0, 1}) {
      std::vector<Buffer> buffers;
      const auto views = [&](const std::vector<std::size_t>& tensors) {
        std::vector<BufferView> found;
        for (const std::size_t tensor : tensors) {
          buffers.push_back(*(*memory)->allocate(manifest.tensors[tensor].bytes));
          found.push_back(buffers.back().view());
        }
        return found;
      };
      const std::vector<BufferView> inputs = views(spec.reads);
      const std::vector<BufferView> outputs = views(spec.writes);
      const auto began = std::chrono::steady_clock::now();
      if (Status status = node->stage->bind(slot, inputs, outputs); !status.ok()) return status;
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - began;
      (slot == 0 ? figures.first_ms : figures.further_ms) += took.count();
    }
  }
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: edgepipe-bench-check BUNDLE\n", stderr);
    return 2;
  }
  const Result<Figures> figures = measure(argv[1]);
  if (!figures.ok()) {
    edgepipe::print_failure("edgepipe-bench-check", figures.status());
    return 1;
  }
  std::printf("{\"stages\": %u, \"first_ms\": %.3f, \"further_ms\": %.3f}\n", figures->stages,
              figures->first_ms, figures->further_ms);
  return 0;
}
