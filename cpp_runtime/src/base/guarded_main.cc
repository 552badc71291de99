#include "base/guarded_main.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>

namespace edgepipe {
namespace {

constexpr int kFailed = 1;

const char* running_program = nullptr;
const char* its_hint = nullptr;
std::terminate_handler usual_end = nullptr;
thread_local bool memory_ran_out = false;

[[noreturn]] void note() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

bool ended_by_another_exception() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return false;
  try {
    std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    return false;
  } catch (...) {
    return true;
  }
}

[[noreturn]] void end() {
  if (!memory_ran_out || ended_by_another_exception()) usual_end();
  ::_exit(report_starved(running_program, its_hint));
}

iovec part(const char* text) {
  return {.iov_base = const_cast<char*>(text), .iov_len = std::strlen(text)};
}

}  // namespace

void end_when_starved(const char* program, const char* hint) {
  running_program = program;
  its_hint = hint;
  std::set_new_handler(note);
  const std::terminate_handler before = std::set_terminate(end);
  if (before != end) usual_end = before;
}

int report_starved(const char* program, const char* hint) {
  const std::array<iovec, 4> parts{part(program), part(": error: out of memory\nhint: "),
                                   part(hint), part("\n")};
  // Nothing can be done about a standard error that takes no more.
  static_cast<void>(::writev(STDERR_FILENO, parts.data(), static_cast<int>(parts.size())));
  return kFailed;
}

}  // namespace edgepipe
