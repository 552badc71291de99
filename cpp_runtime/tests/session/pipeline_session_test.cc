#include "edgepipe/pipeline_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/bundle_test_files.h"
#include "support/pipeline_test_stages.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;
using testing::number;
using testing::soon;
using testing::submit;

extern "C" int add_one(void*, const EpStageBuffer* inputs, uint32_t, const EpStageBuffer* outputs,
                       uint32_t, char*, uint64_t) {
  std::int64_t sum = 1;
  std::int64_t x = 0;
  std::memcpy(&x, inputs[0].data, sizeof(x));
  sum += x;
  std::memcpy(outputs[0].data, &sum, sizeof(sum));
  return 0;
}

nlohmann::json tensor(const char* name) {
  return {{"name", name}, {"dtype", "int64"}, {"shape", {1}}, {"layout", "nchw"}, {"bytes", 8}};
}

nlohmann::json stage(const char* name, const char* kind, const char* input, const char* output) {
  return {{"name", name},
          {"kind", kind},
          {"inputs", {input}},
          {"outputs", {output}},
          {"cores", nlohmann::json::array()}};
}

class PipelineSessionTest : public ::testing::Test {
 protected:
  PipelineSessionTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }
  ~PipelineSessionTest() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<PipelineSession>> open() {
    const std::string text = description_.dump();
    Result<PipelineDescription> description =
        PipelineDescription::parse(std::as_bytes(std::span(text)), "pipeline.json");
    if (!description.ok()) return description.status();
    return PipelineSession::open(folder_, *std::move(description),
                                 {{"first", add_one, nullptr}, {"second", add_one, nullptr}},
                                 {.policy = policy_});
  }
  std::string error() { return open().status().message(); }

  std::filesystem::path folder_;
  std::filesystem::path policy_;
  nlohmann::json description_ = {
      {"format", 4},
      {"name", "twice"},
      {"tensors", {tensor("data"), tensor("first.y"), tensor("second.y")}},
      {"inputs", {"data"}},
      {"outputs", {"second.y", "data"}},
      {"stages",
       {stage("first", "host", "data", "first.y"),
        stage("second", "host", "first.y", "second.y")}}};
};

TEST_F(PipelineSessionTest, RunsTheHostsFunctionsInTheGraphOfTheDescription) {
  Result<std::unique_ptr<PipelineSession>> session = open();
  ASSERT_TRUE(session.ok()) << session.status().message();
  Pipeline& pipeline = (*session)->pipeline();
  EXPECT_EQ((*session)->description().name, "twice");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(submit(pipeline, i).ok());
    Result<OutputFrame> frame = pipeline.next(soon());
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(number(frame->output(0)), i + 2);
    EXPECT_EQ(number(frame->output(1)), i);
  }
}

TEST_F(PipelineSessionTest, AnUnsupportedKindIsReportedWithItsStage) {
  description_["stages"][1]["name"] = "third";
  description_["stages"][1]["kind"] = "python";
  const Status status = open().status();
  EXPECT_EQ(
      status.message(),
      "stage 'third': kind 'python' needs a function from the host program, which supplied none");
  EXPECT_EQ(status.hint(), "load the pipeline with edgepipe for Python, which runs such stages");
}

TEST_F(PipelineSessionTest, MissingFilesAreReported) {
  nlohmann::json& first = description_["stages"][0];
  first["kind"] = "arm";
  first["folder"] = "stages/0";
  EXPECT_THAT(error(), HasSubstr("stage 'first'"));
  first["kind"] = "library";
  first["library"] = "stages/f.so";
  first["symbol"] = "f";
  EXPECT_THAT(error(), HasSubstr("stage 'first': library cannot be loaded"));
  first["kind"] = "bundle";
  first["bundle"] = "bundles/x.edgepipe";
  first["stage"] = "body";
  EXPECT_THAT(error(), HasSubstr("stage 'first'"));
}

TEST_F(PipelineSessionTest, ItsBundlesObeyTheGivenPolicy) {
  nlohmann::json& first = description_["stages"][0];
  first["kind"] = "bundle";
  first["bundle"] = "x.edgepipe";
  first["stage"] = "body";
  const testing::Files files = testing::tiny_files();
  testing::write_file(folder_ / "x.edgepipe",
                      testing::ustar(testing::with_manifest(files, testing::manifest_of(files))));
  policy_ = folder_ / "policy";
  testing::write_file(policy_, "require_signature=yes\nallowed_signers=/nowhere\n");
  const Status status = open().status();
  EXPECT_EQ(status.code(), Code::kUnsigned);
  EXPECT_THAT(status.message(),
              HasSubstr("the bundle is not signed, and this machine requires it"));
  EXPECT_EQ(status.hint(), "sign it with a key that this machine trusts: `edgepipe sign`");
}

TEST_F(PipelineSessionTest, APathThatLeavesTheFolderIsRefused) {
  nlohmann::json& first = description_["stages"][0];
  first["kind"] = "library";
  first["symbol"] = "f";
  for (const char* path : {"/lib/libc.so", "stages/../../f.so", ""}) {
    first["library"] = path;
    EXPECT_THAT(error(), HasSubstr("is not a path inside the folder")) << path;
  }
}

TEST_F(PipelineSessionTest, ADescriptionWithAWrongFieldNamesIt) {
  const nlohmann::json good = description_;
  description_["format"] = 1;
  EXPECT_THAT(error(), HasSubstr("format 1, this edgepipe reads format 4"));
  EXPECT_EQ(open().status().hint(), "export the pipeline again with this version of edgepipe");
  description_ = good;
  description_["outputs"] = {"third.y"};
  EXPECT_THAT(error(), HasSubstr("'third.y' is not in tensors"));
  EXPECT_EQ(open().status().hint(), "export the pipeline again");
  description_ = good;
  description_["tensors"][1]["name"] = "data";
  EXPECT_THAT(error(), HasSubstr("'data' comes twice"));
  description_ = good;
  description_["tensors"][0]["bytes"] = 0;
  EXPECT_THAT(error(), HasSubstr("is 0"));
  description_ = good;
  description_["stages"][0]["cores"] = {4096};
  EXPECT_THAT(error(), HasSubstr("stages[0].cores: found 4096"));
  description_ = good;
  description_["stages"][0]["inputs"] = {"second.y"};
  EXPECT_THAT(error(), HasSubstr("which neither an input nor an earlier stage provides"));
  description_ = good;
  description_.erase("stages");
  EXPECT_THAT(error(), HasSubstr("stages"));
}

}  // namespace
}  // namespace edgepipe
