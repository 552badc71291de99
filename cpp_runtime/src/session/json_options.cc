#include "session/json_options.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace edgepipe {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, Pipeline::Pinning>, 3> kPinnings = {
    {{"required", Pipeline::Pinning::kRequired},
     {"preferred", Pipeline::Pinning::kPreferred},
     {"off", Pipeline::Pinning::kOff}}};

Status wrong(const std::string& what) {
  return {Code::kInvalidArgument, "pipeline options: " + what};
}

Status read_count(const std::string& key, const Json& value, std::size_t& count) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto found = value.get<std::int64_t>();
  if (found < 0 || found > kMost) {
    return wrong(key + ": found " + std::to_string(found) + ", expected 0 to " +
                 std::to_string(kMost));
  }
  count = static_cast<std::size_t>(found);
  return {};
}

Status read(const std::string& key, const Json& value, Session::Options& options) {
  if (key == "device") {
    Result<DeviceChoice> choice = DeviceRegistry::instance().parse(value.get<std::string>());
    if (!choice.ok()) return choice.status();
    options.device = *std::move(choice);
  } else if (key == "serial") {
    options.pipeline.mode =
        value.get<bool>() ? Pipeline::Mode::kSerial : Pipeline::Mode::kPipelined;
  } else if (key == "pinning") {
    for (const auto& [name, pinning] : kPinnings) {
      if (value == name) {
        options.pipeline.pinning = pinning;
        return {};
      }
    }
    return wrong("found pinning " + value.dump() + ", expected required, preferred or off");
  } else if (key == "slots") {
    return read_count(key, value, options.pipeline.slots);
  } else if (key == "cores") {
    for (const int core : value.get<std::vector<int>>()) {
      options.pipeline.threads.push_back({.cores = {core}});
    }
  } else if (key == "trace_spans") {
    return read_count(key, value, options.pipeline.trace_spans);
  } else if (key == "device_timeout_s") {
    const double seconds = value.get<double>();
    if (!(seconds >= 0.001 && seconds <= 1e6)) {
      return wrong(key + ": found " + value.dump() + ", expected seconds from 0.001 to 1000000");
    }
    options.device_time_limit = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  } else if (key == "device_hangs") {
    const auto found = value.get<std::array<std::int64_t, 2>>();
    constexpr std::int64_t kMostRuns = 10'000;
    if (found[0] < 1 || found[0] > found[1] || found[1] > kMostRuns) {
      return wrong(key + ": found " + value.dump() +
                   ", expected hangs and runs, at least 1 hang in at most 10000 runs");
    }
    options.pipeline.faults.most_hangs = static_cast<std::size_t>(found[0]);
    options.pipeline.faults.runs = static_cast<std::size_t>(found[1]);
  } else if (key == "device_trial") {
    return read_count(key, value, options.pipeline.faults.trial_frames);
  } else if (key == "leaves_python") {
    options.results.leaves_python = value.get<bool>();
  } else {
    return wrong("found '" + key +
                 "', expected device, serial, pinning, slots, cores, trace_spans, "
                 "device_timeout_s, device_hangs, device_trial or leaves_python");
  }
  return {};
}

}  // namespace

Result<Session::Options> parse_options(std::string_view text) {
  Session::Options options;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return wrong("found '" + std::string(text) + "', expected a JSON object");
  for (const auto& [key, value] : json.items()) {
    try {
      if (Status status = read(key, value, options); !status.ok()) return status;
    } catch (const Json::exception&) {
      return wrong(key + ": found " + value.dump() + ", expected another type");
    }
  }
  return options;
}

}  // namespace edgepipe
