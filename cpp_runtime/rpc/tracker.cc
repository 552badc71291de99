#include "tracker.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "session_key.h"

namespace edgepipe::rpc {
namespace {

using Json = nlohmann::json;

constexpr std::int32_t kTrackerMagic = 0x2F271;
constexpr std::chrono::seconds kPatience{10};
// TVM's tracker lets one connection wait to be accepted. Of many that come at once, the kernel
// drops some that this end takes for open. The next one, soon, will do.
constexpr std::chrono::seconds kTrackerPatience{2};
constexpr std::size_t kMostBytes = 1 << 20;

// TrackerCode of python/tvm/rpc/base.py.
constexpr int kSuccess = 0;
constexpr int kPut = 3;
constexpr int kUpdateInfo = 5;
constexpr int kGetPendingMatchKeys = 7;

constexpr const char* kRemedy = "check that the tracker runs at that address";

/// The key of one client; the tracker uses the part before the colon itself.
std::string match_key_of(const std::string& key) { return key + ":" + random_key(); }

}  // namespace

Result<Tracker> Tracker::connect(Options options) {
  Result<Socket> socket = Socket::connect(options.host, options.port, kPatience, options.stop_on);
  if (!socket.ok()) return socket.status().with_context("tracker").advised(kRemedy);
  Tracker tracker(std::move(options), std::move(*socket));
  tracker.socket_.allow(kTrackerPatience);
  if (Status status = tracker.socket_.write_int(kTrackerMagic); !status.ok()) return status;
  Result<std::int32_t> magic = tracker.socket_.read_int();
  if (!magic.ok()) return magic.status().with_context("tracker");
  if (*magic != kTrackerMagic) {
    return Status(Code::kCorrupt,
                  "tracker " + tracker.options_.host + ":" + std::to_string(tracker.options_.port) +
                      ": not a TVM RPC tracker",
                  kRemedy);
  }
  const Tracker::Options& own = tracker.options_;
  const Json host = own.advertised_host.empty() ? Json(nullptr) : Json(own.advertised_host);
  const Json who = {{"key", "server:" + own.key}, {"addr", {host, own.advertised_port}}};
  Status status = tracker.tell(Json({kUpdateInfo, who}).dump());
  if (!status.ok()) return status;
  return tracker;
}

Status Tracker::offer() {
  std::string key = match_key_of(options_.key);
  const Json host =
      options_.advertised_host.empty() ? Json(nullptr) : Json(options_.advertised_host);
  const Json message = {kPut, options_.key, {options_.advertised_port, key}, host};
  Status status = tell(message.dump());
  if (status.ok()) match_key_ = std::move(key);
  return status;
}

Result<bool> Tracker::still_offered() {
  Result<std::string> answer = ask(Json(Json::array({kGetPendingMatchKeys})).dump());
  if (!answer.ok()) return answer.status();
  const Json keys = Json::parse(*answer, nullptr, false);
  if (!keys.is_array()) return Status(Code::kCorrupt, "tracker: found " + *answer);
  for (const Json& key : keys) {
    if (key == match_key_) return true;
  }
  return false;
}

Result<std::string> Tracker::ask(const std::string& message) {
  socket_.allow(kPatience);
  Status status = socket_.write_text(message);
  if (!status.ok()) return status.with_context("tracker");
  Result<std::string> answer = socket_.read_text(kMostBytes);
  if (!answer.ok()) return answer.status().with_context("tracker");
  return answer;
}

Status Tracker::tell(const std::string& message) {
  Result<std::string> answer = ask(message);
  if (!answer.ok()) return answer.status();
  if (Json::parse(*answer, nullptr, false) == kSuccess) return {};
  return Status(Code::kCorrupt, "tracker: found " + *answer + ", expected success");
}

}  // namespace edgepipe::rpc
