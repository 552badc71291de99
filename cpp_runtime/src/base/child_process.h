// ChildProcess: another program that writes to a pipe, ended with its object.
//
//   Result<ChildProcess> child = ChildProcess::start({"ffmpeg", "-i", path, "-"});
//   ByteStream stream(child->take_output());
//   ...                                  // up to the end of the stream
//   Status status = child->wait(deadline);  // kCorrupt with its last words if it failed
//
// It has a process group of its own, so that Ctrl-C in a terminal reaches only this program, which
// then ends both in order. When this process dies, the child's next write fails.
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
  /// Starts the program `arguments[0]`, looked up in PATH, with nothing at its standard input.
  /// kNotFound when there is no such program.
  static Result<ChildProcess> start(const std::vector<std::string>& arguments);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Asks it to end (SIGTERM), and kills it two seconds later.
  ~ChildProcess();

  /// The end of the pipe that its standard output goes to.
  FileDescriptor take_output() { return std::move(output_); }

  /// Blocks until it has ended; kDeadline, or kCorrupt with what it said last unless it exited with
  /// 0.
  Status wait(Clock::time_point deadline);

 private:
  ChildProcess(int id, std::string name, FileDescriptor output, std::unique_ptr<LastWords> words)
      : id_(id), name_(std::move(name)), output_(std::move(output)), words_(std::move(words)) {}
  bool ended_before(Clock::time_point deadline);

  int id_;  // 0: it has ended
  int wait_status_ = 0;
  std::string name_;
  FileDescriptor output_;
  std::unique_ptr<LastWords> words_;
};

}  // namespace edgepipe
