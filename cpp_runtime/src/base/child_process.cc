#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/open_failure.h"

extern char** environ;  // not declared by any POSIX header

namespace edgepipe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrace{2000};
constexpr milliseconds kPoll{5};
constexpr int kThird = 3;
constexpr int kLifeline = 4;
constexpr std::size_t kMostAnswerBytes = 65536;
constexpr int kNotStarted = 127;  // exit code if posix_spawn could not run the program (POSIX)

/// The settings of posix_spawn, freed on destruction.
struct Spawn {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  Spawn() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
  ~Spawn() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

/// Lets the kernel kill a process that holds the reading end of a pipe once nobody holds the other
/// one. Unlike PR_SET_PDEATHSIG, this works with posix_spawn, and the thread that started the
/// process may end before.
void tie(const FileDescriptor& reader, pid_t id) {
  ::fcntl(reader.number(), F_SETOWN, id);
  ::fcntl(reader.number(), F_SETSIG, SIGKILL);
  ::fcntl(reader.number(), F_SETFL, O_ASYNC);
}

Status failed(const std::string& what, int error) {
  return open_failure(error == ENOENT ? Code::kNotFound : Code::kInternal, what, error);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments, Inputs inputs) {
  const std::string& name = arguments.front();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe", errno);
  FileDescriptor output(ends[0]);
  const FileDescriptor input(ends[1]);
  Result<std::unique_ptr<LastWords>> words = LastWords::listen();
  if (!words.ok()) return words.status();
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe", errno);
  const FileDescriptor held(ends[0]);
  FileDescriptor lifeline(ends[1]);

  // Copies with numbers above those that the child gets, so that none is overwritten before it is
  // duplicated.
  const auto above = [](int file) { return ::fcntl(file, F_DUPFD_CLOEXEC, kLifeline + 1); };
  const FileDescriptor standard_input(inputs.standard_input < 0 ? -1
                                                                : above(inputs.standard_input));
  const FileDescriptor third(inputs.third < 0 ? -1 : above(inputs.third));
  const FileDescriptor tied(inputs.outlives ? -1 : above(held.number()));
  if ((!inputs.outlives && !tied.valid()) ||
      (inputs.standard_input >= 0 && !standard_input.valid()) ||
      (inputs.third >= 0 && !third.valid())) {
    return failed("dup", errno);
  }

  Spawn spawn;
  if (standard_input.valid()) {
    ::posix_spawn_file_actions_adddup2(&spawn.files, standard_input.number(), STDIN_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&spawn.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  ::posix_spawn_file_actions_adddup2(&spawn.files, input.number(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&spawn.files, (*words)->writer(), STDERR_FILENO);
  if (third.valid()) {
    ::posix_spawn_file_actions_adddup2(&spawn.files, third.number(), kThird);
  }
  if (tied.valid()) {
    ::posix_spawn_file_actions_adddup2(&spawn.files, tied.number(), kLifeline);
  }
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&spawn.attributes, &signals);
  ::sigaddset(&signals, SIGPIPE);  // this program ignores it
  ::posix_spawnattr_setsigdefault(&spawn.attributes, &signals);
  ::posix_spawnattr_setpgroup(&spawn.attributes, 0);
  ::posix_spawnattr_setflags(
      &spawn.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> texts;
  texts.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    texts.push_back(const_cast<char*>(argument.c_str()));  // posix_spawn does not modify it
  }
  texts.push_back(nullptr);
  pid_t id = 0;
  const int error =
      ::posix_spawnp(&id, name.c_str(), &spawn.files, &spawn.attributes, texts.data(), environ);
  if (error != 0) return failed(name + " cannot be started", error);
  if (tied.valid()) tie(tied, id);
  (*words)->close_writer();
  return ChildProcess(id, name, std::move(output), std::move(lifeline), *std::move(words));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, 0)),
      wait_status_(other.wait_status_),
      name_(std::move(other.name_)),
      output_(std::move(other.output_)),
      lifeline_(std::move(other.lifeline_)),
      words_(std::move(other.words_)) {}

ChildProcess::~ChildProcess() {
  if (id_ == 0) return;
  output_ = FileDescriptor();
  ::kill(id_, SIGTERM);
  if (ended_before(Clock::now() + kGrace)) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

bool ChildProcess::ended_before(Clock::time_point deadline) {
  while (id_ != 0) {
    const pid_t ended = ::waitpid(id_, &wait_status_, WNOHANG);
    if (ended != 0 && !(ended < 0 && errno == EINTR)) {
      id_ = 0;
    } else if (Clock::now() >= deadline) {
      return false;
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
  return true;
}

Result<std::string> ChildProcess::read_all(Clock::time_point deadline) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    pollfd events{.fd = output_.number(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&events, 1, static_cast<int>(kPoll.count()));
    if (ready == 0 && Clock::now() >= deadline) {
      return Status(Code::kDeadline, name_ + " has not answered in time");
    }
    if (ready <= 0) continue;
    const ssize_t count = ::read(output_.number(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(name_, errno);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
    if (text.size() > kMostAnswerBytes) {
      return Status(Code::kCorrupt, name_ + ": its answer is too long");
    }
  }
}

Status ChildProcess::wait(Clock::time_point deadline) {
  if (!ended_before(deadline)) {
    return Status(Code::kDeadline, name_ + " has closed its output but is still running");
  }
  if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0) return {};
  if (WIFSIGNALED(wait_status_)) {
    return Status(Code::kCorrupt,
                  name_ + " was killed by signal " + std::to_string(WTERMSIG(wait_status_)));
  }
  if (WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == kNotStarted) {
    return Status(Code::kNotFound, name_ + " cannot be started");
  }
  const std::string words = words_->last_line();
  return Status(Code::kCorrupt,
                name_ + ": " + (words.empty() ? "failed without a message" : words));
}

}  // namespace edgepipe
