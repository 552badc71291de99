#include "edgepipe/conformance/implementation.h"

#include <gtest/gtest-spi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "edgepipe/sync.h"

namespace edgepipe {

void PrintTo(Code code, std::ostream* out) {
  static const std::map<Code, const char*> names{{Code::kOk, "kOk"},
                                                 {Code::kInvalidArgument, "kInvalidArgument"},
                                                 {Code::kNotFound, "kNotFound"},
                                                 {Code::kCorrupt, "kCorrupt"},
                                                 {Code::kUnsupported, "kUnsupported"},
                                                 {Code::kOutOfMemory, "kOutOfMemory"},
                                                 {Code::kDeadline, "kDeadline"},
                                                 {Code::kCancelled, "kCancelled"},
                                                 {Code::kClosed, "kClosed"},
                                                 {Code::kDevice, "kDevice"},
                                                 {Code::kInternal, "kInternal"}};
  const auto found = names.find(code);
  if (found == names.end()) {
    *out << "code " << static_cast<int>(code);
  } else {
    *out << found->second;
  }
}

}  // namespace edgepipe

namespace edgepipe::conformance {

::testing::AssertionResult same(std::span<const std::byte> found,
                                std::span<const std::byte> expected) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << "found " << found.size() << " bytes, expected " << expected.size();
  }
  std::size_t different = 0;
  std::size_t first = 0;
  for (std::size_t n = found.size(); n-- > 0;) {
    if (found[n] == expected[n]) continue;
    ++different;
    first = n;
  }
  if (different == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << different << " of " << found.size() << " bytes differ, the first is byte " << first
         << ": found " << std::to_integer<int>(found[first]) << ", expected "
         << std::to_integer<int>(expected[first]);
}

::testing::AssertionResult same(std::span<const std::int8_t> found,
                                std::span<const std::int8_t> expected) {
  return same(std::as_bytes(found), std::as_bytes(expected));
}

namespace {

constexpr std::chrono::minutes kPatience{2};
constexpr std::string_view kSuite = "Conformance";  // every suite's name ends in it

/// The running test's name without its parameter.
std::string promise() {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return name.substr(0, name.find('/'));
}

/// Ends the program unless stop() is called in time.
class Deadline {
 public:
  Deadline()
      : test_(std::string(::testing::UnitTest::GetInstance()->current_test_info()->name())),
        thread_([this] { wait(); }) {}
  ~Deadline() {
    {
      const MutexLock lock(mutex_);
      ended_ = true;
      changed_.notify();
    }
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void wait() {
    const Clock::time_point deadline = Clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (!ended_) {
      if (changed_.wait_until(lock, deadline) || ended_) continue;
      std::fprintf(
          stderr,
          "conformance: %s has not ended within %d minutes; a call must not block forever\n",
          test_.c_str(), static_cast<int>(kPatience.count()));
      std::_Exit(1);
    }
  }

  const std::string test_;
  Mutex mutex_;
  CondVar changed_;
  bool ended_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// Prints what ran, once all tests have ended.
class Roll final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestProgramEnd(const ::testing::UnitTest& program) override {
    for (int n = 0; n < program.total_test_suite_count(); ++n) {
      const ::testing::TestSuite& suite = *program.GetTestSuite(n);
      std::string_view name = suite.name();
      if (!name.ends_with(kSuite) || suite.test_to_run_count() == 0) continue;
      for (const auto& [implementation, count] : counts_of(suite)) {
        std::printf("%.*s: %s: %d passed, %d failed, %d skipped\n", static_cast<int>(name.size()),
                    name.data(), implementation.c_str(), count.passed, count.failed, count.skipped);
        for (const auto& [reason, tests] : count.reasons) {
          std::printf("    %d skipped: %s\n", tests, reason.c_str());
        }
      }
    }
    std::fflush(stdout);
  }

 private:
  struct Count {
    int passed = 0;
    int failed = 0;
    int skipped = 0;
    std::map<std::string, int> reasons;
  };

  static std::map<std::string, Count> counts_of(const ::testing::TestSuite& suite) {
    std::map<std::string, Count> counts;
    for (int n = 0; n < suite.total_test_count(); ++n) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(n);
      if (!test.should_run()) continue;
      const std::string name = test.name();
      Count& count = counts[name.substr(name.find('/') + 1)];
      const ::testing::TestResult& result = *test.result();
      if (result.Failed()) {
        ++count.failed;
      } else if (result.Skipped()) {
        ++count.skipped;
        for (int part = 0; part < result.total_part_count(); ++part) {
          ++count.reasons[result.GetTestPartResult(part).message()];
        }
      } else {
        ++count.passed;
      }
    }
    return counts;
  }
};

/// Registered once, before main.
const bool kRollIsKept = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Roll);
  return true;
}();

}  // namespace

class Watch::Impl {
 public:
  void begin(const Deviations& deviations) {
    deadline_.emplace();
    const auto found = deviations.find(promise());
    if (found == deviations.end()) return;
    reason_ = found->second;
    reporter_.emplace(::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
                      &results_);
  }

  void end() {
    deadline_.reset();
    if (!reporter_) return;
    reporter_.reset();
    bool failed = false;
    for (int n = 0; n < results_.size(); ++n) {
      failed = failed || results_.GetTestPartResult(n).failed();
    }
    if (!failed) {
      FAIL() << "keeps this promise, although it is in its deviations (" << reason_
             << "); take it out";
    }
    GTEST_SKIP() << "deviation " << promise() << ": " << reason_;
  }

 private:
  std::optional<Deadline> deadline_;
  std::string reason_;
  ::testing::TestPartResultArray results_;
  std::optional<::testing::ScopedFakeTestPartResultReporter> reporter_;
};

Watch::Watch() : impl_(std::make_unique<Impl>()) {}
Watch::~Watch() = default;

bool Watch::may_skip() {
  const char* const ci = std::getenv("CI");
  return ci == nullptr || *ci == '\0';
}

void Watch::begin(const Deviations& deviations) { impl_->begin(deviations); }
void Watch::end() { impl_->end(); }

}  // namespace edgepipe::conformance
