// edgepipe-run and edgepipe-cam as functions, for programs with their own devices.
//
//   int main(int argc, char** argv) {
//     const Status status = DeviceRegistry::instance().add({.name = "mine", ...});
//     if (!status.ok()) return 1;
//     return edgepipe::programs::run_main(argc, argv);  // --device mine, and --help lists it
//   }
#pragma once

namespace edgepipe::programs {

/// What edgepipe-run does. Returns the exit code. Call it once, from the main thread: it handles
/// SIGINT and SIGTERM and ignores SIGPIPE and SIGXFSZ from then on. It also replaces the handlers
/// for failed allocations: where no exception may pass, they end the process with an error.
int run_main(int argc, char** argv);

/// What edgepipe-cam does; otherwise the same.
int cam_main(int argc, char** argv);

}  // namespace edgepipe::programs
