#include <gmock/gmock.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "box_bundle.h"
#include "element_harness.h"

namespace edgepipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kCaps = "video/x-raw,format=BGR,width=8,height=8,framerate=10/1";
constexpr BoxPicture kCat{.left = 2, .top = 1, .right = 5, .bottom = 5};
constexpr BoxPicture kFailing{.fails = true};

/// The element in PLAYING between the harness's pads, with caps and a segment.
class InferenceElementTest : public ::testing::Test {
 protected:
  void SetUp() override { bundle_ = scratch_.write_folder("box", box_bundle()); }

  static ElementPointer make_element() {
    return ElementPointer(
        GST_ELEMENT(gst_object_ref_sink(gst_element_factory_make("edgepipe", "edgepipe0"))));
  }

  ElementPointer element_for(const std::string& bundle) {
    ElementPointer element = make_element();
    g_object_set(element.get(), "bundle", bundle.c_str(), nullptr);
    bus_.reset(gst_bus_new());
    gst_element_set_bus(element.get(), bus_.get());
    return element;
  }

  void start(guint slots = 3) {
    element_ = element_for(bundle_.string());
    g_object_set(element_.get(), "slots", slots, nullptr);
    harness_.reset(gst_harness_new_with_element(element_.get(), "sink", "src"));
    gst_harness_set_src_caps_str(harness_.get(), kCaps);
    gst_harness_play(harness_.get());
  }

  void TearDown() override {
    harness_.reset();
    gst_bus_set_flushing(bus_.get(), TRUE);  // its messages keep their element, which keeps the bus
    if (!element_) return;
    gst_element_set_state(element_.get(), GST_STATE_NULL);
    gst_element_set_bus(element_.get(), nullptr);
  }

  GstFlowReturn push(const BoxPicture& picture, guint64 number) {
    return gst_harness_push(harness_.get(), buffer_of(picture, number));
  }

  BufferPointer pull() { return BufferPointer(gst_harness_pull(harness_.get())); }

  guint64 count(const char* property) {
    guint64 value = 0;
    g_object_get(element_.get(), property, &value, nullptr);
    return value;
  }

  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    for (const MessagePointer& message : messages(bus_.get(), GST_MESSAGE_ERROR)) {
      texts.push_back(error_text(message.get()));
    }
    return texts;
  }

  /// Waits, at most 5 s, for what another thread does.
  static bool becomes(const std::function<bool()>& condition) {
    for (int left = 1000; left > 0; --left) {
      if (condition()) return true;
      g_usleep(5000);
    }
    return false;
  }

  ScratchFolder scratch_;
  std::filesystem::path bundle_;
  BusPointer bus_;
  ElementPointer element_;
  HarnessPointer harness_;
};

TEST_F(InferenceElementTest, ABoxIsARegionOfItsFrameAndInItsMessage) {
  start();
  EXPECT_EQ(push(kCat, 0), GST_FLOW_OK);
  EXPECT_EQ(push({}, 1), GST_FLOW_OK);
  EXPECT_EQ(push({.left = 0, .top = 4, .right = 8, .bottom = 6, .label = 1}, 2), GST_FLOW_OK);
  EXPECT_THAT(regions(pull().get()), ElementsAre("cat 2,1 3x4 0.75"));
  EXPECT_THAT(regions(pull().get()), ElementsAre());
  const BufferPointer last = pull();
  EXPECT_THAT(regions(last.get()), ElementsAre("dog 0,4 8x2 0.75"));
  EXPECT_EQ(GST_BUFFER_PTS(last.get()), 200 * GST_MSECOND);
  EXPECT_EQ(count("processed"), 3u);

  const auto results = messages(bus_.get(), GST_MESSAGE_ELEMENT);
  ASSERT_EQ(results.size(), 3u);
  const GstStructure* const result = gst_message_get_structure(results[2].get());
  EXPECT_STREQ(gst_structure_get_name(result), "edgepipe-result");
  guint64 timestamp = 0;
  guint64 running = 0;
  guint64 frame = 0;
  gst_structure_get(result, "timestamp", G_TYPE_UINT64, &timestamp, "running-time", G_TYPE_UINT64,
                    &running, "frame", G_TYPE_UINT64, &frame, nullptr);
  EXPECT_EQ(timestamp, 200 * GST_MSECOND);
  EXPECT_EQ(running, 200 * GST_MSECOND);
  EXPECT_EQ(frame, 2u);
  const auto line = nlohmann::json::parse(gst_structure_get_string(result, "json"));
  EXPECT_EQ(line["detections"][0]["label"], "dog");
  EXPECT_EQ(line["detections"][0]["box"], nlohmann::json({0.0, 4.0, 8.0, 6.0}));
}

TEST_F(InferenceElementTest, WithoutMessagesOnlyTheFramesHaveResults) {
  start();
  g_object_set(element_.get(), "messages", FALSE, nullptr);
  push(kCat, 0);
  EXPECT_EQ(regions(pull().get()).size(), 1u);
  EXPECT_TRUE(messages(bus_.get(), GST_MESSAGE_ELEMENT).empty());
}

TEST_F(InferenceElementTest, PixelsAreNeitherChangedNorCopied) {
  start();
  GstBuffer* const sent = buffer_of(kCat, 0);
  const GstMemory* const memory = gst_buffer_peek_memory(sent, 0);
  gst_harness_push(harness_.get(), sent);
  EXPECT_EQ(gst_buffer_peek_memory(pull().get(), 0), memory);
}

TEST_F(InferenceElementTest, ABufferThatOthersKeepGetsNoRegionsOfOurs) {
  start();
  const BufferPointer kept(buffer_of(kCat, 0));
  gst_harness_push(harness_.get(), gst_buffer_ref(kept.get()));
  const BufferPointer pulled = pull();
  EXPECT_EQ(regions(pulled.get()).size(), 1u);
  EXPECT_EQ(regions(kept.get()).size(), 0u);
  EXPECT_EQ(gst_buffer_peek_memory(pulled.get(), 0), gst_buffer_peek_memory(kept.get(), 0));
}

TEST_F(InferenceElementTest, StagesWorkOnSeveralFramesAndKeepTheirOrder) {
  constexpr int kFrames = 8;
  constexpr std::uint8_t kStage_ms = 25;
  start(4);
  const auto begin = std::chrono::steady_clock::now();
  for (int frame = 0; frame < kFrames; ++frame) {
    push({.stage_ms = kStage_ms}, static_cast<guint64>(frame));
  }
  for (guint64 frame = 0; frame < kFrames; ++frame) {
    EXPECT_EQ(GST_BUFFER_PTS(pull().get()), frame * 100 * GST_MSECOND);
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken, std::chrono::milliseconds(2 * kStage_ms * kFrames * 9 / 10));
}

TEST_F(InferenceElementTest, TheEndOfTheStreamComesAfterTheLastFrame) {
  start(4);
  for (guint64 frame = 0; frame < 3; ++frame) push({.stage_ms = 20}, frame);
  gst_harness_push_event(harness_.get(), gst_event_new_eos());
  while (true) {
    const EventPointer event(gst_harness_pull_event(harness_.get()));
    ASSERT_TRUE(event);
    if (GST_EVENT_TYPE(event.get()) == GST_EVENT_EOS) break;
  }
  EXPECT_EQ(gst_harness_buffers_received(harness_.get()), 3u);
}

TEST_F(InferenceElementTest, AFlushDropsWhatIsInFlight) {
  start(2);
  push({.stage_ms = 200}, 0);
  push({.stage_ms = 200}, 1);
  gst_harness_push_event(harness_.get(), gst_event_new_flush_start());
  EXPECT_EQ(push(kCat, 2), GST_FLOW_FLUSHING);
  gst_harness_push_event(harness_.get(), gst_event_new_flush_stop(TRUE));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  gst_harness_push_event(harness_.get(), gst_event_new_segment(&segment));
  EXPECT_EQ(push(kCat, 3), GST_FLOW_OK);
  const BufferPointer first = pull();
  EXPECT_EQ(GST_BUFFER_PTS(first.get()), 300 * GST_MSECOND);
  EXPECT_EQ(regions(first.get()).size(), 1u);
  EXPECT_EQ(gst_harness_buffers_received(harness_.get()), 1u);
}

TEST_F(InferenceElementTest, AFlushWakesAFullElement) {
  start(1);
  push({.stage_ms = 250}, 0);
  GstFlowReturn pushed = GST_FLOW_OK;
  std::thread blocked([&] { pushed = push({.stage_ms = 250}, 1); });
  g_usleep(20'000);
  gst_harness_push_event(harness_.get(), gst_event_new_flush_start());
  blocked.join();
  EXPECT_EQ(pushed, GST_FLOW_FLUSHING);
}

TEST_F(InferenceElementTest, LateFramesAreDroppedAndCounted) {
  start();
  push(kCat, 0);
  pull();
  gst_harness_push_upstream_event(
      harness_.get(),
      gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1.5, 150 * GST_MSECOND, 100 * GST_MSECOND));
  push(kCat, 1);
  push(kCat, 2);
  push(kCat, 3);
  const BufferPointer next = pull();
  EXPECT_EQ(GST_BUFFER_PTS(next.get()), 300 * GST_MSECOND);
  EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(next.get(), GST_BUFFER_FLAG_DISCONT));
  EXPECT_EQ(count("dropped"), 2u);
  EXPECT_EQ(count("processed"), 2u);

  const auto told = messages(bus_.get(), GST_MESSAGE_QOS);
  ASSERT_EQ(told.size(), 2u);
  GstFormat format = GST_FORMAT_UNDEFINED;
  guint64 processed = 0;
  guint64 dropped = 0;
  gst_message_parse_qos_stats(told[1].get(), &format, &processed, &dropped);
  EXPECT_EQ(format, GST_FORMAT_BUFFERS);
  EXPECT_EQ(processed, 1u);
  EXPECT_EQ(dropped, 2u);
  guint64 timestamp = 0;
  gst_message_parse_qos(told[1].get(), nullptr, nullptr, nullptr, &timestamp, nullptr);
  EXPECT_EQ(timestamp, 200 * GST_MSECOND);
}

TEST_F(InferenceElementTest, WithoutQosLateFramesAreKept) {
  start();
  g_object_set(element_.get(), "qos", FALSE, nullptr);
  gst_harness_push_upstream_event(
      harness_.get(), gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1.5, GST_SECOND, GST_SECOND));
  push(kCat, 0);
  EXPECT_EQ(GST_BUFFER_PTS(pull().get()), 0u);
  EXPECT_EQ(count("dropped"), 0u);
}

TEST_F(InferenceElementTest, ItPlaysAgainAfterReady) {
  start();
  push(kCat, 0);
  pull();
  push({.stage_ms = 100}, 1);
  gst_element_set_state(element_.get(), GST_STATE_READY);
  EXPECT_EQ(push(kCat, 2), GST_FLOW_FLUSHING);
  gst_element_set_state(element_.get(), GST_STATE_PLAYING);
  EXPECT_EQ(count("processed"), 0u);
  gst_harness_set_src_caps_str(harness_.get(), kCaps);
  EXPECT_EQ(push(kCat, 3), GST_FLOW_OK);
  EXPECT_EQ(GST_BUFFER_PTS(pull().get()), 300 * GST_MSECOND);
  EXPECT_EQ(count("processed"), 1u);
  EXPECT_TRUE(errors().empty());
}

TEST_F(InferenceElementTest, ChangedPropertiesCountFromTheNextPausedOn) {
  start();
  push(kCat, 0);
  EXPECT_EQ(regions(pull().get()).size(), 1u);
  gst_element_set_state(element_.get(), GST_STATE_READY);
  g_object_set(element_.get(), "labels", "dog", "score", 0.5, nullptr);
  gst_element_set_state(element_.get(), GST_STATE_PLAYING);
  gst_harness_set_src_caps_str(harness_.get(), kCaps);
  push(kCat, 1);
  EXPECT_EQ(regions(pull().get()).size(), 0u);
}

TEST_F(InferenceElementTest, AFailedStageIsOneErrorAndTheEndOfTheStream) {
  start();
  push(kCat, 0);
  push(kFailing, 1);
  EXPECT_TRUE(becomes([&] { return push(kCat, 2) == GST_FLOW_ERROR; }));
  EXPECT_EQ(regions(pull().get()).size(), 1u);
  const auto texts = errors();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], HasSubstr("look: the picture says so"));
  EXPECT_THAT(texts[0], HasSubstr("frame 1"));
  // What follows must not wait for more.
  EXPECT_TRUE(becomes([&] {
    const EventPointer event(gst_harness_try_pull_event(harness_.get()));
    return event && GST_EVENT_TYPE(event.get()) == GST_EVENT_EOS;
  }));
  // A new start is a new chance.
  gst_element_set_state(element_.get(), GST_STATE_READY);
  gst_element_set_state(element_.get(), GST_STATE_PLAYING);
  gst_harness_set_src_caps_str(harness_.get(), kCaps);
  EXPECT_EQ(push(kCat, 3), GST_FLOW_OK);
}

TEST_F(InferenceElementTest, TheReasonOfTheNextElementReachesTheSource) {
  start();
  gst_pad_set_chain_function(harness_->sinkpad, [](GstPad*, GstObject*, GstBuffer* buffer) {
    gst_buffer_unref(buffer);
    return GST_FLOW_EOS;
  });
  EXPECT_TRUE(becomes([&] { return push(kCat, 0) == GST_FLOW_EOS; }));
  EXPECT_TRUE(errors().empty());
}

TEST_F(InferenceElementTest, ABufferThatIsTooSmallIsRefused) {
  start();
  GstBuffer* const small = gst_buffer_new_allocate(nullptr, 10, nullptr);
  EXPECT_EQ(gst_harness_push(harness_.get(), small), GST_FLOW_ERROR);
  EXPECT_THAT(errors(),
              ElementsAre("edgepipe0: found a buffer of 10 bytes that cannot be read, expected a "
                          "picture of 192 bytes in system memory\n"
                          "hint: put videoconvert before this element, which copies pictures of "
                          "other memory"));
}

TEST_F(InferenceElementTest, WithoutABundleThereIsOneErrorWithAHint) {
  const ElementPointer element = element_for("");
  EXPECT_EQ(gst_element_set_state(element.get(), GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_THAT(errors(),
              ElementsAre("the property 'bundle': found nothing, expected the path of a bundle\n"
                          "hint: set it, for example to net.edgepipe from `edgepipe build "
                          "net.onnx`"));
  gst_element_set_state(element.get(), GST_STATE_NULL);
}

TEST_F(InferenceElementTest, AMissingOrDamagedBundleIsOneErrorWithAHint) {
  ElementPointer element = element_for("/nowhere/net.edgepipe");
  EXPECT_EQ(gst_element_set_state(element.get(), GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  EXPECT_THAT(errors(), ElementsAre("/nowhere/net.edgepipe: no such bundle\n"
                                    "hint: check the name; `edgepipe build` makes bundles"));
  Files damaged = box_bundle();
  damaged["labels.txt"] = "cat\ncow\n";
  element = element_for(scratch_.write_folder("damaged", damaged).string());
  EXPECT_EQ(gst_element_set_state(element.get(), GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  EXPECT_THAT(errors(),
              ElementsAre(EndsWith("labels.txt does not have the digest that the manifest "
                                   "records\nhint: the bundle is truncated or modified: build or "
                                   "copy it again")));
  // A remedy while the application runs: the same element with another bundle.
  g_object_set(element.get(), "bundle", bundle_.c_str(), nullptr);
  EXPECT_EQ(gst_element_set_state(element.get(), GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  gst_element_set_state(element.get(), GST_STATE_NULL);
}

TEST_F(InferenceElementTest, AnUnknownDeviceIsRefusedWithTheChoices) {
  const ElementPointer element = element_for(bundle_.string());
  g_object_set(element.get(), "device", "tpu", nullptr);
  EXPECT_EQ(gst_element_set_state(element.get(), GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  const auto texts = errors();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], StartsWith("the property 'device': "));
  EXPECT_THAT(texts[0], HasSubstr("simulator"));
}

TEST_F(InferenceElementTest, TheNetworksOwnFormatComesFirst) {
  start();
  GstPad* const pad = gst_element_get_static_pad(element_.get(), "sink");
  GstCaps* const caps = gst_pad_query_caps(pad, nullptr);
  gst_object_unref(pad);
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(caps, 0), "format"), "BGR");
  gst_caps_unref(caps);
}

TEST_F(InferenceElementTest, OtherFormatsGiveTheSameBox) {
  start();
  for (const char* format : {"RGB", "BGR"}) {
    const std::string caps =
        std::string("video/x-raw,framerate=10/1,width=8,height=8,format=") + format;
    gst_harness_set_src_caps_str(harness_.get(), caps.c_str());
    push({.left = 2, .top = 1, .right = 5, .bottom = 5}, 0);
    EXPECT_THAT(regions(pull().get()), ElementsAre("cat 2,1 3x4 0.75")) << format;
  }
}

TEST_F(InferenceElementTest, ElementsBeforeItGetBuffersForEverySlot) {
  start(5);
  GstCaps* const caps = gst_caps_from_string(kCaps);
  GstQuery* const query = gst_query_new_allocation(caps, TRUE);
  ASSERT_TRUE(gst_pad_peer_query(harness_->srcpad, query));
  ASSERT_GE(gst_query_get_n_allocation_pools(query), 1u);
  guint least = 0;
  gst_query_parse_nth_allocation_pool(query, 0, nullptr, nullptr, &least, nullptr);
  EXPECT_GE(least, 6u);
  gst_query_unref(query);
  gst_caps_unref(caps);
}

TEST_F(InferenceElementTest, ItsLatencyIsTheLongestThatAFrameTook) {
  start();
  gst_harness_set_upstream_latency(harness_.get(), 40 * GST_MSECOND);
  EXPECT_EQ(gst_harness_query_latency(harness_.get()), 40 * GST_MSECOND);
  push({.stage_ms = 30}, 0);
  pull();
  EXPECT_GE(gst_harness_query_latency(harness_.get()), (40 + 60) * GST_MSECOND);
  EXPECT_FALSE(messages(bus_.get(), GST_MESSAGE_LATENCY).empty());
}

}  // namespace
}  // namespace edgepipe::testing
