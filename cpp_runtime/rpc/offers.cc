#include "offers.h"

#include <algorithm>
#include <utility>

#include "base/secret.h"

namespace edgepipe::rpc {

Offers::Offers(Tracker::Options options, Log log)
    : options_(std::move(options)), log_(std::move(log)) {}

void Offers::keep() {
  const Status status = ask();
  if (!status.ok()) {
    tracker_.reset();
    offered_ = false;
    if (error_ != status.message()) {
      log_(status.message());
      if (!status.hint().empty()) log_("hint: " + status.hint());
    }
  }
  error_ = status.message();
}

Status Offers::ask() {
  if (!tracker_) {
    offered_ = false;
    Result<Tracker> tracker = Tracker::connect(options_);
    if (!tracker.ok()) return tracker.status();
    tracker_.emplace(std::move(*tracker));
    Status status = offer();
    if (status.ok()) log_("offered to the tracker as '" + options_.key + "'");
    return status;
  }
  if (!offered_) return offer();
  const Clock::time_point now = Clock::now();
  if (now - asked_ < kPeriod) return {};
  asked_ = now;
  Result<bool> waiting = tracker_->still_offered();
  if (!waiting.ok()) return waiting.status();
  if (*waiting) {
    claimed_.reset();
  } else if (!claimed_) {
    claimed_ = now;
  } else if (now - *claimed_ >= kUnclaimed) {
    return offer();
  }
  return {};
}

Status Offers::offer() {
  if (Status status = tracker_->offer(); !status.ok()) return status;
  keys_.push_back(tracker_->match_key());
  if (keys_.size() > kMostKeys) keys_.pop_front();
  offered_ = true;
  claimed_.reset();
  asked_ = Clock::now();
  return {};
}

bool Offers::take(std::string_view key) {
  const auto found =
      std::ranges::find_if(keys_, [&](const std::string& one) { return equal_secrets(key, one); });
  if (found == keys_.end()) return false;
  const bool last = std::next(found) == keys_.end();
  keys_.erase(found);
  if (offered_ && !last) tracker_.reset();  // the tracker then forgets the offer
  offered_ = false;
  return true;
}

}  // namespace edgepipe::rpc
