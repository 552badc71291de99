// The record of the board's logic against the accelerator that a bundle was built for.
#include "edgepipe/logic_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

class LogicRecord : public ::testing::Test {
 protected:
  ~LogicRecord() override { std::filesystem::remove(path_); }

  Status check(const std::string& text) const {
    std::ofstream(path_) << text;
    return check_logic_record(accelerator_, path_);
  }
  Status check(const std::string& configuration, const std::string& revision,
               const std::string& clock_hz) const {
    return check(R"({"path": "", "configuration": ")" + configuration + R"(", "revision": ")" +
                 revision + R"(", "clock_hz": )" + clock_hz + "}");
  }

  const Accelerator accelerator_;  // 0.0.1 at 333 MHz
  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("logic_record_" + std::to_string(::getpid()) + ".json"))
                                .string();
};

TEST_F(LogicRecord, WhatFitsIsAccepted) {
  EXPECT_TRUE(check(accelerator_.configuration(), "0.0.1", "333000000").ok());
}

TEST_F(LogicRecord, WithoutARecordNothingIsRefused) {
  EXPECT_TRUE(check_logic_record(accelerator_, path_).ok());
}

TEST_F(LogicRecord, EveryDifferenceNamesBothValuesAndTheRemedy) {
  const std::string configuration = accelerator_.configuration();
  const Status other = check("1x16_i8w8a32_15_15_18_16", "0.0.1", "333000000");
  EXPECT_EQ(other.code(), Code::kUnsupported);
  EXPECT_THAT(other.message(), HasSubstr("configuration is 1x16_i8w8a32_15_15_18_16, the bundle "
                                         "was built for " +
                                         configuration));
  EXPECT_THAT(check(configuration, "0.0.2", "333000000").message(),
              HasSubstr("encoding revision is 0.0.2, the bundle was built for 0.0.1"));
  const Status slower = check(configuration, "0.0.1", "100000000");
  EXPECT_THAT(slower.message(),
              HasSubstr("clock is 100000000 Hz, the bundle was built for 333000000 Hz"));
  EXPECT_THAT(slower.message(), HasSubstr("edgepipe bitstream install"));
}

TEST_F(LogicRecord, ADamagedRecordIsCorrupt) {
  EXPECT_EQ(check("{").code(), Code::kCorrupt);
  EXPECT_EQ(check("{}").code(), Code::kCorrupt);
  EXPECT_EQ(check(R"({"configuration": 1})").code(), Code::kCorrupt);
}

}  // namespace
}  // namespace edgepipe
