// What edgepipe-run and edgepipe-cam do as processes: signals, memory that runs out, files written.
#pragma once

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <string_view>

#include "command_line.h"
#include "edgepipe/status.h"

namespace edgepipe::programs {

/// As catch_interrupts; a reader that has gone and a file that may not grow show as failed writes.
inline void catch_signals() {
  catch_interrupts();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

/// Calls `body`, which returns an exit code; running out of memory is an error like another.
template <typename Body>
int guarded(const char* program, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", program);
    return 1;
  }
}

/// Writes a file, or leaves none.
inline Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  Result<OutputFile> file = create_file(path.string());
  if (!file.ok()) return file.status();
  Status status = write_all(file->get(), bytes, path.string());
  if (!status.ok()) std::filesystem::remove(path);
  return status;
}

}  // namespace edgepipe::programs
