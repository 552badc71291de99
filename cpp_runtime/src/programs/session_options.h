// The options that edgepipe-run and edgepipe-cam share: the devices and cores of the stages.
#pragma once

#include <optional>
#include <string>

#include "edgepipe/session.h"
#include "edgepipe/status.h"
#include "programs/option_table.h"

namespace edgepipe::programs {

/// The options common to both programs.
struct SessionOptions {
  std::string bundle;
  std::optional<std::string> trace;  // file
  Session::Options session;
};

/// Adds the bundle and the options of a session to the current section. `options` is borrowed.
void add_session_options(OptionTable& table, SessionOptions& options);

/// Adds --score and --labels to the current section.
void add_selection_options(OptionTable& table, SessionOptions& options);

/// Adds --trace to the current section.
void add_trace_option(OptionTable& table, SessionOptions& options);

/// Whether the options make sense together. Returns an error text, or "".
std::string check_session_options(const SessionOptions& options);

/// Writes the trace of a run that ended with `status`, if one is wanted. A failed run writes it
/// too, because it shows where the run failed. Returns the first failure.
Status write_trace(const Status& status, Session& session, const SessionOptions& options);

}  // namespace edgepipe::programs
