// LastWords: reads the error output of a child process and keeps its end.
//
//   Result<std::unique_ptr<LastWords>> words = LastWords::listen();
//   ... the child is started with (*words)->writer() as its standard error ...
//   (*words)->close_writer();             // the child has a copy
//   ... after it has ended: (*words)->last_line()
//
// However much the child writes, it never waits for a reader, and memory use stays bounded.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/thread.h"
#include "edgepipe/status.h"

namespace edgepipe {

class LastWords {
 public:
  /// Starts the reading thread.
  static Result<std::unique_ptr<LastWords>> listen();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  ~LastWords() { finish(); }

  [[nodiscard]] int writer() const { return writer_.number(); }
  void close_writer() { writer_ = FileDescriptor(); }

  /// The last line written so far, without its newline; empty if there is none. Later output is
  /// lost. Does not wait for writers.
  std::string last_line();

  /// Everything that is kept: at least the last 4096 bytes. As last_line() otherwise.
  std::string text();

 private:
  LastWords(FileDescriptor reader, FileDescriptor writer)
      : reader_(std::move(reader)), writer_(std::move(writer)) {}
  void read();
  void finish();

  FileDescriptor reader_;
  FileDescriptor writer_;
  std::string end_;  // owned by the thread until it is joined
  std::optional<Thread> thread_;
};

}  // namespace edgepipe
