#include "base/thread.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>

namespace edgepipe {
namespace {

struct Start {
  std::function<void()> body;
  std::function<void()> starved;
  std::string name;
};

void* run_body(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name.c_str());  // cosmetic: failures do not matter
  try {
    start->body();
  } catch (const std::bad_alloc&) {
    start->starved();
  }
  return nullptr;
}

class Attributes {
 public:
  Attributes() { pthread_attr_init(&attributes_); }
  ~Attributes() { pthread_attr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  pthread_attr_t* get() { return &attributes_; }

 private:
  pthread_attr_t attributes_{};
};

std::string text_of(const std::vector<int>& cores) {
  std::string text;
  for (const int core : cores) text += (text.empty() ? "" : ", ") + std::to_string(core);
  return text;
}

/// The priority that RLIMIT_RTPRIO allows this process, as text.
std::string most_realtime_priority() {
  rlimit limit{};
  ::getrlimit(RLIMIT_RTPRIO, &limit);
  return limit.rlim_cur == 0
             ? "the rtprio limit of this process is 0"
             : "the rtprio limit of this process is " + std::to_string(limit.rlim_cur);
}

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

std::vector<int> Thread::cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

Result<Thread> Thread::start(const Options& options, std::function<void()> body,
                             std::function<void()> starved) {
  Attributes attributes;
  std::string wanted = "thread '" + options.name + "'";
  if (!options.cores.empty()) {
    // The kernel accepts a set if one of its cores exists, and ignores the others.
    const std::vector<int> available = cores();
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const int core : options.cores) {
      if (std::ranges::find(available, core) == available.end()) {
        return Status(Code::kUnsupported,
                      wanted + ": core " + std::to_string(core) +
                          " does not exist or is not available to this process, expected " +
                          text_of(available),
                      "name cores that this machine has");
      }
      CPU_SET(static_cast<std::size_t>(core), &mask);
    }
    pthread_attr_setaffinity_np(attributes.get(), sizeof(mask), &mask);
    wanted += " on core " + text_of(options.cores);
  }
  if (options.realtime_priority > 0) {
    sched_param parameters{};
    parameters.sched_priority = options.realtime_priority;
    pthread_attr_setinheritsched(attributes.get(), PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(attributes.get(), SCHED_FIFO);
    const int error = pthread_attr_setschedparam(attributes.get(), &parameters);
    if (error != 0) {
      return Status(Code::kInvalidArgument, wanted + ": realtime priority " +
                                                std::to_string(options.realtime_priority) +
                                                " is not in 1..99");
    }
    wanted += " at realtime priority " + std::to_string(options.realtime_priority);
  }
  auto start = std::make_unique<Start>();
  start->body = std::move(body);
  start->starved = std::move(starved);
  start->name = options.name.substr(0, 15);
  pthread_t handle{};
  const int error = pthread_create(&handle, attributes.get(), run_body, start.get());
  if (error == EPERM && options.realtime_priority > 0) {
    return Status(Code::kUnsupported, wanted + " is not allowed, " + most_realtime_priority(),
                  "raise it: ulimit -r, LimitRTPRIO= of a unit, rtprio in limits.conf. A unit also "
                  "needs RestrictRealtime=no");
  }
  if (error != 0) {
    return Status(Code::kUnsupported, wanted + " cannot be started: " + reason(error),
                  "raise the limits of this process: ulimit -u and -v, TasksMax= of a unit");
  }
  static_cast<void>(start.release());  // now owned by run_body
  return Thread(handle);
}

Result<Thread> Thread::start(const Options& options, std::function<void()> body) {
  return start(options, std::move(body), [] {});
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    handle_ = std::exchange(other.handle_, std::nullopt);
  }
  return *this;
}

void Thread::join() {
  if (handle_) pthread_join(*handle_, nullptr);
  handle_.reset();
}

}  // namespace edgepipe
