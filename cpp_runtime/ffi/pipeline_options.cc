#include "pipeline_options.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace edgepipe::binding {
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
  } else {
    return wrong("found '" + key +
                 "', expected device, serial, pinning, slots, cores or trace_spans");
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

}  // namespace edgepipe::binding
