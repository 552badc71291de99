#include "programs/interruption.h"

#include <signal.h>

namespace edgepipe::programs {
namespace {

void on_interrupt(int) { interrupted = true; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace edgepipe::programs
