// MqttClient: a connection to an MQTT broker, through libmosquitto if it is installed.
//
//   Result<std::unique_ptr<MqttClient>> client = MqttClient::start({.host = "broker"}, events);
//   bool sent = (*client)->publish("door/result", line, MqttClient::Kind::kNewest);
//
// The library's own thread connects, also again after an outage, and sends. Nothing blocks, and
// nothing is kept for later: what cannot be sent at once is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

class MqttClient {
 public:
  struct Options {
    std::string host;
    int port = 1883;
    std::string user = {};  // empty: none
    std::string password = {};
    std::string authorities = {};  // file of trusted certificates: use TLS; empty: do not
    std::string will_topic;        // gets `will` when the connection is lost
    std::string will;
  };

  /// Called on the library's thread; must not block.
  struct Events {
    std::function<void()> connected;
    std::function<void(const std::string& reason)> refused;  // by the broker
    std::function<void(const std::string& reason)> lost;
  };

  enum class Kind {
    kNewest,    // of no use later: sent at most once
    kRetained,  // the broker keeps it for later subscribers
  };

  /// Starts to connect and does not wait for it. kUnsupported if libmosquitto is missing,
  /// kInvalidArgument for a file of certificates that it does not read.
  static Result<std::unique_ptr<MqttClient>> start(const Options& options, Events events);

  /// Sends what is under way, for at most a second, and disconnects.
  ~MqttClient();
  MqttClient(const MqttClient&) = delete;
  MqttClient& operator=(const MqttClient&) = delete;

  /// False if there is no connection, or if messages wait for a slow broker. Any thread.
  bool publish(const std::string& topic, std::string_view payload, Kind kind);

  [[nodiscard]] bool is_connected() const;

  /// Whether `topic` is one that a message can have: no + or #, UTF-8, at most 65535 bytes. Does
  /// not need the library.
  static bool is_topic(std::string_view topic);

 private:
  struct Library;
  explicit MqttClient(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

}  // namespace edgepipe
