#include "media/sources/outage.h"

#include <algorithm>
#include <utility>

#include "base/seconds_text.h"

namespace edgepipe {

Outage::Outage(std::string name, SilencePolicy policy)
    : name_(std::move(name)), policy_(std::move(policy)) {}

void Outage::tell(const std::string& text) const {
  if (policy_.on_fault) policy_.on_fault(text);
}

Outage::Milliseconds Outage::length() const {
  if (!out_) return Milliseconds(0);
  const auto past = std::chrono::duration_cast<Milliseconds>(Clock::now() - picture_);
  return std::max(past, Milliseconds(1));
}

void Outage::delivered() {
  Milliseconds ended{0};
  {
    MutexLock lock(mutex_);
    ended = length();
    out_ = false;
    picture_ = quiet_ = Clock::now();
    ++counters_.steps;
  }
  if (ended.count() > 0) tell(name_ + ": delivers pictures again, after " + seconds_text(ended));
}

void Outage::waiting() {
  if (policy_.limit.count() > 0) return;
  MutexLock lock(mutex_);
  ++counters_.steps;
}

bool Outage::silent() const {
  MutexLock lock(mutex_);
  return policy_.limit.count() > 0 && Clock::now() - quiet_ >= policy_.limit;
}

void Outage::excused() {
  MutexLock lock(mutex_);
  quiet_ = Clock::now();
}

void Outage::failed(const std::string& text) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(out_, true)) return;
    fault_ = text;
  }
  tell(text + "; closed, to be opened again");
}

void Outage::failed_silently() {
  {
    MutexLock lock(mutex_);
    ++counters_.silences;
  }
  failed(name_ + ": no picture for " + seconds_text(policy_.limit));
}

void Outage::attempted(bool opened) {
  MutexLock lock(mutex_);
  ++counters_.steps;
  counters_.reconnects += opened ? 1 : 0;
  quiet_ = Clock::now();
}

Status Outage::given_up() const {
  MutexLock lock(mutex_);
  if (policy_.give_up.count() == 0 || length() < policy_.give_up) return {};
  return Status(Code::kDevice,
                name_ + ": no picture for " + seconds_text(policy_.give_up) +
                    ", although it was opened again " + std::to_string(counters_.reconnects) +
                    (counters_.reconnects == 1 ? " time" : " times"),
                "check the camera and its cable, or the program that writes the pictures");
}

void Outage::count_in(SourceCounters& counters) const {
  MutexLock lock(mutex_);
  counters.silences = counters_.silences;
  counters.reconnects = counters_.reconnects;
  counters.steps = counters_.steps;
  counters.outage = length();
}

std::string Outage::fault() const {
  MutexLock lock(mutex_);
  return fault_;
}

}  // namespace edgepipe
