// SessionProgram: what edgepipe-run and edgepipe-cam do around their own work.
//
//   return guarded_session_main("edgepipe-run", [&] {
//     return run_session_program(table, options, argc, argv, check, [&] { return run(options); });
//   });
#pragma once

#include <functional>
#include <string>

#include "programs/option_table.h"
#include "programs/session_options.h"

namespace edgepipe::programs {

constexpr int kOk = 0;

/// Parses the arguments, prints --help or an error, or calls `run`. Returns the exit code,
/// which is that of `run`. `check` returns an error text if the options contradict each other.
int run_session_program(const OptionTable& table, SessionOptions& options, int argc, char** argv,
                        const std::function<std::string()>& check, const std::function<int()>& run);

/// What `work` returns, the exit code; prints an error and returns 1 if an allocation fails.
int guarded_session_main(const char* program, const std::function<int()>& work);

/// Prints a failure with its hint. Returns the exit code.
int report_failure(const std::string& program, const Status& status);

}  // namespace edgepipe::programs
