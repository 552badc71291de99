// A VTA program of four arbitrary files is either refused, or loaded, bound and verified.
//
// The input is program.json, insns.bin, relocs.bin and consts.bin. Each of them except the last is
// preceded by its length in bytes, a little-endian uint32.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "simulator/simulator.h"
#include "stage/vta_stage.h"

namespace edgepipe {
namespace {

std::span<const std::byte> take_part(std::span<const std::byte>& rest) {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, rest.data(), std::min(sizeof(bytes), rest.size()));
  rest = rest.subspan(std::min(sizeof(bytes), rest.size()));
  const std::span<const std::byte> part = rest.first(std::min<std::size_t>(bytes, rest.size()));
  rest = rest.subspan(part.size());
  return part;
}

void load(const ProgramFiles& files) {
  Result<Program> program = Program::parse(files);
  if (!program.ok()) return;
  const auto memory = HostMemory::create({.arena_bytes = std::size_t{1} << 22});
  const auto simulator = Simulator::create(program->accelerator(), **memory, {});
  if (!simulator.ok()) return;
  VtaStage::Options options{.name = "fuzzed", .inputs = {}, .outputs = {}};
  std::vector<Buffer> buffers;
  std::vector<BufferView> inputs;
  std::vector<BufferView> outputs;
  for (const Region& region : program->regions()) {
    const bool input = region.kind == RegionKind::kInput;
    if (!input && region.kind != RegionKind::kOutput) continue;
    Result<Buffer> buffer = (*memory)->allocate(region.bytes);
    if (!buffer.ok()) return;
    (input ? options.inputs : options.outputs).push_back(region.name);
    (input ? inputs : outputs).push_back(buffer->view());
    buffers.push_back(*std::move(buffer));
  }
  auto stage = VtaStage::create(**simulator, *std::move(program), std::move(options));
  if (stage.ok()) static_cast<void>((*stage)->bind(0, inputs, outputs));
}

}  // namespace
}  // namespace edgepipe

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  std::span<const std::byte> rest = std::as_bytes(std::span(data, bytes));
  edgepipe::ProgramFiles files;
  files.description = edgepipe::take_part(rest);
  files.instructions = edgepipe::take_part(rest);
  files.relocations = edgepipe::take_part(rest);
  files.constants = rest;
  edgepipe::load(files);
  return 0;
}
