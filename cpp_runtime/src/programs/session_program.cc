#include "programs/session_program.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/console.h"
#include "base/guarded_main.h"
#include "bundle/fingerprint.h"
#include "programs/interruption.h"

namespace edgepipe::programs {
namespace {

constexpr int kWrongUse = 2;
constexpr const char* kNeedsMemory =
    "give the process more memory, or use smaller pictures or fewer slots";

}  // namespace

int report_failure(const std::string& program, const Status& status) {
  print_failure(program.c_str(),
                status.code() == Code::kOutOfMemory ? status.advised(kNeedsMemory) : status);
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
    print_lines(stdout, table.help());
    return kOk;
  }
  const std::string& name = table.program();
  std::string error = table.parse(arguments);
  if (error.empty()) error = check();
  if (error.empty()) error = check_session_options(options);
  if (!error.empty()) {
    print_line(stderr, name + ": error: " + error);
    print_line(stderr, "hint: " + name + " --help");
    return kWrongUse;
  }
  options.session.pipeline.on_fault = [&name](const std::string& what) {
    print_line(stderr, name + ": " + what);
  };
  // A closed pipe or an exceeded file size limit then makes a write fail.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  catch_interrupts();
  return run();
}

int guarded_session_main(const char* program, const std::function<int()>& work) {
  return guarded_main(program, work, kNeedsMemory);
}

}  // namespace edgepipe::programs
