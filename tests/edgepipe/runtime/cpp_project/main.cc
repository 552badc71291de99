// own-parts: runs a pipeline with its own stage, in its own kind of memory.
#include <edgepipe/memory.h>
#include <edgepipe/pipeline.h>
#include <edgepipe/stage.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using edgepipe::Buffer;
using edgepipe::BufferView;
using edgepipe::Clock;
using edgepipe::Code;
using edgepipe::DeviceMemory;
using edgepipe::Result;
using edgepipe::Status;

/// Memory of the C library; the device address is the pointer.
class OwnMemory final : public DeviceMemory {
 public:
  Result<Buffer> allocate(std::size_t bytes) override {
    const std::size_t whole = (bytes / kAlignment + 1) * kAlignment;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (data == nullptr)
      return Status(Code::kOutOfMemory, "own memory: no " + std::to_string(whole) + " bytes");
    std::memset(data, 0, whole);
    const std::scoped_lock lock(mutex_);
    live_[data] = bytes;
    ++generation_;
    return Buffer(
        this,
        {.data = data, .device_address = reinterpret_cast<std::uintptr_t>(data), .bytes = bytes});
  }

  Result<std::byte*> translate(std::uint64_t address, std::size_t bytes) const override {
    auto* const data = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
    const std::scoped_lock lock(mutex_);
    const auto next = live_.upper_bound(data);
    if (next == live_.begin() || std::prev(next)->first + std::prev(next)->second < data + bytes) {
      return Status(Code::kDevice, "own memory: the address is outside of every buffer");
    }
    return data;
  }

  std::uint64_t generation() const override { return generation_; }
  void flush(const BufferView&) override {}
  void invalidate(const BufferView&) override {}

 private:
  void release(const BufferView& view) noexcept override {
    {
      const std::scoped_lock lock(mutex_);
      live_.erase(view.data);
      ++generation_;
    }
    std::free(view.data);
  }

  mutable std::mutex mutex_;
  std::map<std::byte*, std::size_t> live_;
  std::atomic<std::uint64_t> generation_{0};
};

/// Adds one to every byte.
class AddOne final : public edgepipe::Stage {
 public:
  explicit AddOne(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }

  Status bind(std::size_t slot, std::span<const BufferView> inputs,
              std::span<const BufferView> outputs) override {
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    slots_[slot] = {inputs[0], outputs[0]};
    return {};
  }

  Status run(std::size_t slot) override {
    const auto& [in, out] = slots_[slot];
    for (std::size_t n = 0; n < in.bytes; ++n) out.data[n] = std::byte(int(in.data[n]) + 1);
    return {};
  }

 private:
  std::string name_;
  std::vector<std::pair<BufferView, BufferView>> slots_;
};

Status run_pipeline() {
  OwnMemory memory;
  edgepipe::Graph graph;
  for (const char* name : {"in", "middle", "out"}) {
    edgepipe::TensorSpec tensor;
    tensor.name = name;
    tensor.bytes = 4;
    graph.tensors.push_back(std::move(tensor));
  }
  graph.inputs = {0};
  graph.outputs = {2};
  graph.nodes.push_back({.stage = std::make_unique<AddOne>("first"), .reads = {0}, .writes = {1}});
  graph.nodes.push_back({.stage = std::make_unique<AddOne>("second"), .reads = {1}, .writes = {2}});
  auto pipeline = edgepipe::Pipeline::create(std::move(graph), memory, {});
  if (!pipeline.ok()) return pipeline.status();
  for (int frame = 0; frame < 20; ++frame) {
    const std::vector<std::byte> input(4, std::byte(frame));
    const std::span<const std::byte> inputs[] = {input};
    const auto number = (*pipeline)->submit(inputs, Clock::now() + 10s);
    if (!number.ok()) return number.status();
    const auto result = (*pipeline)->next(Clock::now() + 10s);
    if (!result.ok()) return result.status();
    const std::byte found = result->output(0)[3];
    if (found != std::byte(frame + 2)) return Status(Code::kInternal, "a wrong result");
  }
  std::fputs((*pipeline)->statistics().table().c_str(), stdout);
  return {};
}

}  // namespace

int main() {
  const Status status = run_pipeline();
  if (status.ok()) return 0;
  std::fprintf(stderr, "own-parts: error: %s\n", status.message().c_str());
  return 1;
}
