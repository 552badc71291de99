#include "programs/session_program.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "base/failure.h"
#include "bundle/fingerprint.h"
#include "programs/interruption.h"

namespace edgepipe::programs {
namespace {

constexpr int kWrongUse = 2;

}  // namespace

int report_failure(const std::string& program, const Status& status) {
  print_failure(program.c_str(), status);
  return exit_code(status.code());
}

int run_session_program(const OptionTable& table, SessionOptions& options, int argc, char** argv,
                        const std::function<std::string()>& check,
                        const std::function<int()>& run) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto asks_for_help = [](const std::string& text) {
    return text == "--help" || text == "-h";
  };
  if (std::ranges::any_of(arguments, asks_for_help)) {
    std::fputs(table.help().c_str(), stdout);
    return kOk;
  }
  const std::string& name = table.program();
  std::string error = table.parse(arguments);
  if (error.empty()) error = check();
  if (error.empty()) error = check_session_options(options);
  if (!error.empty()) {
    std::fprintf(stderr, "%s: error: %s\nhint: %s --help\n", name.c_str(), error.c_str(),
                 name.c_str());
    return kWrongUse;
  }
  options.session.pipeline.on_fault = [&name](const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str());
  };
  // A closed pipe and a file size limit show as failed writes.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  catch_interrupts();
  try {
    return run();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", name.c_str());
    return 1;
  }
}

}  // namespace edgepipe::programs
