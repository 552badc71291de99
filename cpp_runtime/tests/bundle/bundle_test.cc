#include "edgepipe/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/host_architecture.h"
#include "base/thread.h"
#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Files;
using ::testing::HasSubstr;
using testing::manifest_of;
using testing::ScratchFolder;
using testing::tiny_files;
using testing::ustar;
using testing::with_manifest;

class BundleTest : public ::testing::Test {
 protected:
  Status open_folder(const Files& files) {
    const std::string name = "bundle" + std::to_string(++count_);
    return Bundle::open(scratch_.write_folder(name, files)).status();
  }

  /// The error of a bundle whose manifest was edited by `change`.
  Status open_edited(const std::function<void(json&)>& change) {
    json manifest = manifest_of(tiny_files());
    change(manifest);
    return open_folder(with_manifest(tiny_files(), manifest));
  }

  ScratchFolder scratch_;
  int count_ = 0;
};

TEST_F(BundleTest, AFolderAndAnArchiveHoldTheSame) {
  const Files files = with_manifest(tiny_files(), manifest_of(tiny_files()));
  for (const std::filesystem::path& path :
       {scratch_.write_folder("tiny", files), scratch_.write_archive("t.edgepipe", ustar(files))}) {
    Result<std::unique_ptr<Bundle>> opened = Bundle::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const Bundle& bundle = **opened;
    EXPECT_EQ(bundle.manifest().name, "tiny");
    EXPECT_EQ(bundle.manifest().tensors[1].shape, (std::vector<std::int64_t>{1, 17, 2, 2}));
    EXPECT_EQ(bundle.manifest().stages[1].reads, std::vector<std::size_t>{1});
    EXPECT_EQ(bundle.manifest().accelerator, Accelerator());
    EXPECT_THAT(*bundle.labels(), ElementsAre("cat", "dog"));
    EXPECT_EQ(bundle.golden(bundle.manifest().golden_outputs[0])->size(), 20u);
    EXPECT_FALSE(bundle.needs_device());
  }
}

TEST_F(BundleTest, AnAcceleratorMayHaveExtensions) {
  json manifest = manifest_of(tiny_files());
  manifest["accelerator"]["extensions"] = {"requantise", "table"};
  const auto path = scratch_.write_folder("extended", with_manifest(tiny_files(), manifest));
  Result<std::unique_ptr<Bundle>> opened = Bundle::open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->manifest().accelerator.extension_names(), "requantise,table");
}

TEST_F(BundleTest, EveryFlippedByteOfAnyFileIsNoticed) {
  const Files good = with_manifest(tiny_files(), manifest_of(tiny_files()));
  for (const auto& [path, content] : tiny_files()) {
    for (const std::size_t position : {std::size_t{0}, content.size() / 2, content.size() - 1}) {
      Files altered = good;
      altered[path][position] = static_cast<char>(altered[path][position] ^ 0x10);
      const Status status = open_folder(altered);
      EXPECT_EQ(status.code(), Code::kCorrupt);
      EXPECT_THAT(status.message(), HasSubstr(path + " does not have the digest"));
      EXPECT_EQ(status.hint(), "the bundle is truncated or modified: build or copy it again");
    }
  }
}

TEST_F(BundleTest, EveryFlippedByteOfTheManifestIsNoticed) {
  const Files good = with_manifest(tiny_files(), manifest_of(tiny_files()));
  for (const std::string name : {"manifest.json", "manifest.digest"}) {
    for (std::size_t position = 0; position < good.at(name).size(); position += 5) {
      Files altered = good;
      altered[name][position] = static_cast<char>(altered[name][position] ^ 1);
      for (const std::filesystem::path& path :
           {scratch_.write_folder("altered", altered),
            scratch_.write_archive("altered.edgepipe", ustar(altered))}) {
        const Status status = Bundle::open(path).status();
        EXPECT_EQ(status.code(), Code::kCorrupt);
        EXPECT_EQ(status.message(), path.string() +
                                        ": manifest.json does not have the digest that "
                                        "manifest.digest records");
      }
    }
    Files missing = good;
    missing.erase(name);
    EXPECT_THAT(open_folder(missing).message(), HasSubstr(name + " is missing from the bundle"));
  }
}

TEST_F(BundleTest, EveryTruncatedOrMissingFileIsNamed) {
  const Files good = with_manifest(tiny_files(), manifest_of(tiny_files()));
  for (const auto& [path, content] : tiny_files()) {
    Files cut = good;
    cut[path].pop_back();
    EXPECT_THAT(open_folder(cut).message(),
                HasSubstr(path + " has " + std::to_string(content.size() - 1) +
                          " bytes, the manifest says " + std::to_string(content.size())));
    Files missing = good;
    missing.erase(path);
    const Status status = open_folder(missing);
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_THAT(status.message(), HasSubstr(path + " is missing from the bundle"));
  }
}

TEST_F(BundleTest, EveryTruncationOfAnArchiveIsNoticed) {
  const std::string archive = ustar(with_manifest(tiny_files(), manifest_of(tiny_files())));
  for (std::size_t length = 0; length < archive.size(); length += 97) {
    const auto path = scratch_.write_archive("cut.edgepipe", archive.substr(0, length));
    EXPECT_EQ(Bundle::open(path).status().code(), Code::kCorrupt) << length;
  }
}

TEST_F(BundleTest, ADamagedManifestNeverOpens) {
  const std::string text = manifest_of(tiny_files()).dump();
  for (std::size_t position = 0; position < text.size(); ++position) {
    const std::string cut = text.substr(0, position);
    EXPECT_EQ(parse_manifest(testing::bytes_of(cut)).status().code(), Code::kCorrupt) << position;
  }
  // A flipped bit in a name may go unnoticed, but nothing may crash, and an open bundle is
  // consistent.
  for (std::size_t position = 0; position < text.size(); ++position) {
    std::string altered = text;
    altered[position] = static_cast<char>(altered[position] ^ (1 << (position % 7)));
    const Result<Manifest> manifest = parse_manifest(testing::bytes_of(altered));
    if (!manifest.ok()) continue;
    for (const StageSpec& stage : manifest->stages) {
      for (const std::size_t tensor : stage.reads) EXPECT_LT(tensor, manifest->tensors.size());
    }
  }
}

TEST_F(BundleTest, AFileThatTheManifestDoesNotListIsRefused) {
  Files files = with_manifest(tiny_files(), manifest_of(tiny_files()));
  files["stages/0_arm/extra.so"] = "?";
  EXPECT_THAT(open_folder(files).message(),
              HasSubstr("stages/0_arm/extra.so is not listed in the manifest"));
}

TEST_F(BundleTest, ASignatureBelongsToABundle) {
  Files files = with_manifest(tiny_files(), manifest_of(tiny_files()));
  files["manifest.sig"] = "not read unless the policy requires it";
  EXPECT_TRUE(open_folder(files).ok());
}

TEST_F(BundleTest, ASymbolicLinkInAFolderIsRefused) {
  const auto folder =
      scratch_.write_folder("linked", with_manifest(tiny_files(), manifest_of(tiny_files())));
  std::filesystem::create_symlink("/etc/hostname", folder / "link");
  EXPECT_THAT(Bundle::open(folder).status().message(),
              HasSubstr("link is neither a regular file nor a folder"));
}

TEST_F(BundleTest, AnotherFormatVersionIsUnsupported) {
  const Status status = open_edited([](json& manifest) { manifest["format"] = 3; });
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("bundle format 3, this edgepipe reads format 2"));
  EXPECT_EQ(status.hint(), "build the bundle again with this version of edgepipe");
}

TEST_F(BundleTest, AnOlderFormatWithOtherDigestsIsUnsupported) {
  json manifest = manifest_of(tiny_files());
  manifest["format"] = 1;
  testing::Files files = with_manifest(tiny_files(), manifest);
  files["manifest.digest"] = "a3b9e4f0dce9df003ed6da673667c0c8\n";
  const Status status = open_folder(files);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("bundle format 1, this edgepipe reads format 2"));
  EXPECT_EQ(status.hint(), "build the bundle again with this version of edgepipe");
}

TEST_F(BundleTest, TheBoardsThreadsCountOnTheBoardsArchitectureAndCoresOnly) {
  json manifest = manifest_of(tiny_files());
  manifest["stages"][0]["cores"] = Thread::cores();
  manifest["stages"][1]["realtime_priority"] = 7;
  const auto threads = [&](std::string_view architecture) {
    manifest["board_architecture"] = architecture;
    const std::string name = "bundle" + std::to_string(++count_);
    Result<std::unique_ptr<Bundle>> bundle =
        Bundle::open(scratch_.write_folder(name, with_manifest(tiny_files(), manifest)));
    EXPECT_TRUE(bundle.ok()) << bundle.status().message();
    return (*bundle)->board_threads();
  };
  EXPECT_TRUE(threads("riscv64").empty());
  const auto here = threads(host_architecture());
  ASSERT_EQ(here.size(), 2u);
  EXPECT_THAT(here[0].cores, ElementsAreArray(Thread::cores()));
  EXPECT_EQ(here[0].realtime_priority, 0);
  EXPECT_TRUE(here[1].cores.empty());
  EXPECT_EQ(here[1].realtime_priority, 7);
  EXPECT_EQ(here[0].threads, 1u) << "older bundles do not tell how many";
  manifest["stages"][0]["threads"] = Thread::cores().size();
  EXPECT_EQ(threads(host_architecture())[0].threads, Thread::cores().size());
  manifest["stages"][0]["threads"] = 1;
  manifest["stages"][0]["cores"] = {1023};
  EXPECT_TRUE(threads(host_architecture()).empty());
}

TEST_F(BundleTest, AMissingBundleSaysSo) {
  const Status status = Bundle::open(scratch_.path() / "nothing").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("nothing: no such bundle"));
  EXPECT_EQ(status.hint(), "check the name; `edgepipe build` makes bundles");
}

TEST_F(BundleTest, ManifestErrorsNameFieldFoundAndExpected) {
  const auto message = [&](const std::function<void(json&)>& change) {
    return open_edited(change).message();
  };
  EXPECT_THAT(message([](json& m) {
                m["stages"][0]["cores"] = {1, 2};
                m["stages"][0]["threads"] = 3;
              }),
              HasSubstr("stages[0].threads: found 3, expected 1 to 2, one on each core"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["threads"] = 0; }), HasSubstr("found 0"));
  EXPECT_THAT(message([](json& m) {
                m["stages"][0]["cores"] = {1, 2, 1};
                m["stages"][0]["threads"] = 3;
              }),
              HasSubstr("stages[0].threads: found 3, expected 1 to 2, one on each core"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["cores"] = {1024}; }),
              HasSubstr("stages[0].cores: found 1024, expected 0 to 1023"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["cores"] = {UINT64_MAX}; }),
              HasSubstr("cores: found 18446744073709551615, expected an integer of 64 bits"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["realtime_priority"] = 100; }),
              HasSubstr("stages[0].realtime_priority: found 100, expected 0 to 99"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["modelled_us"] = 3'600'000'001; }),
              HasSubstr("stages[0].modelled_us: found 3600000001, expected 0 to 3600000000, an "
                        "hour"));
  EXPECT_THAT(message([](json& m) { m["tensors"][1]["bytes"] = "12"; }),
              HasSubstr("manifest.json: tensors[1].bytes: found \"12\", expected a whole number"));
  EXPECT_THAT(message([](json& m) { m["tensors"][1]["bytes"] = 64; }),
              HasSubstr("tensors[1].bytes: found 64, the shape needs 128"));
  EXPECT_THAT(message([](json& m) { m["tensors"][0]["shape"][1] = -2; }),
              HasSubstr("tensors[0].shape: not a valid shape of a uint8 tensor"));
  EXPECT_THAT(message([](json& m) { m["slots"] = 5000; }),
              HasSubstr("manifest.json: slots: found 5000, expected 1024 at most"));
  EXPECT_THAT(message([](json& m) { m["live_slots"] = 5000; }),
              HasSubstr("manifest.json: live_slots: found 5000, expected 1024 at most"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["kind"] = "gpu"; }),
              HasSubstr("stages[0].kind: found \"gpu\", expected one of arm, vta"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["inputs"][0] = "x"; }),
              HasSubstr("stages[0].inputs: 'x' is not in tensors"));
  EXPECT_THAT(message([](json& m) { m["stages"][0]["folder"] = "../up"; }),
              HasSubstr("stages[0].folder: '../up' is not a plain relative path"));
  EXPECT_THAT(message([](json& m) { m["accelerator"]["batch"] = 3; }),
              HasSubstr("manifest.json: accelerator:"));
  EXPECT_THAT(message([](json& m) { m["accelerator"]["extensions"] = {json::array({"table"})}; }),
              HasSubstr("accelerator: a field is not a number, a string or a list of them"));
  EXPECT_THAT(message([](json& m) { m["golden"]["inputs"][0]["file"] = "golden/x.bin"; }),
              HasSubstr("golden: 'golden/x.bin' is not in files"));
  EXPECT_THAT(message([](json& m) { m.erase("preprocess"); }), HasSubstr("preprocess: is missing"));
  EXPECT_THAT(message([](json& m) { m["stages"] = json::array(); }), HasSubstr("stages: is empty"));
}

TEST_F(BundleTest, StagesMayExchangeTensorsOfInt16) {
  const auto change = [](json& m) {
    m["tensors"][1] = {{"name", "features"},
                       {"dtype", "int16"},
                       {"shape", {1, 17, 2, 2}},
                       {"layout", "nchw"},
                       {"bytes", 136}};
  };
  EXPECT_TRUE(open_edited(change).ok()) << open_edited(change).message();
  EXPECT_THAT(open_edited([](json& m) { m["tensors"][1]["dtype"] = "int16"; }).message(),
              HasSubstr("tensors[1].shape: not a valid shape of a int16 tensor in layout vta"));
}

TEST_F(BundleTest, StagesMayExchangeFoldedPictures) {
  const auto change = [](const char* layout, std::int64_t height, std::int64_t bytes) {
    return [=](json& m) {
      m["tensors"][1] = {{"name", "features"},
                         {"dtype", "int8"},
                         {"shape", {1, 5, height, 4}},
                         {"layout", layout},
                         {"bytes", bytes}};
    };
  };
  const Status twice = open_edited(change("vta_2x2", 4, 2 * 2 * 2 * 16));
  EXPECT_TRUE(twice.ok()) << twice.message();
  const Status four = open_edited(change("vta_4x4", 4, 5 * 16));
  EXPECT_TRUE(four.ok()) << four.message();
  EXPECT_THAT(open_edited(change("vta_2x2", 4, 64)).message(),
              HasSubstr("tensors[1].bytes: found 64, the shape needs 128"));
  EXPECT_THAT(open_edited(change("vta_2x2", 3, 128)).message(),
              HasSubstr("tensors[1].shape: not a valid shape of a int8 tensor in layout vta_2x2"));
}

TEST_F(BundleTest, AStrideBeyondItsTypeIsRefused) {
  for (const std::int64_t stride :
       {(std::int64_t{1} << 32) + 8, std::int64_t{INT32_MAX}, std::int64_t{0}, std::int64_t{-8}}) {
    const Status status = open_edited([stride](json& m) {
      const json names = {m["tensors"][0]["name"]};
      m["postprocess"] = {{"kind", "nanodet"},      {"labels", ""},         {"strides", {stride}},
                          {"scores", names},        {"distances", names},   {"bins", 8},
                          {"score_threshold", 0.4}, {"iou_threshold", 0.5}, {"top", 5}};
    });
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("manifest.json: postprocess.strides: found " +
                                            std::to_string(stride) + ", expected 1 to 1000000"));
  }
}

TEST_F(BundleTest, AHeadThatCannotBeIsRefusedWithItsKey) {
  const auto message = [this](const char* key, const json& value, const char* kind = "ssd") {
    return open_edited([&](json& m) {
             const json names = {m["tensors"][2]["name"]};
             m["postprocess"] = {{"kind", kind},
                                 {"labels", ""},
                                 {"strides", {8}},
                                 {"grids", json::array()},
                                 {"outputs", json::array()},
                                 {"scores", names},
                                 {"distances", names},
                                 {"centers", json::array()},
                                 {"landmarks", json::array()},
                                 {"anchors", {{4, 4}}},
                                 {"formula", ""},
                                 {"activation", "default"},
                                 {"bins", 1},
                                 {"per_cell", 1},
                                 {"cell_offset", 0.5},
                                 {"variances", {0.1, 0.2}},
                                 {"background", true},
                                 {"objectness", false},
                                 {"normalized", false},
                                 {"points", 0},
                                 {"point_values", 2},
                                 {"score_threshold", 0.4},
                                 {"iou_threshold", 0.5},
                                 {"top", 5}};
             m["postprocess"][key] = value;
           })
        .message();
  };
  const auto expect = [&](const std::string& found, const std::string& text) {
    EXPECT_THAT(found, HasSubstr("manifest.json: postprocess." + text));
  };
  EXPECT_EQ(message("bins", 1), "");
  expect(message("kind", "yolo"), "kind: found \"yolo\", expected one of none, classify, nanodet");
  expect(message("activation", "tanh"),
         "activation: found \"tanh\", expected one of default, none");
  expect(message("background", 1), "background: expected true or false");
  expect(message("variances", {0.1, "x"}), "variances: expected a list of numbers");
  expect(message("variances", {0.1}), "variances: expected two numbers");
  expect(message("strides", json::array()), "strides: expected at least one");
  expect(message("scores", json::array()), "outputs: expected tensors here, or in scores and");
  expect(message("scores", {"picture"}),
         "scores: 'picture' is not a float32 tensor of two or more");
  expect(message("scores", {"scores", "scores"}), "scores: found 2 tensors, expected 1 or 1");
  expect(message("anchors", 3), "anchors: expected a list of lists");
  expect(message("anchors", {{4, -4}}),
         "anchors: expected a width and a height, in pixels, of 1 to");
  expect(message("anchors", json::array()), "anchors: found 0 lists, expected 1");
  expect(message("formula", "v9", "anchors"), "formula: found \"v9\", expected v3 or v5");
  expect(message("per_cell", 65), "per_cell: found 65, expected 64 at most");
  expect(message("points", 5), "landmarks: expected tensors if there are points, and none");
  expect(message("outputs", json::array(), "boxes"), "outputs: expected one tensor");
  expect(message("variances", {1, 2, 3}, "boxes"), "variances: expected two numbers");
  expect(message("formula", "v5", "boxes"), "formula: found \"v5\", expected \"corners\" or");
  expect(message("activation", "softmax", "yolox"),
         "activation: found \"softmax\", expected none or sigmoid beside an objectness");
  expect(message("bins", 0, "distances"), "anchors: found 1 lists, expected 0");
}

TEST_F(BundleTest, AnOwnDecoderThatCannotBeIsRefusedWithItsKey) {
  const auto message = [this](const char* key, const json& value) {
    return open_edited([&](json& m) {
             m["postprocess"] = {{"kind", "own"},
                                 {"labels", ""},
                                 {"outputs", {m["tensors"][2]["name"]}},
                                 {"gives", "boxes"},
                                 {"most", 100},
                                 {"points", 0},
                                 {"libraries", {"labels.txt"}},
                                 {"symbol", "decode"},
                                 {"function", ""}};
             m["postprocess"][key] = value;
           })
        .message();
  };
  const auto expect = [&](const std::string& found, const std::string& text) {
    EXPECT_THAT(found, HasSubstr("manifest.json: " + text));
  };
  EXPECT_EQ(message("gives", "text"), "");
  EXPECT_EQ(message("function", "labels.txt:decode"), "");
  expect(message("gives", "masks"),
         "postprocess.gives: found \"masks\", expected one of boxes, classes, points, text");
  expect(message("most", 0), "postprocess.most: found 0, expected 1 to 1000000");
  expect(message("most", 10001), "postprocess.most: found 10001, expected 10000 at most");
  expect(message("points", 513), "postprocess.points: found 513, expected 512 at most");
  expect(message("outputs", json::array()), "postprocess.outputs: expected at least one tensor");
  expect(message("outputs", {"picture"}),
         "postprocess.outputs: 'picture' is uint8, expected float32");
  expect(message("function", "a.py"), "postprocess.function: found \"a.py\", expected FILE:NAME");
  expect(message("function", "a.py:decode"), "postprocess: 'a.py' is not in files");
  expect(message("libraries", {"decoder/x86_64.so"}),
         "postprocess: 'decoder/x86_64.so' is not in files");
}

TEST_F(BundleTest, AMapThatCannotBeIsRefusedWithItsKey) {
  const auto message = [this](const char* key, const json& value) {
    return open_edited([&](json& m) {
             m["postprocess"] = {{"kind", "ctc"},
                                 {"labels", ""},
                                 {"outputs", {m["tensors"][2]["name"]}},
                                 {"activation", "default"},
                                 {"blank", "first"},
                                 {"map_threshold", 0.3},
                                 {"unclip", 1.5},
                                 {"score_threshold", 0.4}};
             m["postprocess"][key] = value;
           })
        .message();
  };
  EXPECT_EQ(message("kind", "segmentation"), "");
  EXPECT_THAT(message("blank", "middle"),
              HasSubstr("postprocess.blank: found \"middle\", expected one of first, last"));
  EXPECT_THAT(message("outputs", json::array()),
              HasSubstr("postprocess.outputs: expected one tensor"));
  EXPECT_THAT(open_edited([&](json& m) {
                m["postprocess"] = {{"kind", "db"},
                                    {"labels", ""},
                                    {"outputs", {m["tensors"][2]["name"]}},
                                    {"activation", "default"},
                                    {"map_threshold", 0.3},
                                    {"unclip", 11},
                                    {"score_threshold", 0.4}};
              }).message(),
              HasSubstr("postprocess.unclip: expected 0 to 10"));
  EXPECT_THAT(message("activation", "tanh"), HasSubstr("postprocess.activation: found \"tanh\""));
}

TEST_F(BundleTest, ALetterboxThatCannotBeIsRefused) {
  const auto message = [this](const char* key, const json& value) {
    return open_edited([&](json& m) {
             m["preprocess"].update({{"fit", "letterbox"}, {"padding", 114}, {"align", "center"}});
             m["preprocess"][key] = value;
           })
        .message();
  };
  EXPECT_EQ(message("padding", 0), "");
  EXPECT_THAT(message("padding", 256), HasSubstr("padding: found 256, expected 0 to 255"));
  EXPECT_THAT(message("align", "up"),
              HasSubstr("align: found \"up\", expected one of center, top_left"));
}

}  // namespace
}  // namespace edgepipe
