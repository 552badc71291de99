// SessionProgram: what main() of edgepipe-run and edgepipe-cam does.
//
//   int main(int argc, char** argv) {
//     return SessionProgram<Options>{.name = "edgepipe-run", ...}.main(argc, argv);
//   }
#pragma once

#include <signal.h>

#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "command_line.h"
#include "session_options.h"

namespace edgepipe::programs {

/// `Options` derives from SharedOptions.
template <typename Options>
struct SessionProgram {
  const char* name;
  const char* help;      // up to the shared options
  const char* help_end;  // from there
  /// Returns an error text, empty when the arguments make sense.
  std::string (*parse)(const std::vector<std::string>& arguments, Options& options);
  /// Returns the exit code.
  int (*run)(const Options& options);

  int main(int argc, char** argv) const {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    for (const std::string& argument : arguments) {
      if (argument == "--help" || argument == "-h") {
        std::printf("%s%s%s", help, kSessionHelp, help_end);
        return kOk;
      }
    }
    Options options;
    if (const std::string error = parse(arguments, options); !error.empty()) {
      std::fprintf(stderr, "%s: error: %s\nhint: %s --help\n", name, error.c_str(), name);
      return kWrongUse;
    }
    options.session.pipeline.on_fault = [this](const std::string& what) {
      std::fprintf(stderr, "%s: %s\n", name, what.c_str());
    };
    // A reader that has gone and a file that may not grow show as failed writes.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    catch_interrupts();
    try {
      return run(options);
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "%s: out of memory\n", name);
      return 1;
    }
  }
};

}  // namespace edgepipe::programs
