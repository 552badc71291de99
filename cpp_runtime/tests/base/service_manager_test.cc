// The messages to a service manager, on a real datagram socket.
#include "base/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace edgepipe {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// The manager's end of the socket, at a path or in the abstract name space.
class Listener {
 public:
  explicit Listener(const std::string& name)
      : name_(name), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const std::size_t bytes =
        offsetof(sockaddr_un, sun_path) + name.size() + (name.front() == '@' ? 0 : 1);
    EXPECT_EQ(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(bytes)),
              0);
  }
  ~Listener() { std::filesystem::remove(name_); }

  /// The messages so far.
  std::vector<std::string> heard() const {
    std::vector<std::string> messages;
    char text[512];
    for (;;) {
      const ssize_t bytes = ::recv(socket_.number(), text, sizeof(text), MSG_DONTWAIT);
      if (bytes < 0) return messages;
      messages.emplace_back(text, static_cast<std::size_t>(bytes));
    }
  }

 private:
  const std::string name_;
  const FileDescriptor socket_;
};

std::string unused_name(const std::string& start) {
  return start + "edgepipe-test-" + std::to_string(::getpid());
}

class ServiceManagerAt : public ::testing::TestWithParam<const char*> {};

TEST_P(ServiceManagerAt, HearsThatAServiceIsReadyAliveAndStopping) {
  const std::string name = unused_name(GetParam());
  const Listener listener(name);
  Result<ServiceManager> manager = ServiceManager::connect({.socket = name, .watchdog = 1us});
  ASSERT_TRUE(manager.ok()) << manager.status().message();
  manager->ready("nanodet: started");
  manager->alive(1, [] { return "nanodet: 1 frame"; });
  manager->stopping();
  EXPECT_THAT(listener.heard(),
              ElementsAre("READY=1\nSTATUS=nanodet: started", "WATCHDOG=1", "STOPPING=1"));
}

INSTANTIATE_TEST_SUITE_P(Names, ServiceManagerAt, ::testing::Values("/tmp/", "@"),
                         [](const auto& at) { return *at.param == '@' ? "Abstract" : "Path"; });

TEST(ServiceManager, TellsTheStatusBeforeItIsKnownAndThenNotMoreThanOnceASecond) {
  const std::string name = unused_name("@");
  const Listener listener(name);
  Result<ServiceManager> manager = ServiceManager::connect({.socket = name});
  const auto began = std::chrono::steady_clock::now();
  for (int frame = 0; frame < 100; ++frame) {
    manager->alive(1, [&] { return std::to_string(frame) + " frames"; });
  }
  const auto most = 1 + (std::chrono::steady_clock::now() - began) / 1s;
  const std::vector<std::string> heard = listener.heard();
  ASSERT_FALSE(heard.empty());
  EXPECT_EQ(heard.front(), "STATUS=0 frames");
  EXPECT_LE(heard.size(), static_cast<std::size_t>(most));
  EXPECT_THAT(heard, Each(StartsWith("STATUS="))) << "no watchdog was asked for";
}

TEST(ServiceManager, FeedsTheWatchdogOnlyWithNewSteps) {
  const std::string name = unused_name("@");
  const Listener listener(name);
  Result<ServiceManager> manager = ServiceManager::connect({.socket = name, .watchdog = 1us});
  manager->ready("");
  for (const std::uint64_t steps : {0, 0, 0, 1, 1, 2}) {
    manager->alive(steps, [] { return std::string(); });
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(std::ranges::count(listener.heard(), "WATCHDOG=1"), 3);
}

TEST(ServiceManager, DoesNothingWithoutAManager) {
  Result<ServiceManager> manager = ServiceManager::connect({});
  ASSERT_TRUE(manager.ok());
  manager->ready("");
  manager->alive(1, []() -> std::string {
    ADD_FAILURE() << "nobody asked";
    return {};
  });
  manager->stopping();
}

TEST(ServiceManager, RefusesAnInvalidSocket) {
  const Status relative = ServiceManager::connect({.socket = "relative"}).status();
  EXPECT_THAT(relative.message(),
              HasSubstr("NOTIFY_SOCKET: found 'relative', expected the path or @NAME of a socket"));
  EXPECT_EQ(relative.hint(), "start it as a unit of systemd, or unset NOTIFY_SOCKET");
  const Status nobody = ServiceManager::connect({.socket = unused_name("/tmp/none-")}).status();
  EXPECT_EQ(nobody.code(), Code::kInvalidArgument);
  EXPECT_THAT(nobody.message(), HasSubstr("No such file or directory"));
}

TEST(ServiceManager, TakesSystemdsVariablesAndOnlyItsOwnWatchdog) {
  setenv("NOTIFY_SOCKET", "/run/systemd/notify", 1);
  setenv("WATCHDOG_USEC", "20000000", 1);
  setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(ServiceManager::from_environment().socket, "/run/systemd/notify");
  EXPECT_EQ(ServiceManager::from_environment().watchdog, 20s);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog, 0s);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  EXPECT_THAT(ServiceManager::from_environment().socket, IsEmpty());
}

}  // namespace
}  // namespace edgepipe
