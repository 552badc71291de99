// Status and Result: how every edgepipe function reports failure.
//
//   Result<Bundle> bundle = Bundle::open(path);
//   if (!bundle.ok()) return bundle.status().with_context("edgepipe-run");
//
// A Status is a code, one line of text and context added on the way up. It may carry a hint: what a
// user can do about this failure, in words that suit every program. No exceptions are used.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace edgepipe {

enum class Code {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong
  kNotFound,         // a file, stage, tensor or device does not exist
  kCorrupt,          // a file is truncated, modified or of another version
  kUnsupported,      // valid, but not supported by this build
  kOutOfMemory,      // an allocator is exhausted
  kDeadline,         // a wait timed out
  kCancelled,        // the caller cancelled
  kClosed,           // the pipeline or queue has been drained
  kDevice,           // the accelerator reported or caused a fault
  kInternal,         // a bug in edgepipe

  // The bundle does not match this machine; see fingerprint.h.
  kOtherConfiguration,
  kOtherRevision,
  kOtherClock,
  kOtherBitstream,
  kOtherVersion,

  // This machine's policy refuses the bundle; see policy.h.
  kUnsigned,
  kOtherSigner,   // not signed by anyone that the machine trusts
  kAltered,       // differs from what was signed
  kOlderRelease,  // its version is lower than one that the machine has accepted
  kUnverifiable,  // the policy or the tool that checks it cannot be used
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// One line; empty if the message says it all.
  [[nodiscard]] const std::string& hint() const { return hint_; }

  /// Returns the same status with `context: ` prepended to its message. No effect on an ok status.
  [[nodiscard]] Status with_context(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_, hint_);
  }

  /// Returns the same status with `hint`, for callers that know what to do about a failure. No
  /// effect on an ok status and on one that has a hint.
  [[nodiscard]] Status advised(const std::string& hint) const {
    return ok() || !hint_.empty() ? *this : Status(code_, message_, hint);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
  std::string hint_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function can return its value or a Status directly.
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) { assert(!this->status().ok()); }

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  /// Returns the same result; a failed one gets `hint`, as with Status::advised.
  [[nodiscard]] Result advised(const std::string& hint) && {
    return ok() ? std::move(*this) : Result(status().advised(hint));
  }

  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace edgepipe
