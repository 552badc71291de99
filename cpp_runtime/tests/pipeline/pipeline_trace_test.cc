#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "edgepipe/pipeline_statistics.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using nlohmann::json;
using testing::affine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::soon;
using testing::submit;

/// in -> left, right -> join: two branches, so that frames have four arrows each.
Graph diamond() {
  Graph graph;
  for (const char* name : {"in", "left", "right", "out"}) {
    graph.tensors.push_back({.name = name, .bytes = 8});
  }
  graph.inputs = {0};
  graph.outputs = {3};
  const auto add = [&](const char* name, std::vector<std::size_t> reads, std::size_t writes) {
    graph.nodes.push_back({.stage = std::make_unique<FunctionStage>(name, affine(2)),
                           .reads = std::move(reads),
                           .writes = {writes}});
  };
  add("left", {0}, 1);
  add("right", {0}, 2);
  add("join", {1, 2}, 3);
  return graph;
}

/// Runs frames through a graph, two in flight at a time, and returns the parsed trace.
json run_and_trace(Graph graph, Pipeline::Options options, int frames) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  options.trace_spans = options.trace_spans == 0 ? 4096 : options.trace_spans;
  auto made = Pipeline::create(std::move(graph), *memory, options);
  EXPECT_TRUE(made.ok());
  Pipeline& pipeline = **made;
  for (int frame = 0; frame < frames; frame += 2) {
    EXPECT_TRUE(submit(pipeline, frame).ok());
    EXPECT_TRUE(submit(pipeline, frame + 1).ok());
    EXPECT_TRUE(pipeline.next(soon()).ok());
    EXPECT_TRUE(pipeline.next(soon()).ok());
  }
  EXPECT_TRUE(pipeline.stop(soon()).ok());
  return json::parse(pipeline.trace().json());
}

std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

std::map<std::int64_t, std::string> thread_names(const json& trace) {
  std::map<std::int64_t, std::string> names;
  for (const json& event : events(trace, "M")) {
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  return names;
}

/// Times are in microseconds with three decimals: rounding may lose a nanosecond.
constexpr double kRounding = 0.0015;

void expect_in_order_and_not_overlapping(const json& trace) {
  double last = 0;
  std::map<std::int64_t, double> busy_until;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    const double at = event["ts"];
    EXPECT_GE(at, last);
    last = at;
    if (event["ph"] != "X") continue;
    const std::int64_t thread = event["tid"];
    EXPECT_GE(at, busy_until[thread] - kRounding) << event;
    busy_until[thread] = at + event["dur"].get<double>();
  }
}

TEST(PipelineTraceTest, EachStageThreadHasANamedTrackAndTheSourceToo) {
  const json trace = run_and_trace(diamond(), {}, 4);
  EXPECT_THAT(thread_names(trace),
              ElementsAre(std::pair(1, "source"), std::pair(2, "stage thread left"),
                          std::pair(3, "stage thread right"), std::pair(4, "stage thread join")));
}

TEST(PipelineTraceTest, OneThreadHasAllStagesOfASerialPipeline) {
  const json trace = run_and_trace(diamond(), {.mode = Pipeline::Mode::kSerial}, 4);
  EXPECT_EQ(thread_names(trace).size(), 2U);
  EXPECT_EQ(events(trace, "X").size(), 16U);
  expect_in_order_and_not_overlapping(trace);
}

TEST(PipelineTraceTest, EveryStageHasASliceForEveryFrameInOrderAndWithoutOverlap) {
  for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(1000)}) {
    const json trace = run_and_trace(diamond(), {.spin = spin}, 20);
    std::map<std::string, std::vector<int>> frames;
    for (const json& slice : events(trace, "X")) {
      frames[slice["name"]].push_back(slice["args"]["frame"]);
    }
    EXPECT_EQ(frames.size(), 4U);
    for (const auto& [name, numbers] : frames) {
      ASSERT_EQ(numbers.size(), 20U) << name;
      for (int frame = 0; frame < 20; ++frame) EXPECT_EQ(numbers[frame], frame) << name;
    }
    expect_in_order_and_not_overlapping(trace);
  }
}

TEST(PipelineTraceTest, ArrowsLeadAlongTheEdgesFromInsideOneSliceToTheBeginningOfAnother) {
  const json trace = run_and_trace(diamond(), {}, 10);
  std::map<std::int64_t, json> tails;
  for (const json& tail : events(trace, "s")) {
    EXPECT_TRUE(tails.emplace(tail["id"].get<std::int64_t>(), tail).second);
  }
  // A slice of this thread around this time, and its frame; -1 if there is none.
  const auto frame_around = [&](const json& arrow) {
    for (const json& slice : events(trace, "X")) {
      const double begin = slice["ts"];
      const double end = begin + slice["dur"].get<double>();
      const double at = arrow["ts"];
      if (slice["tid"] == arrow["tid"] && begin - kRounding <= at && at <= end) {
        return slice["args"]["frame"].get<int>();
      }
    }
    return -1;
  };
  const std::vector<json> heads = events(trace, "f");
  EXPECT_EQ(heads.size(), 40U);  // source -> left, source -> right, left -> join, right -> join
  EXPECT_EQ(tails.size(), 40U);
  std::set<std::pair<int, int>> edges;
  for (const json& head : heads) {
    const json& tail = tails.at(head["id"]);
    EXPECT_LE(tail["ts"].get<double>(), head["ts"].get<double>());
    EXPECT_EQ(frame_around(tail), frame_around(head));
    EXPECT_GE(frame_around(head), 0);
    edges.emplace(tail["tid"], head["tid"]);
  }
  EXPECT_THAT(edges,
              ElementsAre(std::pair(1, 2), std::pair(1, 3), std::pair(2, 4), std::pair(3, 4)));
}

TEST(PipelineTraceTest, CountersRiseAndFallByOneAndEndAtZero) {
  const json trace = run_and_trace(diamond(), {}, 10);
  std::map<std::string, int> values;
  for (const json& event : events(trace, "C")) {
    int& value = values[event["name"]];
    const int next = event["args"]["frames"];
    EXPECT_EQ(std::abs(next - value), 1) << event;
    value = next;
  }
  EXPECT_EQ(values, (std::map<std::string, int>{{"waiting for left", 0},
                                                {"waiting for right", 0},
                                                {"waiting for join", 0},
                                                {"waiting to be taken", 0}}));
}

TEST(PipelineTraceTest, AFrameIsUnderWayFromSubmitToItsLastStageAndThenHeld) {
  const json trace = run_and_trace(diamond(), {}, 6);
  std::map<std::string, int> open;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "b" && event["ph"] != "e") continue;
    int& count = open[event["name"].get<std::string>() + event["id"].dump()];
    EXPECT_EQ(count, event["ph"] == "b" ? 0 : 1) << event;
    count += event["ph"] == "b" ? 1 : -1;
  }
  EXPECT_EQ(open.size(), 12U);
  for (const auto& [name, count] : open) EXPECT_EQ(count, 0) << name;
}

TEST(PipelineTraceTest, ALongRunKeepsTheLastFramesComplete) {
  const json trace = run_and_trace(diamond(), {.trace_spans = 50}, 100);
  EXPECT_GE(trace["otherData"]["first_frame"].get<int>(), 88);
  std::map<int, int> slices;
  for (const json& slice : events(trace, "X")) ++slices[slice["args"]["frame"]];
  EXPECT_GE(slices.size(), 8U);
  for (const auto& [frame, count] : slices) EXPECT_EQ(count, 4) << frame;
  EXPECT_EQ(events(trace, "s").size(), events(trace, "f").size());
}

TEST(PipelineTraceTest, AFailedRunShowsWhere) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  auto made = Pipeline::create(
      testing::chain({affine(2), [](auto, auto) { return Status(Code::kDevice, "broken"); }}),
      *memory, {.trace_spans = 16});
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(submit(**made, 1).ok());
  EXPECT_FALSE((*made)->next(soon()).ok());
  const json trace = json::parse((*made)->trace().json());
  const std::vector<json> slices = events(trace, "X");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[2]["name"], "stage1");
  EXPECT_EQ(slices[2]["args"]["failed"], true);
}

TEST(PipelineTraceTest, WithoutSpansTheTraceIsEmptyButWellFormed) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  auto made = Pipeline::create(testing::chain({affine(2)}), *memory, {});
  ASSERT_TRUE(submit(**made, 1).ok());
  ASSERT_TRUE((*made)->next(soon()).ok());
  EXPECT_TRUE(events(json::parse((*made)->trace().json()), "X").empty());
}

TEST(PipelineTraceTest, ARestartBeginsANewTrace) {
  const std::unique_ptr<HostMemory> memory = testing::host_memory();
  auto made = Pipeline::create(testing::chain({affine(2)}), *memory, {.trace_spans = 64});
  ASSERT_TRUE(submit(**made, 1).ok());
  ASSERT_TRUE((*made)->stop(soon()).ok());
  ASSERT_TRUE((*made)->restart(soon()).ok());
  EXPECT_TRUE((*made)->trace().spans.empty());
}

TEST(PipelineTraceTest, NamesOfStagesAreEscaped) {
  PipelineTrace trace;
  trace.threads = {"a \"b\"\n"};
  trace.stages = {{.name = "a \"b\"\n", .producers = {}}};
  trace.spans = {{.frame = 0}};
  const json parsed = json::parse(trace.json());
  EXPECT_EQ(events(parsed, "X").at(0)["name"], "a \"b\"\n");
}

TEST(PipelineTraceTest, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const Status status = PipelineTrace().write("/nowhere/trace.json");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/trace.json: the trace cannot be written"));
}

TEST(PipelineTraceTest, AWrittenFileLeavesNothingElseBehind) {
  const std::filesystem::path folder = ::testing::TempDir() + "/trace_test";
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(PipelineTrace().write(folder / "trace.json").ok());
  std::ifstream file(folder / "trace.json");
  EXPECT_TRUE(json::parse(file).contains("traceEvents"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace edgepipe
