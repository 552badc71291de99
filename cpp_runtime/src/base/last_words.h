// LastWords: reads what a child process complains of, and keeps the end.
//
//   Result<std::unique_ptr<LastWords>> words = LastWords::listen();
//   ... the child is started with (*words)->writer() as its standard error ...
//   (*words)->close_writer();             // the child has its own
//   ... once it has ended: (*words)->last_line()
//
// However much it complains, it never waits for a reader and fills no memory.
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
  /// Starts the thread that reads.
  static Result<std::unique_ptr<LastWords>> listen();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  ~LastWords() { finish(); }

  [[nodiscard]] int writer() const { return writer_.number(); }
  void close_writer() { writer_ = FileDescriptor(); }

  /// The last line that has been written, without its end; empty when nothing has. What is written
  /// from now on is lost. Waits for no writer.
  std::string last_line();

 private:
  LastWords(FileDescriptor reader, FileDescriptor writer)
      : reader_(std::move(reader)), writer_(std::move(writer)) {}
  void read();
  void finish();

  FileDescriptor reader_;
  FileDescriptor writer_;
  std::string end_;  // the thread's, until it has been joined
  std::optional<Thread> thread_;
};

}  // namespace edgepipe
