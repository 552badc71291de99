// The topics that a message can have; tests/edgepipe/runtime/test_mqtt.py runs a real broker.
#include "messaging/mqtt_client.h"

#include <gtest/gtest.h>

namespace edgepipe {
namespace {

TEST(MqttClientTest, ATopicHasNoWildcards) {
  EXPECT_TRUE(MqttClient::is_topic("edgepipe/door"));
  for (const char* topic : {"", "edgepipe/#", "edgepipe/+/state"}) {
    EXPECT_FALSE(MqttClient::is_topic(topic)) << topic;
  }
  EXPECT_FALSE(MqttClient::is_topic(std::string_view("a\0b", 3)));
  EXPECT_FALSE(MqttClient::is_topic(std::string(65536, 'a')));
}

}  // namespace
}  // namespace edgepipe
