// C functions behind edgepipe/runtime/simulator.py: a simulator with memory of its own.
//
// A function returns 0 or a Code; ep_last_error() then has the text. Handles are not thread-safe.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "capi_error.h"
#include "edgepipe/accelerator.h"
#include "edgepipe/instruction.h"
#include "edgepipe/memory.h"
#include "edgepipe/simulator.h"

using edgepipe::capi::fail;

struct EpSimulator {
  std::unique_ptr<edgepipe::HostMemory> memory;
  std::unique_ptr<edgepipe::Simulator> simulator;
  std::map<std::uint64_t, edgepipe::Buffer> buffers;  // by device address
};

/// Creates a simulator from an accelerator's JSON. `kernel` may be empty (the fastest).
EP_EXPORT int ep_sim_create(const char* accelerator_json, const char* kernel,
                            std::uint64_t arena_bytes, std::uint64_t base_address,
                            EpSimulator** out) {
  auto accelerator = edgepipe::parse_accelerator(accelerator_json);
  if (!accelerator.ok()) return fail(accelerator.status());
  auto memory =
      edgepipe::HostMemory::create({.arena_bytes = arena_bytes, .base_address = base_address});
  if (!memory.ok()) return fail(memory.status());
  auto simulator = edgepipe::Simulator::create(*accelerator, **memory, {.kernel = kernel});
  if (!simulator.ok()) return fail(simulator.status());
  *out = new EpSimulator{
      .memory = *std::move(memory), .simulator = *std::move(simulator), .buffers = {}};
  return 0;
}

EP_EXPORT void ep_sim_destroy(EpSimulator* self) { delete self; }

/// Allocates zeroed device memory.
EP_EXPORT int ep_sim_allocate(EpSimulator* self, std::uint64_t bytes, std::uint64_t* address) {
  auto buffer = self->memory->allocate(bytes);
  if (!buffer.ok()) return fail(buffer.status());
  *address = buffer->device_address();
  self->buffers.emplace(*address, *std::move(buffer));
  return 0;
}

EP_EXPORT int ep_sim_free(EpSimulator* self, std::uint64_t address) {
  if (self->buffers.erase(address) == 1) return 0;
  return fail({edgepipe::Code::kInvalidArgument,
               "no allocation starts at device address " + std::to_string(address)});
}

EP_EXPORT int ep_sim_write(EpSimulator* self, std::uint64_t address, const void* data,
                           std::uint64_t bytes) {
  auto pointer = self->memory->translate(address, bytes);
  if (!pointer.ok()) return fail(pointer.status());
  if (bytes != 0) std::memcpy(*pointer, data, bytes);
  return 0;
}

EP_EXPORT int ep_sim_read(EpSimulator* self, std::uint64_t address, void* data,
                          std::uint64_t bytes) {
  auto pointer = self->memory->translate(address, bytes);
  if (!pointer.ok()) return fail(pointer.status());
  if (bytes != 0) std::memcpy(data, *pointer, bytes);
  return 0;
}

/// Runs `count` instructions at a device address; `timeout_s` <= 0 sets no limit.
EP_EXPORT int ep_sim_run(EpSimulator* self, std::uint64_t address, std::uint32_t count,
                         double timeout_s) {
  edgepipe::Submission submission{.address = address, .count = count};
  if (timeout_s > 0) {
    submission.time_limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(timeout_s));
  }
  return fail(self->simulator->run(submission));
}

/// Copies a JSON text to `text` (at most `capacity` bytes with the end mark) and returns its
/// length:
/// {"kernels": [...], "instructions": {opcode: [[field, word, bit, bits], ...]}}.
EP_EXPORT int ep_sim_describe(const char* accelerator_json, char* text, std::uint64_t capacity,
                              std::uint64_t* length) {
  auto accelerator = edgepipe::parse_accelerator(accelerator_json);
  if (!accelerator.ok()) return fail(accelerator.status());
  const edgepipe::InstructionCodec codec(*accelerator);
  nlohmann::json table = nlohmann::json::object();
  for (const auto opcode :
       {edgepipe::Opcode::kLoad, edgepipe::Opcode::kStore, edgepipe::Opcode::kGemm,
        edgepipe::Opcode::kFinish, edgepipe::Opcode::kAlu}) {
    auto& rows = table[std::string(edgepipe::to_string(opcode))] = nlohmann::json::array();
    for (const auto& field : codec.fields(opcode)) {
      rows.push_back({std::string(field.name), field.word, field.bit, field.bits});
    }
  }
  const nlohmann::json object = {{"kernels", edgepipe::Simulator::kernel_names(*accelerator)},
                                 {"instructions", table}};
  const std::string dump = object.dump();
  *length = dump.size();
  if (capacity != 0) {
    const std::size_t copied = std::min<std::size_t>(dump.size(), capacity - 1);
    std::memcpy(text, dump.data(), copied);
    text[copied] = '\0';
  }
  return 0;
}
