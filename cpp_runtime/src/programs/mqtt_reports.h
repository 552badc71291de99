// MqttReports: results, figures and state of a running program, as messages to an MQTT broker.
//
//   Result<std::unique_ptr<MqttReports>> reports = MqttReports::start(options, about, figures);
//   (*reports)->result(json_line);   // for every frame
//
// Below the topic, say edgepipe/door:
//
//   state        online or offline, retained; the broker itself says offline when the program dies
//   result       the JSON line of a frame, at most `rate` per second: the newest
//   statistics   the figures of `edgepipe top`, every ten seconds
//
// For Home Assistant, retained messages below homeassistant/ describe them as sensors of a device.
// docs/guides/mqtt.md explains all of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread.h"
#include "edgepipe/status.h"
#include "edgepipe/sync.h"
#include "messaging/mqtt_client.h"

namespace edgepipe {

struct MqttSensor;

class MqttReports {
 public:
  struct Options {
    std::string host;        // empty: no reports
    int port = 0;            // 0: 1883, or 8883 with TLS
    std::string topic = {};  // empty: edgepipe/HOSTNAME
    std::string login_file = {};
    std::string authorities = {};  // file of certificates; use TLS
    double results_per_second = 10;
    bool home_assistant = false;
  };

  /// What reports are about.
  struct About {
    std::string network;
    std::vector<std::string> labels;  // each gets a sensor that counts its boxes
  };

  /// Returns one JSON object; called on another thread.
  using Figures = std::function<std::string()>;

  /// Does not wait for the broker: what happens before it answers is not reported. Errors as
  /// MqttClient::start; kNotFound, kInvalidArgument for the file with the login.
  static Result<std::unique_ptr<MqttReports>> start(Options options, About about, Figures figures);

  /// Says that the program is offline, and disconnects, within two seconds.
  ~MqttReports();
  MqttReports(const MqttReports&) = delete;
  MqttReports& operator=(const MqttReports&) = delete;

  /// Reports a frame's JSON line unless a newer one comes first. Does not block. Any thread.
  void result(std::string_view line) EDGEPIPE_EXCLUDES(mutex_);

 private:
  MqttReports(Options options, About about, Figures figures);
  Status connect();
  void greet();
  void describe_results(const std::string& line);
  void describe(const MqttSensor& sensor);
  void work() EDGEPIPE_EXCLUDES(mutex_);
  void tell(const std::string& text) EDGEPIPE_EXCLUDES(mutex_);
  void tell_of_silence() EDGEPIPE_EXCLUDES(mutex_);
  [[nodiscard]] std::string broker() const;
  [[nodiscard]] std::string topic(std::string_view name) const;

  Options options_;
  About about_;
  Figures figures_;
  std::string device_id_;

  Mutex mutex_;
  CondVar changed_;
  bool ending_ EDGEPIPE_GUARDED_BY(mutex_) = false;
  std::string line_ EDGEPIPE_GUARDED_BY(mutex_);     // the newest; empty: reported
  bool greets_ EDGEPIPE_GUARDED_BY(mutex_) = false;  // there is a new connection
  std::string told_ EDGEPIPE_GUARDED_BY(mutex_);     // the last text, which is not repeated
  bool described_ = false;                           // the results; only the reporting thread

  std::unique_ptr<MqttClient> client_;
  std::optional<Thread> thread_;  // destroyed first
};

}  // namespace edgepipe
