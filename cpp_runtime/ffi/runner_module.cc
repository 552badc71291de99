#include "runner_module.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "array.h"
#include "methods.h"
#include "owned_here.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

constexpr std::string_view kStagePrefix = "stage_";

class RunnerModule final : public Methods<RunnerModule> {
 public:
  explicit RunnerModule(std::unique_ptr<StageRunner> runner)
      : runner_(runner.release(), DeleteHere()) {}

  static std::span<const Method> methods() {
    static constexpr std::array kMethods = {entry<&RunnerModule::describe>("describe"),
                                            entry<&RunnerModule::statistics>("statistics"),
                                            entry<&RunnerModule::set_threads>("set_threads"),
                                            entry<&RunnerModule::tensor>("tensor"),
                                            entry<&RunnerModule::run>("run"),
                                            entry<&RunnerModule::run_stage>("run_stage"),
                                            entry<&RunnerModule::call_stage>("call_stage"),
                                            entry<&RunnerModule::load_golden>("load_golden"),
                                            entry<&RunnerModule::check_golden>("check_golden"),
                                            entry<&RunnerModule::close>("close")};
    return kMethods;
  }

  const char* kind() const final { return "edgepipe_stages"; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (const std::optional<std::int64_t> stage = stage_of({name.data(), name.size()})) {
      return ffi::Function::FromTyped(
          [module = ffi::GetRef<ffi::Module>(this), this, index = *stage] { run_stage(index); });
    }
    return Methods::GetFunction(name);
  }

 private:
  /// A tensor's memory, which keeps the stages alive, also after close().
  struct Kept {
    std::span<std::byte> memory;
    std::shared_ptr<StageRunner> runner;
    void AllocData(DLTensor* tensor) const { tensor->data = memory.data(); }  // NOLINT: TVM's names
    void FreeData(DLTensor*) const {}                                         // NOLINT
  };

  /// The stages. Throws after close().
  StageRunner& stages() {
    if (!runner_) check(Status(Code::kInvalidArgument, "stages: used after close()"));
    return *runner_;
  }

  std::string describe() { return stages().describe(); }
  std::string statistics() { return stages().take_statistics(); }
  void set_threads(std::int64_t threads) {
    check(stages().set_threads(static_cast<std::size_t>(threads)));
  }
  void run() { check(stages().run_all()); }
  void run_stage(std::int64_t stage) { check(stages().run(static_cast<std::size_t>(stage))); }
  void load_golden() { check(stages().load_golden()); }
  void check_golden() { check(stages().check_golden()); }
  void close() { runner_.reset(); }

  ffi::Tensor tensor(const ffi::String& name) {
    const std::span<std::byte> memory = value_of(stages().tensor({name.data(), name.size()}));
    return ffi::Tensor::FromNDAlloc(Kept{memory, runner_},
                                    ffi::Shape{static_cast<std::int64_t>(memory.size())},
                                    DLDataType{kDLUInt, 8, 1}, DLDevice{kDLCPU, 0});
  }

  void call_stage(ffi::PackedArgs args, ffi::Any* result) {
    const auto stage = args[0].cast<std::int64_t>();
    std::vector<Content> contents;
    contents.reserve(static_cast<std::size_t>(args.size()));
    for (int index = 1; index < args.size(); ++index) contents.emplace_back(args[index]);
    std::vector<std::span<const std::byte>> inputs;
    inputs.reserve(contents.size());
    for (const Content& content : contents) inputs.push_back(content.bytes());
    *result = ffi::Bytes(value_of(stages().run_on(static_cast<std::size_t>(stage), inputs)));
  }

  [[nodiscard]] std::optional<std::int64_t> stage_of(std::string_view name) const {
    if (!runner_ || !name.starts_with(kStagePrefix)) return std::nullopt;
    name.remove_prefix(kStagePrefix.size());
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
    if (index >= runner_->stages()) return std::nullopt;
    return static_cast<std::int64_t>(index);
  }

  std::shared_ptr<StageRunner> runner_;  // none after close()
};

}  // namespace

ffi::Module make_runner_module(std::unique_ptr<StageRunner> runner) {
  return ffi::Module(ffi::make_object<RunnerModule>(std::move(runner)));
}

}  // namespace edgepipe::binding
