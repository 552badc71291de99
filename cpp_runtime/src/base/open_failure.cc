#include "base/open_failure.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace edgepipe {

bool is_too_many_files(int error) { return error == EMFILE || error == ENFILE; }

Status open_failure(Code code, const std::string& what, int error, const std::string& hint) {
  if (error == EMFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return Status(
        Code::kOutOfMemory,
        what + ": too many open files, this process may have " + std::to_string(limit.rlim_cur),
        "raise the limit: ulimit -n, or LimitNOFILE= of a unit");
  }
  if (error == ENFILE) {
    return Status(Code::kOutOfMemory, what + ": too many open files on this machine",
                  "end other programs, or raise the limit: sysctl fs.file-max");
  }
  return Status(code, what + ": " + std::generic_category().message(error), hint);
}

}  // namespace edgepipe
