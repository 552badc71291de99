// ChildProcess: another program that writes to a pipe; destroying the object ends it.
//
//   Result<ChildProcess> child = ChildProcess::start({"ffmpeg", "-i", path, "-"});
//   ByteStream stream(child->take_output());
//   ...                                  // up to the end of the stream
//   Status status = child->wait(deadline);  // kCorrupt with its last message if it failed
//
// For a program with short output: child->read_all(deadline), then wait().
//
// It has its own process group, so Ctrl-C in a terminal reaches only this program, which then shuts
// down both. If this process is killed, the kernel kills the child, too.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/last_words.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"

namespace edgepipe {

class ChildProcess {
 public:
  /// Files that it inherits: as standard input, which is otherwise empty, and as descriptor 3.
  /// They are borrowed during start().
  struct Inputs {
    int standard_input = -1;
    int third = -1;
    bool outlives = false;  // is not killed with this process, e.g. to complete its output
  };

  /// Starts the program `arguments[0]`, looked up in PATH. kNotFound if there is no such program.
  static Result<ChildProcess> start(const std::vector<std::string>& arguments, Inputs inputs);
  static Result<ChildProcess> start(const std::vector<std::string>& arguments) {
    return start(arguments, Inputs());
  }
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Sends SIGTERM, and SIGKILL two seconds later.
  ~ChildProcess();

  /// The read end of its standard output.
  FileDescriptor take_output() { return std::move(output_); }

  /// Its whole standard output, a few kilobytes at most. Blocks; kDeadline, kCorrupt for more.
  Result<std::string> read_all(Clock::time_point deadline);

  /// Blocks until it has ended. kDeadline; kCorrupt with its last message unless it exited with 0.
  Status wait(Clock::time_point deadline);

  /// The end of what it wrote to its standard error; what it writes later is lost.
  std::string words() { return words_->text(); }

 private:
  ChildProcess(int id, std::string name, FileDescriptor output, FileDescriptor lifeline,
               std::unique_ptr<LastWords> words)
      : id_(id),
        name_(std::move(name)),
        output_(std::move(output)),
        lifeline_(std::move(lifeline)),
        words_(std::move(words)) {}
  bool ended_before(Clock::time_point deadline);

  int id_;  // 0: has ended
  int wait_status_ = 0;
  std::string name_;
  FileDescriptor output_;
  FileDescriptor lifeline_;  // closed by the kernel when this process dies
  std::unique_ptr<LastWords> words_;
};

}  // namespace edgepipe
