// ForkedProcess: a copy of this process that runs a function. For tests of what processes share.
//
//   ForkedProcess other([](const std::string& word) { return use(word) ? 0 : 1; });
//   ...                       // start threads
//   other.say("go");          // the function begins
//   EXPECT_EQ(other.wait(), 0);
//
// Fork before this process has threads: the copy has only the forking one.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <utility>

namespace edgepipe::testing {

class ForkedProcess {
 public:
  /// `body` gets what say() says; its result is the exit code.
  explicit ForkedProcess(const std::function<int(const std::string& word)>& body) {
    if (::pipe(words_.data()) != 0) ::_exit(99);
    id_ = ::fork();
    if (id_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an ended test leaves nothing behind
      ::close(words_[1]);
      std::array<char, 512> word{};
      const ssize_t bytes = ::read(words_[0], word.data(), word.size());
      ::_exit(bytes > 0 ? body(std::string(word.data(), static_cast<std::size_t>(bytes))) : 98);
    }
    ::close(words_[0]);
  }
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess() {
    ::close(words_[1]);
    if (id_ > 0) {
      signal(SIGKILL);
      wait();
    }
  }

  void say(const std::string& word) const {
    [[maybe_unused]] const ssize_t written = ::write(words_[1], word.data(), word.size());
  }
  void signal(int number) const { ::kill(id_, number); }

  /// Blocks until it has ended; its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(id_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::array<int, 2> words_{};
  pid_t id_ = 0;
};

}  // namespace edgepipe::testing
