// open_failure: the status of an open, socket or pipe that failed.
//
//   FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
//   if (!file.valid()) return open_failure(Code::kNotFound, path + ": cannot be opened", errno);
//
// Too many open files say nothing about this file: the text then names the limit, and the hint says
// how to raise it.
#pragma once

#include <string>

#include "edgepipe/status.h"

namespace edgepipe {

/// Whether errno says that this process or machine has too many open files.
bool is_too_many_files(int error);

/// `code` with "WHAT: the reason" and `hint`; kOutOfMemory for EMFILE and ENFILE.
Status open_failure(Code code, const std::string& what, int error, const std::string& hint = "");

}  // namespace edgepipe
