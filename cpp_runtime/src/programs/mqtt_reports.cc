#include "programs/mqtt_reports.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/console.h"
#include "base/out_of_memory.h"
#include "base/secret_file.h"
#include "bundle/fingerprint.h"

namespace edgepipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kStatisticsPeriod{10};
constexpr std::size_t kMostLogin = 4096;  // bytes of the file
constexpr const char* kLoginAdvice = "write two lines: the user's name and the password";
constexpr const char* kPrefix = "homeassistant";  // Home Assistant's default

std::string dump(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// This machine's name, or "board".
std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "board";
}

/// The text with everything replaced that an identifier in a topic must not have.
std::string identifier(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '_');
  return text;
}

Status read_login(const std::string& path, MqttClient::Options& options) {
  Result<std::string> content = read_secret_file(path, kMostLogin, kLoginAdvice);
  if (!content.ok()) return content.status();
  const std::size_t first = content->find('\n');
  const auto without_return = [](std::string text) {
    if (text.ends_with('\r')) text.pop_back();
    return text;
  };
  options.user = without_return(content->substr(0, first));
  if (first != std::string::npos) {
    const std::size_t second = std::min(content->find('\n', first + 1), content->size());
    options.password = without_return(content->substr(first + 1, second - first - 1));
  }
  if (options.user.empty() || first == std::string::npos) {
    return Status(Code::kInvalidArgument, path + ": found no two lines", kLoginAdvice);
  }
  return {};
}

}  // namespace

/// What Home Assistant shows as one value of the device. `value` is a Jinja template for a message
/// of `topic`.
struct MqttSensor {
  std::string_view id;
  std::string_view name;
  std::string_view topic;
  std::string_view value;
  std::string_view unit = {};
  bool is_problem = false;  // on or off
  bool is_text = false;
};

namespace {

constexpr std::string_view kState = "state";
constexpr std::string_view kStatistics = "statistics";
constexpr std::string_view kResult = "result";

constexpr std::array<MqttSensor, 3> kFigures{
    {{.id = "frames_per_second",
      .name = "Frames per second",
      .topic = kStatistics,
      .value = "{{ value_json.pipeline.frames_per_second | round(1) }}",
      .unit = "fps"},
     {.id = "latency",
      .name = "Latency, 95th percentile",
      .topic = kStatistics,
      .value = "{{ value_json.pipeline.latency.p95_ms | round(1) }}",
      .unit = "ms"},
     {.id = "camera_fails",
      .name = "Camera fails",
      .topic = kStatistics,
      .value = "{{ 'ON' if value_json.source.outage_s > 0 else 'OFF' }}",
      .is_problem = true}}};
constexpr MqttSensor kObjects{.id = "objects",
                              .name = "Objects",
                              .topic = kResult,
                              .value = "{{ value_json.detections | count }}"};
constexpr MqttSensor kClass{.id = "class",
                            .name = "Class",
                            .topic = kResult,
                            .value = "{{ (value_json.classes | first).label }}",
                            .is_text = true};
constexpr MqttSensor kText{.id = "text",
                           .name = "Text",
                           .topic = kResult,
                           .value = "{{ value_json.text }}",
                           .is_text = true};

}  // namespace

std::string MqttReports::broker() const {
  return options_.host + ":" + std::to_string(options_.port);
}

std::string MqttReports::topic(std::string_view name) const {
  return options_.topic + "/" + std::string(name);
}

MqttReports::MqttReports(Options options, About about, Figures figures)
    : options_(std::move(options)), about_(std::move(about)), figures_(std::move(figures)) {
  if (options_.topic.empty()) options_.topic = "edgepipe/" + identifier(host_name());
  if (options_.port == 0) options_.port = options_.authorities.empty() ? 1883 : 8883;
  device_id_ = identifier(options_.topic);
}

Result<std::unique_ptr<MqttReports>> MqttReports::start(Options options, About about,
                                                        Figures figures) {
  std::unique_ptr<MqttReports> reports(
      new MqttReports(std::move(options), std::move(about), std::move(figures)));
  if (Status status = reports->connect(); !status.ok()) return status;
  Result<Thread> thread =
      Thread::start({.name = "mqtt", .cores = {}}, [raw = reports.get()] { raw->work(); });
  if (!thread.ok()) return thread.status();
  reports->thread_.emplace(std::move(*thread));
  return reports;
}

Status MqttReports::connect() {
  MqttClient::Options options{.host = options_.host,
                              .port = options_.port,
                              .authorities = options_.authorities,
                              .will_topic = topic(kState),
                              .will = "offline"};
  if (!options_.login_file.empty()) {
    if (Status status = read_login(options_.login_file, options); !status.ok()) return status;
  }
  MqttClient::Events events{
      .connected =
          [this] {
            tell("MQTT: connected to " + broker());
            MutexLock lock(mutex_);
            greets_ = true;
            changed_.notify();
          },
      .refused = [this](const std::string& reason) { tell("MQTT: " + broker() + ": " + reason); },
      .lost =
          [this](const std::string& reason) {
            tell("MQTT: " + broker() + ": " + reason + "; tries to connect again");
          }};
  Result<std::unique_ptr<MqttClient>> client = MqttClient::start(options, std::move(events));
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  return {};
}

MqttReports::~MqttReports() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify();
  }
  if (thread_) thread_->join();
  if (client_) client_->publish(topic(kState), "offline", MqttClient::Kind::kRetained);
}

void MqttReports::result(std::string_view line) {
  MutexLock lock(mutex_);
  line_ = line;
  changed_.notify();
}

/// Prints a text, unless it is the last one again: a broker that refuses does so every time.
void MqttReports::tell(const std::string& text) {
  {
    MutexLock lock(mutex_);
    if (told_ == text) return;
    told_ = text;
  }
  print_line(stderr, text);
}

/// A broker that cannot be reached causes no event.
void MqttReports::tell_of_silence() {
  {
    MutexLock lock(mutex_);
    if (!told_.empty()) return;
  }
  tell("MQTT: " + broker() + ": no connection yet; goes on trying");
}

/// The body of the reporting thread.
void MqttReports::work() {
  const auto between = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(1 / options_.results_per_second));
  Clock::time_point result_due = Clock::now();
  Clock::time_point statistics_due = result_due + kStatisticsPeriod;
  for (;;) {
    std::string line;
    bool greets = false;
    {
      MutexLock lock(mutex_);
      const auto has_work = [&]() EDGEPIPE_REQUIRES(mutex_) {
        const Clock::time_point now = Clock::now();
        return ending_ || greets_ || now >= statistics_due || (!line_.empty() && now >= result_due);
      };
      while (!has_work()) {
        changed_.wait_until(lock,
                            line_.empty() ? statistics_due : std::min(statistics_due, result_due));
      }
      if (ending_) return;
      greets = std::exchange(greets_, false);
      if (Clock::now() >= result_due) line.swap(line_);
    }
    const Status status = or_out_of_memory([&] {
      if (greets) greet();
      if (!line.empty()) {
        result_due = Clock::now() + between;
        describe_results(line);
        client_->publish(topic(kResult), line, MqttClient::Kind::kNewest);
      }
      if (greets || Clock::now() >= statistics_due) {
        statistics_due = Clock::now() + kStatisticsPeriod;
        client_->publish(topic(kStatistics), figures_(), MqttClient::Kind::kNewest);
        if (!client_->is_connected()) tell_of_silence();
      }
      return Status();
    });
    static_cast<void>(status.ok());  // without memory, one report is missing
  }
}

/// Says that the program runs, and what its figures are.
void MqttReports::greet() {
  described_ = false;
  client_->publish(topic(kState), "online", MqttClient::Kind::kRetained);
  if (!options_.home_assistant) return;
  for (const MqttSensor& sensor : kFigures) describe(sensor);
}

/// Describes results, once for each connection: their keys depend on the network.
void MqttReports::describe_results(const std::string& line) {
  if (!options_.home_assistant || std::exchange(described_, true)) return;
  const Json keys = Json::parse(line, nullptr, false);
  if (keys.contains("detections")) {
    describe(kObjects);
    for (const std::string& label : about_.labels) {
      const std::string id = "count_" + identifier(label);
      const std::string name = "Number of " + label;
      const std::string value = "{{ value_json.detections | selectattr('label', 'eq', " +
                                dump(label) + ") | list | count }}";
      describe(MqttSensor{.id = id, .name = name, .topic = kResult, .value = value});
    }
  } else if (keys.contains("classes")) {
    describe(kClass);
  } else if (keys.contains("text")) {
    describe(kText);
  }
}

/// Describes a sensor as Home Assistant expects it (MQTT discovery).
void MqttReports::describe(const MqttSensor& sensor) {
  const std::string id(sensor.id);
  Json config = {{"name", sensor.name},
                 {"unique_id", device_id_ + "_" + id},
                 {"state_topic", topic(sensor.topic)},
                 {"value_template", sensor.value},
                 {"availability_topic", topic(kState)},
                 {"device",
                  {{"identifiers", Json::array({device_id_})},
                   {"name", options_.topic},
                   {"manufacturer", "edgepipe"},
                   {"model", about_.network},
                   {"sw_version", kVersion}}}};
  if (!sensor.unit.empty()) config["unit_of_measurement"] = sensor.unit;
  if (sensor.is_problem) config["device_class"] = "problem";
  if (!sensor.is_problem && !sensor.is_text) config["state_class"] = "measurement";
  const std::string kind = sensor.is_problem ? "binary_sensor" : "sensor";
  client_->publish(std::string(kPrefix) + "/" + kind + "/" + device_id_ + "/" + id + "/config",
                   dump(config), MqttClient::Kind::kRetained);
}

}  // namespace edgepipe
