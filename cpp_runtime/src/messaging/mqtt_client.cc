#include "messaging/mqtt_client.h"

#include <mosquitto.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/loaded_library.h"
#include "base/out_of_memory.h"
#include "edgepipe/sync.h"

namespace edgepipe {
namespace {

constexpr int kKeepAlive_s = 30;
constexpr unsigned kFirstRetry_s = 1;
constexpr unsigned kLastRetry_s = 30;
constexpr int kMostWaiting = 16;  // messages
constexpr std::chrono::milliseconds kFarewell{1000};
constexpr std::chrono::milliseconds kPoll{5};
constexpr const char* kInstall = "install libmosquitto1";
constexpr std::size_t kMostTopic = 65535;

}  // namespace

struct MqttClient::Library {
  ~Library() {
    if (client != nullptr) {
      disconnect(client);
      stop_loop(client, true);
      destroy(client);
    }
    if (cleanup != nullptr) cleanup();
  }

  bool load_all() {
    const auto find = [this](auto& function, const char* name) {
      return find_function(handle.get(), name, function);
    };
    return find(init, "mosquitto_lib_init") && find(create, "mosquitto_new") &&
           find(destroy, "mosquitto_destroy") && find(set_will, "mosquitto_will_set") &&
           find(set_login, "mosquitto_username_pw_set") && find(set_tls, "mosquitto_tls_set") &&
           find(set_delay, "mosquitto_reconnect_delay_set") &&
           find(connect, "mosquitto_connect_async") && find(start_loop, "mosquitto_loop_start") &&
           find(stop_loop, "mosquitto_loop_stop") && find(disconnect, "mosquitto_disconnect") &&
           find(send, "mosquitto_publish") && find(on_connect, "mosquitto_connect_callback_set") &&
           find(on_disconnect, "mosquitto_disconnect_callback_set") &&
           find(on_publish, "mosquitto_publish_callback_set") &&
           find(error_text, "mosquitto_strerror") &&
           find(refusal_text, "mosquitto_connack_string") && find(cleanup, "mosquitto_lib_cleanup");
  }

  /// Calls an event; no exception may reach the library's C code.
  template <typename Event>
  static void tell(const Event& event) {
    static_cast<void>(or_out_of_memory([&] {
      event();
      return Status();
    }));
  }

  static void connected(mosquitto* /*client*/, void* self, int code) {
    auto& library = *static_cast<Library*>(self);
    library.is_connected = code == 0;
    library.tell([&] {
      code == 0 ? library.events.connected() : library.events.refused(library.refusal_text(code));
    });
  }

  static void disconnected(mosquitto* /*client*/, void* self, int code) {
    auto& library = *static_cast<Library*>(self);
    library.waiting = 0;  // the library has dropped them
    if (library.is_connected.exchange(false) && code != 0) {
      library.tell([&] { library.events.lost(library.error_text(code)); });
    }
  }

  static void published(mosquitto* /*client*/, void* self, int /*message*/) {
    --static_cast<Library*>(self)->waiting;
  }

  LoadedLibrary handle;
  decltype(&::mosquitto_lib_init) init = nullptr;
  decltype(&::mosquitto_lib_cleanup) cleanup = nullptr;
  decltype(&::mosquitto_new) create = nullptr;
  decltype(&::mosquitto_destroy) destroy = nullptr;
  decltype(&::mosquitto_will_set) set_will = nullptr;
  decltype(&::mosquitto_username_pw_set) set_login = nullptr;
  decltype(&::mosquitto_tls_set) set_tls = nullptr;
  decltype(&::mosquitto_reconnect_delay_set) set_delay = nullptr;
  decltype(&::mosquitto_connect_async) connect = nullptr;
  decltype(&::mosquitto_loop_start) start_loop = nullptr;
  decltype(&::mosquitto_loop_stop) stop_loop = nullptr;
  decltype(&::mosquitto_disconnect) disconnect = nullptr;
  decltype(&::mosquitto_publish) send = nullptr;
  decltype(&::mosquitto_connect_callback_set) on_connect = nullptr;
  decltype(&::mosquitto_disconnect_callback_set) on_disconnect = nullptr;
  decltype(&::mosquitto_publish_callback_set) on_publish = nullptr;
  decltype(&::mosquitto_strerror) error_text = nullptr;
  decltype(&::mosquitto_connack_string) refusal_text = nullptr;

  Events events;
  mosquitto* client = nullptr;
  std::atomic<bool> is_connected{false};
  std::atomic<int> waiting{0};  // messages that are not sent yet
};

MqttClient::MqttClient(std::unique_ptr<Library> library) : library_(std::move(library)) {}

Result<std::unique_ptr<MqttClient>> MqttClient::start(const Options& options, Events events) {
  const std::string lacking = "libmosquitto.so.1 cannot be loaded, it is needed for MQTT";
  auto library = std::make_unique<Library>();
  Result<LoadedLibrary> loaded =
      load_library("libmosquitto.so.1", Code::kUnsupported, lacking).advised(kInstall);
  if (!loaded.ok()) return loaded.status();
  library->handle = *std::move(loaded);
  if (!library->load_all()) return Status(Code::kUnsupported, lacking, kInstall);
  library->events = std::move(events);
  library->init();
  library->client = library->create(nullptr, true, library.get());
  if (library->client == nullptr) {
    return Status(Code::kOutOfMemory, "libmosquitto could not start");
  }
  mosquitto* const client = library->client;
  const auto check = [&](int code, const std::string& what, Code kind) {
    if (code == MOSQ_ERR_SUCCESS) return Status();
    return Status(kind, what + ": " + library->error_text(code));
  };
  Status status =
      check(library->set_will(client, options.will_topic.c_str(),
                              static_cast<int>(options.will.size()), options.will.data(), 1, true),
            options.will_topic, Code::kInvalidArgument);
  if (status.ok() && !options.user.empty()) {
    status = check(library->set_login(client, options.user.c_str(), options.password.c_str()),
                   "MQTT", Code::kInvalidArgument);
  }
  if (status.ok() && !options.authorities.empty()) {
    status = check(library->set_tls(client, options.authorities.c_str(), nullptr, nullptr, nullptr,
                                    nullptr),
                   options.authorities, Code::kInvalidArgument)
                 .advised("give a file of certificates in PEM format");
  }
  if (!status.ok()) return status;
  library->on_connect(client, &Library::connected);
  library->on_disconnect(client, &Library::disconnected);
  library->on_publish(client, &Library::published);
  library->set_delay(client, kFirstRetry_s, kLastRetry_s, true);
  // An error here is that of the first attempt; the library's thread repeats it.
  static_cast<void>(library->connect(client, options.host.c_str(), options.port, kKeepAlive_s));
  status = check(library->start_loop(client), "MQTT", Code::kInternal);
  if (!status.ok()) return status;
  return std::unique_ptr<MqttClient>(new MqttClient(std::move(library)));
}

MqttClient::~MqttClient() {
  const Clock::time_point end = Clock::now() + kFarewell;
  while (library_->is_connected && library_->waiting > 0 && Clock::now() < end) {
    std::this_thread::sleep_for(kPoll);
  }
}

bool MqttClient::publish(const std::string& topic, std::string_view payload, Kind kind) {
  const bool retained = kind == Kind::kRetained;
  if (!library_->is_connected) return false;
  if (!retained && library_->waiting >= kMostWaiting) return false;
  ++library_->waiting;
  const int code =
      library_->send(library_->client, nullptr, topic.c_str(), static_cast<int>(payload.size()),
                     payload.data(), retained ? 1 : 0, retained);
  if (code != MOSQ_ERR_SUCCESS) --library_->waiting;
  return code == MOSQ_ERR_SUCCESS;
}

bool MqttClient::is_connected() const { return library_->is_connected; }

bool MqttClient::is_topic(std::string_view topic) {
  if (topic.empty() || topic.size() > kMostTopic) return false;
  return topic.find_first_of(std::string_view("+#\0", 3)) == std::string_view::npos;
}

}  // namespace edgepipe
