#include "base/remedy.h"

#include <cstdio>

namespace edgepipe {

std::string_view remedy(Code code) {
  switch (code) {
    case Code::kOk:
      return "";
    case Code::kInvalidArgument:
      return "change what is named here, or make room for it; --help says what is expected";
    case Code::kNotFound:
      return "check the name; `edgepipe build` makes bundles, `edgepipe doctor` examines boards";
    case Code::kCorrupt:
      return "it is truncated, altered or of another kind; build or copy it again";
    case Code::kUnsupported:
      return "give what --help names; a bundle must be built for this machine by this version";
    case Code::kOutOfMemory:
      return "take fewer slots, or free memory";
    case Code::kDeadline:
      return "allow more time, or see with `edgepipe doctor` what keeps the board";
    case Code::kCancelled:
    case Code::kClosed:
      return "open it again";
    case Code::kDevice:
      return "examine the board with `edgepipe doctor`";
    case Code::kOtherConfiguration:
    case Code::kOtherRevision:
    case Code::kOtherClock:
    case Code::kOtherBitstream:
      return "build the bundle for this board, or install its bitstream with `edgepipe bitstream`";
    case Code::kOtherVersion:
      return "build the bundle with this version of edgepipe, or deploy this version";
    case Code::kInternal:
      return "this is a fault of edgepipe: report it with the command that led to it";
  }
  return "";
}

void print_failure(std::string_view program, const Status& status) {
  const std::string_view hint = remedy(status.code());
  std::fprintf(stderr, "%.*s: error: %s\nhint: %.*s\n", static_cast<int>(program.size()),
               program.data(), status.message().c_str(), static_cast<int>(hint.size()),
               hint.data());
}

}  // namespace edgepipe
