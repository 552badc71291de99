#include "base/failure.h"

#include <cstdio>

namespace edgepipe {

void print_failure(std::string_view program, const Status& status) {
  const char* const hint = status.hint().empty()
                               ? "if the text does not help, report it with the command"
                               : status.hint().c_str();
  std::fprintf(stderr, "%.*s: error: %s\nhint: %s\n", static_cast<int>(program.size()),
               program.data(), status.message().c_str(), hint);
}

}  // namespace edgepipe
