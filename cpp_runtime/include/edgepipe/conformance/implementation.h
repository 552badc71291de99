// Implementation: what a conformance suite needs to know about one implementation.
//
//   using namespace edgepipe::conformance;
//   INSTANTIATE_TEST_SUITE_P(Mine, DeviceConformance,
//                            ::testing::Values(DeviceImplementation{
//                                .name = "MyDevice", .create = [] { return open_mine(); }}),
//                            name_of);
//
// Every test of a suite is one promise of the interface's header. It gets a new object from
// `create`, on the thread that runs the tests. Every promise that was not tested is reported:
//
// * kNotFound from `create` means that the implementation is not on this machine. Its tests are
//   skipped with that reason; where the environment variable CI is set, they fail.
// * A promise in `deviations` is expected to be broken: its test still runs, and is skipped with
//   the reason when it fails. If it passes, that is reported as a failure, because the deviation no
//   longer exists.
// * If a test does not end within two minutes, the program names it and exits.
// * At the end the program prints what ran, for each suite and implementation.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>

#include "edgepipe/status.h"

namespace edgepipe {

/// Lets GoogleTest print a status code by its name.
void PrintTo(Code code, std::ostream* out);

}  // namespace edgepipe

namespace edgepipe::conformance {

/// Compares bytes; a failure says how many differ and shows the first.
::testing::AssertionResult same(std::span<const std::byte> found,
                                std::span<const std::byte> expected);
::testing::AssertionResult same(std::span<const std::int8_t> found,
                                std::span<const std::int8_t> expected);

/// One implementation with everything that it needs, for one test. Each suite derives from it.
class UnderTest {
 public:
  UnderTest() = default;
  UnderTest(const UnderTest&) = delete;
  UnderTest& operator=(const UnderTest&) = delete;
  virtual ~UnderTest() = default;
};

/// Promises that an implementation breaks, by the test's name, with the reason.
using Deviations = std::map<std::string, std::string>;

/// Creates a new Subject of any derived class, or returns why it cannot.
template <typename Subject>
class Created {
 public:
  // Implicit, so that a function can return a Subject, a Status or a Result directly.
  template <typename Derived>
  Created(std::unique_ptr<Derived> subject) : subject_(std::move(subject)) {}
  Created(Status status) : status_(std::move(status)) {}

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] std::unique_ptr<Subject> take() { return std::move(subject_); }

 private:
  std::unique_ptr<Subject> subject_;
  Status status_;
};

template <typename Subject>
struct Implementation {
  std::string name;  // letters and digits; part of the tests' names
  std::function<Created<Subject>()> create;
  Deviations deviations = {};
};

/// Names the tests of an implementation; the last argument of INSTANTIATE_TEST_SUITE_P.
struct NameOf {
  template <typename Subject>
  std::string operator()(const ::testing::TestParamInfo<Implementation<Subject>>& info) const {
    return info.param.name;
  }
};
inline constexpr NameOf name_of;

template <typename Subject>
void PrintTo(const Implementation<Subject>& implementation, std::ostream* out) {
  *out << implementation.name;
}

/// Watches one test: enforces its deadline and decides what its failures mean. Used by Conformance.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// True when a test may be skipped because its implementation is not on this machine.
  [[nodiscard]] static bool may_skip();

  /// Starts the clock, and holds failures back if the running test is one of `deviations`.
  void begin(const Deviations& deviations);

  /// Stops the clock. Fails or skips the running test if it is a deviation.
  void end();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

/// The fixture of a suite: one new Subject for each test.
template <typename Subject>
class Conformance : public ::testing::TestWithParam<Implementation<Subject>> {
 protected:
  void SetUp() override {
    Created<Subject> created = this->GetParam().create();
    if (const Status& status = created.status(); !status.ok()) {
      if (status.code() == Code::kNotFound && Watch::may_skip()) {
        GTEST_SKIP() << "not on this machine: " << status.message();
      }
      FAIL() << this->GetParam().name << " cannot be created: " << status.message();
    }
    subject_ = created.take();
    watch_.begin(this->GetParam().deviations);
  }

  void TearDown() override {
    subject_.reset();
    watch_.end();
  }

  [[nodiscard]] Subject& subject() { return *subject_; }

 private:
  std::unique_ptr<Subject> subject_;
  Watch watch_;
};

}  // namespace edgepipe::conformance
