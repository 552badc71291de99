#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "base/byte_stream.h"

namespace edgepipe {
namespace {

using namespace std::chrono_literals;

Result<ChildProcess> shell(const std::string& script) {
  return ChildProcess::start({"sh", "-c", script});
}

Clock::time_point soon() { return Clock::now() + 20s; }

std::string first_line(ChildProcess& child) {
  ByteStream stream(child.take_output());
  const std::atomic<bool> stop{false};
  std::string line;
  for (std::byte byte{};; line += static_cast<char>(byte)) {
    Result<bool> more = stream.read(std::span(&byte, 1), stop);
    if (!more.ok() || !*more || byte == std::byte{'\n'}) return line;
  }
}

/// The memory of this process in pages.
long resident_pages() {
  std::ifstream file("/proc/self/statm");
  long all = 0;
  long resident = 0;
  file >> all >> resident;
  return resident;
}

TEST(ChildProcessTest, ReturnsItsOutputAndSucceeds) {
  Result<ChildProcess> child = shell("echo one; cat");  // with nothing to read
  ASSERT_TRUE(child.ok()) << child.status().message();
  EXPECT_EQ(first_line(*child), "one");
  EXPECT_TRUE(child->wait(soon()).ok());
}

TEST(ChildProcessTest, ItsLastLineIsTheError) {
  Result<ChildProcess> child = shell("echo first >&2; echo the disc is broken >&2; exit 3");
  ASSERT_TRUE(child.ok());
  const Status status = child->wait(soon());
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "sh: the disc is broken");
}

TEST(ChildProcessTest, OnlyTheEndOfALongErrorOutputIsKept) {
  const long before = resident_pages();
  Result<ChildProcess> child = shell(
      "yes the disc has a scratch | head -c 64M >&2; stat -L -c %s /proc/self/fd/2;"
      "echo >&2; echo the disc is broken >&2; exit 3");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(first_line(*child), "0") << "bytes that a file behind its standard error keeps";
  EXPECT_EQ(child->wait(soon()).message(), "sh: the disc is broken");
  EXPECT_LT((resident_pages() - before) * ::sysconf(_SC_PAGESIZE), 32 << 20);
}

TEST(ChildProcessTest, ASurvivingGrandchildDelaysNothing) {
  Result<ChildProcess> child = shell("echo the disc is broken >&2; sleep 60 & echo $!; exit 3");
  ASSERT_TRUE(child.ok());
  const pid_t grandchild = std::stoi(first_line(*child));
  EXPECT_EQ(child->wait(soon()).message(), "sh: the disc is broken");
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0);
}

TEST(ChildProcessTest, AnEndBySignalIsReported) {
  Result<ChildProcess> child = shell("kill -KILL $$");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->wait(soon()).message(), "sh was killed by signal 9");
}

TEST(ChildProcessTest, AMissingProgramIsNotFound) {
  Result<ChildProcess> child = ChildProcess::start({"no-such-program"});
  // Under qemu-user vfork is a fork, so only the child notices.
  const Status status = child.ok() ? child->wait(soon()) : child.status();
  EXPECT_EQ(status.code(), Code::kNotFound) << status.message();
}

TEST(ChildProcessTest, WaitingHasADeadline) {
  Result<ChildProcess> child = shell("exec sleep 60");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->wait(Clock::now() + 10ms).code(), Code::kDeadline);
}

TEST(ChildProcessTest, ItEndsWithTheObject) {
  pid_t id = 0;
  {
    Result<ChildProcess> child = shell("echo $$; exec sleep 60");
    ASSERT_TRUE(child.ok());
    id = std::stoi(first_line(*child));
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_EQ(::kill(id, 0), -1);
}

/// What a script with `third` writes there after the process that started it was killed. It has
/// `input` as its standard input, whose other end only that process holds.
std::string after_a_kill(const std::string& script, bool outlives) {
  std::array<int, 2> input{};
  std::array<int, 2> third{};
  EXPECT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(third.data(), O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(third[0]);
    const Result<ChildProcess> child =
        ChildProcess::start({"sh", "-c", script},
                            {.standard_input = input[0], .third = third[1], .outlives = outlives});
    ::kill(::getpid(), child.ok() ? SIGKILL : SIGTERM);
  }
  ::close(input[0]);
  ::close(input[1]);
  ::close(third[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  std::string text;
  std::array<char, 64> piece{};
  for (pollfd end{.fd = third[0], .events = POLLIN, .revents = 0}; ::poll(&end, 1, 20000) == 1;) {
    const ssize_t count = ::read(third[0], piece.data(), piece.size());
    if (count <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::close(third[0]);
  return text;
}

TEST(ChildProcessTest, IsKilledWithTheProcessThatStartedIt) {
  EXPECT_EQ(after_a_kill("sleep 5 3>&- & wait; echo late >&3", false), "");
}

TEST(ChildProcessTest, MayCompleteItsOutputAfterTheProcessThatStartedIt) {
  EXPECT_EQ(after_a_kill("cat; echo complete >&3", true), "complete\n");
}

TEST(ChildProcessTest, InheritsAnInputAndAThirdFile) {
  std::array<int, 2> first{};
  std::array<int, 2> second{};
  ASSERT_EQ(::pipe2(first.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(second.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::write(first[1], "one\n", 4), 4);
  ASSERT_EQ(::write(second[1], "two\n", 4), 4);
  ::close(first[1]);
  ::close(second[1]);
  Result<ChildProcess> child = ChildProcess::start(
      {"sh", "-c", "cat; cat <&3"}, {.standard_input = first[0], .third = second[0]});
  ::close(first[0]);
  ::close(second[0]);
  ASSERT_TRUE(child.ok());
  Result<std::string> answer = child->read_all(soon());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, "one\ntwo\n");
  EXPECT_TRUE(child->wait(soon()).ok());
}

TEST(ChildProcessTest, AnAnswerThatDoesNotEndIsAnError) {
  Result<ChildProcess> child = shell("exec sleep 60");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->read_all(Clock::now() + 50ms).status().message(), "sh has not answered in time");
  Result<ChildProcess> talker = shell("yes");
  ASSERT_TRUE(talker.ok());
  EXPECT_EQ(talker->read_all(soon()).status().message(), "sh: its answer is too long");
}

}  // namespace
}  // namespace edgepipe
