#include "session_functions.h"

#include <sys/utsname.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "edgepipe/session.h"
#include "edgepipe/uio_device.h"
#include "pipeline_module.h"
#include "served_pipeline.h"
#include "stage_runner.h"
#include "status_error.h"

namespace edgepipe::rpc {
namespace {

namespace ffi = tvm::ffi;
using Path = std::filesystem::path;

constexpr std::string_view kStagePrefix = "stage_";

/// A client names files of its own session only; their folders are made for it.
Path session_path(const Path& folder, const std::string& name) {
  const Path path(name);
  bool inside = !name.empty() && path.is_relative();
  for (const Path& part : path) inside = inside && part != "..";
  if (!inside) TVM_FFI_THROW(ValueError) << "file '" << name << "' is not inside the session";
  std::error_code error;
  std::filesystem::create_directories((folder / path).parent_path(), error);
  return folder / path;
}

class RunnerModule : public ffi::ModuleObj {
 public:
  explicit RunnerModule(std::unique_ptr<StageRunner> runner) : runner_(std::move(runner)) {}

  const char* kind() const final { return "edgepipe"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    // Functions keep the module, and so the stages, alive.
    const ffi::Module self = ffi::GetRef<ffi::Module>(this);
    const std::string_view text(name.data(), name.size());
    StageRunner* runner = runner_.get();
    if (text == "describe") {
      return make([self, runner] { return ffi::String(runner->describe()); });
    }
    if (text == "statistics") {
      return make([self, runner] { return ffi::String(runner->take_statistics()); });
    }
    if (text == "run") return make([self, runner] { check(runner->run_all()); });
    if (text == "load_golden") return make([self, runner] { check(runner->load_golden()); });
    if (text == "check_golden") return make([self, runner] { check(runner->check_golden()); });
    if (text == "stage") {
      return make([self, runner](int64_t i) { check(runner->run(static_cast<std::size_t>(i))); });
    }
    if (text == "run_stage") {
      return ffi::Function::FromPacked([self, runner](ffi::PackedArgs args, ffi::Any* result) {
        *result = run_stage(*runner, args);
      });
    }
    if (text == "set") {
      return make([self, runner](const ffi::String& tensor, const ffi::Bytes& content) {
        set(*runner, std::string(tensor), content);
      });
    }
    if (text == "get") {
      return make([self, runner](const ffi::String& tensor) {
        const auto bytes = value_of(runner->tensor(std::string(tensor)));
        return ffi::Bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      });
    }
    if (const std::optional<std::size_t> stage = stage_of(text)) {
      return make([self, runner, index = *stage] { check(runner->run(index)); });
    }
    return std::nullopt;
  }

 private:
  template <typename Callable>
  static ffi::Function make(Callable callable) {
    return ffi::Function::FromTyped(std::move(callable));
  }

  static void set(StageRunner& runner, const std::string& tensor, const ffi::Bytes& content) {
    const std::span<std::byte> bytes = value_of(runner.tensor(tensor));
    if (content.size() != bytes.size()) {
      TVM_FFI_THROW(ValueError) << "tensor '" << tensor << "': found " << content.size()
                                << " bytes, expected " << bytes.size();
    }
    std::memcpy(bytes.data(), content.data(), content.size());
  }

  static ffi::Bytes run_stage(StageRunner& runner, ffi::PackedArgs args) {
    const auto stage = args[0].cast<int64_t>();
    std::vector<ffi::Bytes> contents;
    std::vector<std::string_view> inputs;
    for (int index = 1; index < args.size(); ++index) {
      contents.push_back(args[index].cast<ffi::Bytes>());
    }
    inputs.reserve(contents.size());
    for (const ffi::Bytes& content : contents) inputs.emplace_back(content.data(), content.size());
    return value_of(runner.run_on(static_cast<std::size_t>(stage), inputs));
  }

  [[nodiscard]] std::optional<std::size_t> stage_of(std::string_view name) const {
    if (!name.starts_with(kStagePrefix)) return std::nullopt;
    name.remove_prefix(kStagePrefix.size());
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
    return index < runner_->stages() ? std::optional(index) : std::nullopt;
  }

  const std::unique_ptr<StageRunner> runner_;
};

ffi::Module make_module(std::unique_ptr<StageRunner> runner) {
  return ffi::Module(ffi::make_object<RunnerModule>(std::move(runner)));
}

ffi::String describe_machine() {
  utsname system{};
  uname(&system);
  const UioOptions where_the_kernel_shows_it;
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return nlohmann::json{{"machine", system.machine},
                        {"kernel", system.release},
                        {"host", system.nodename},
                        {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                        {"memory_bytes", pages * page_bytes},
                        {"has_accelerator", uio_device_present(where_the_kernel_shows_it)},
                        {"process", getpid()}}
      .dump();
}

template <typename Callable>
void add(const char* name, Callable callable) {
  ffi::Function::SetGlobal(name, ffi::Function::FromTyped(std::move(callable)), true);
}

}  // namespace

void register_functions(const Path& folder) {
  add("tvm.rpc.server.workpath", [folder](const ffi::String& name) {
    return ffi::String(session_path(folder, std::string(name)).string());
  });
  add("tvm.rpc.server.load_module", [folder](const ffi::String& name) {
    return ffi::Module::LoadFromFile(session_path(folder, std::string(name)).string());
  });
  add("edgepipe.info", describe_machine);
  add("edgepipe.open_bundle", [folder](const ffi::String& name, const ffi::String& device) {
    return make_module(
        value_of(StageRunner::open_bundle(session_path(folder, std::string(name)),
                                          value_of(parse_device_choice(std::string(device))))));
  });
  add("edgepipe.load_pipeline",
      [folder](const ffi::String& name, const ffi::String& device, int64_t slots) {
        return make_pipeline_module(value_of(ServedPipeline::open(
            session_path(folder, std::string(name)),
            value_of(parse_device_choice(std::string(device))), static_cast<std::size_t>(slots))));
      });
  add("edgepipe.open_stage", [folder](const ffi::String& name) {
    return make_module(
        value_of(StageRunner::open_arm_stage(session_path(folder, std::string(name)))));
  });
}

}  // namespace edgepipe::rpc
