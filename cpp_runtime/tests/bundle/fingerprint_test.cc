// A bundle's fingerprint compared with this runtime and the board's bitstream record.
#include "bundle/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

class FingerprintTest : public ::testing::Test {
 protected:
  ~FingerprintTest() override { std::filesystem::remove(path_); }

  Status check(const std::string& text) const {
    std::ofstream(path_) << text;
    return check_logic_record(fingerprint_, path_);
  }
  /// The matching record with one field changed.
  Status check_with(const char* field, const nlohmann::json& value) const {
    nlohmann::json record = {{"configuration", fingerprint_.configuration},
                             {"revision", fingerprint_.revision},
                             {"clock_hz", fingerprint_.clock_hz},
                             {"path", fingerprint_.bitstream}};
    record[field] = value;
    return check(record.dump());
  }
  void expect_refused(const Status& status, Code code, int exit, const std::string& text) const {
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(exit_code(status.code()), exit);
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_EQ(status.hint(),
              code == Code::kOtherVersion
                  ? "build the bundle again with this version, or run it with the version that "
                    "built it"
                  : "program its bitstream with `edgepipe bitstream install`, or build the bundle "
                    "again");
  }

  Fingerprint fingerprint_{.configuration = "1x16_i8w8a32_15_15_18_17",
                           .revision = "0.0.1",
                           .clock_hz = 333000000,
                           .bitstream = "ultra96/one.bit",
                           .builder_version = std::string(kVersion)};
  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("logic_record_" + std::to_string(::getpid()) + ".json"))
                                .string();
};

TEST_F(FingerprintTest, WhatFitsIsAccepted) {
  EXPECT_TRUE(check_version(fingerprint_).ok());
  EXPECT_TRUE(check_with("installed_by", "somebody").ok());
  EXPECT_EQ(exit_code(Code::kOk), 0);
}

TEST_F(FingerprintTest, WithoutARecordNothingIsRefused) {
  EXPECT_TRUE(check_logic_record(fingerprint_, path_).ok());
}

TEST_F(FingerprintTest, ARecordThatCannotBeReadIsNotTakenForAMissingOne) {
  std::filesystem::create_directory(path_);
  const Status status = check_logic_record(fingerprint_, path_);
  std::filesystem::remove(path_);
  EXPECT_EQ(status.message(), path_ + ": not a regular file");
}

TEST_F(FingerprintTest, AnUnpublishedBitstreamHasNoNameToCompare) {
  EXPECT_TRUE(check_with("path", "").ok());
  fingerprint_.bitstream.clear();
  EXPECT_TRUE(check_with("path", "ultra96/two.bit").ok());
}

TEST_F(FingerprintTest, EveryDifferenceHasItsExitCodeAndNamesBothValues) {
  expect_refused(check_with("configuration", "1x16_i8w8a32_15_15_18_16"), Code::kOtherConfiguration,
                 10,
                 "configuration is 1x16_i8w8a32_15_15_18_16, the bundle was built for "
                 "1x16_i8w8a32_15_15_18_17");
  expect_refused(check_with("revision", "0.0.2"), Code::kOtherRevision, 11,
                 "encoding revision is 0.0.2, the bundle was built for 0.0.1");
  expect_refused(check_with("clock_hz", 100000000), Code::kOtherClock, 12,
                 "clock is 100000000 Hz, the bundle was built for 333000000 Hz");
  expect_refused(check_with("path", "ultra96/two.bit"), Code::kOtherBitstream, 13,
                 "bitstream is ultra96/two.bit, the bundle was built for ultra96/one.bit");
}

TEST_F(FingerprintTest, ABundleForAnotherKnownBoardIsRefused) {
  const char tree[] = "avnet,ultra96-rev1\0avnet,ultra96\0xlnx,zynqmp";
  std::ofstream(path_) << std::string(tree, sizeof tree);
  const Status status = check_machine("zcu104", path_);
  EXPECT_EQ(exit_code(status.code()), 10);
  EXPECT_EQ(status.message(), "the device tree: board is ultra96, the bundle was built for zcu104");
  EXPECT_EQ(status.hint(), "build the bundle for this board, ultra96");
  EXPECT_TRUE(check_machine("ultra96", path_).ok());
  EXPECT_TRUE(check_machine("my-board", path_).ok());
}

TEST_F(FingerprintTest, AMachineThatIsNoKnownBoardRefusesNoBoard) {
  EXPECT_TRUE(check_machine("zcu104", path_).ok());
  std::ofstream(path_) << "xlnx,zynqmp";
  EXPECT_TRUE(check_machine("zcu104", path_).ok());
}

TEST_F(FingerprintTest, ABundleOfAnotherVersionIsRefused) {
  fingerprint_.builder_version = "0.0.9";
  expect_refused(check_version(fingerprint_), Code::kOtherVersion, 14,
                 "runtime version is " + std::string(kVersion) + ", the bundle was built by 0.0.9");
}

TEST_F(FingerprintTest, ADamagedRecordIsCorrupt) {
  EXPECT_EQ(check("{").code(), Code::kCorrupt);
  EXPECT_EQ(check("{}").code(), Code::kCorrupt);
  EXPECT_EQ(check(R"({"configuration": 1})").code(), Code::kCorrupt);
  EXPECT_EQ(exit_code(Code::kCorrupt), 1);
}

}  // namespace
}  // namespace edgepipe
