// Registers the functions that Python on the host and clients of TVM's RPC call. They are TVM-FFI's
// global functions of the process that loads this library:
//
//   edgepipe.load_pipeline(path, options, [stage, function]...) -> pipeline_module.h
//                                    starts a bundle, or an exported pipeline's folder; functions
//                                    run the stages with these names
//   edgepipe.open_bundle(path, device) -> runner_module.h    a bundle's stages, one by one
//   edgepipe.open_stage(folder) -> runner_module.h           one ARM stage
//   edgepipe.open_simulator(accelerator, kernel, arena_bytes, base_address) -> simulator_module.h
//   edgepipe.open_decoder(description) -> decoder_module.h   postprocessing of any tensors
//   edgepipe.describe_accelerator(accelerator) -> str        JSON; see simulator_module.h
//   edgepipe.modelled_cycles(accelerator, timing, program) -> int  see simulator_module.h
//   edgepipe.info() -> str           the machine as JSON: kernel, cores, whether it has the VTA
#include <sys/utsname.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "decoder_module.h"
#include "device/uio_device.h"
#include "edgepipe/session.h"
#include "pipeline_module.h"
#include "runner_module.h"
#include "running_pipeline.h"
#include "session/json_options.h"
#include "simulator_module.h"
#include "stage_runner.h"
#include "status_error.h"

namespace edgepipe::binding {
namespace {

namespace ffi = tvm::ffi;

void load_pipeline(ffi::PackedArgs args, ffi::Any* result) {
  const auto path = args[0].cast<std::string>();
  const auto options = args[1].cast<std::string>();
  RunningPipeline::Functions functions;
  for (int index = 2; index + 1 < args.size(); index += 2) {
    functions.emplace(args[index].cast<std::string>(), args[index + 1].cast<ffi::Function>());
  }
  *result = make_pipeline_module(
      value_of(RunningPipeline::open(path, value_of(parse_options(options)), functions)));
}

ffi::Module open_bundle(const std::string& path, const std::string& device) {
  return make_runner_module(
      value_of(StageRunner::open_bundle(path, value_of(DeviceRegistry::instance().parse(device)))));
}

ffi::Module open_stage(const std::string& folder) {
  return make_runner_module(value_of(StageRunner::open_arm_stage(folder)));
}

std::string describe_machine() {
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

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def_packed("edgepipe.load_pipeline", load_pipeline)
      .def("edgepipe.open_bundle", open_bundle)
      .def("edgepipe.open_stage", open_stage)
      .def("edgepipe.open_simulator", open_simulator)
      .def("edgepipe.open_decoder", open_decoder)
      .def("edgepipe.describe_accelerator", describe_accelerator)
      .def("edgepipe.modelled_cycles", modelled_cycles)
      .def("edgepipe.info", describe_machine);
}

}  // namespace edgepipe::binding
