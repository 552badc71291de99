// The accelerator description: read in full or refused by name.
#include "edgepipe/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

nlohmann::json stock() {
  return {{"revision", "0.0.2"},
          {"clock_hz", 100000000},
          {"batch", 1},
          {"block_in", 16},
          {"block_out", 16},
          {"uop_buffer_bytes_log2", 15},
          {"inp_buffer_bytes_log2", 15},
          {"wgt_buffer_bytes_log2", 18},
          {"acc_buffer_bytes_log2", 17},
          {"acc_hazard_steps", 8},
          {"command_queue_depth", 512},
          {"token_queue_depth", 1024}};
}

TEST(Accelerator, ReadsEveryField) {
  const auto accelerator = parse_accelerator(stock().dump());
  ASSERT_TRUE(accelerator.ok()) << accelerator.status().message();
  EXPECT_EQ(*accelerator, (Accelerator{.revision = Revision::k0_0_2, .clock_hz = 100'000'000}));
  EXPECT_EQ(accelerator->configuration(), "1x16_i8w8a32_15_15_18_17");
  EXPECT_EQ(accelerator->uop_depth(), 8192U);
  EXPECT_EQ(accelerator->wgt_depth(), 1024U);
}

TEST(Accelerator, NamesAMissingAnUnknownAndAWrongField) {
  auto missing = stock();
  missing.erase("batch");
  EXPECT_THAT(parse_accelerator(missing.dump()).status().message(), HasSubstr("field 'batch'"));
  auto unknown = stock();
  unknown["colour"] = "red";
  EXPECT_THAT(parse_accelerator(unknown.dump()).status().message(),
              HasSubstr("unknown field 'colour'"));
  auto revision = stock();
  revision["revision"] = "0.0.9";
  EXPECT_THAT(parse_accelerator(revision.dump()).status().message(),
              HasSubstr("encoding revision '0.0.9' is unknown"));
  EXPECT_FALSE(parse_accelerator("[1]").ok());
}

TEST(Accelerator, RefusesWhatNoVtaCanHave) {
  EXPECT_FALSE((Accelerator{.block_out = 8}).validate().ok());
  EXPECT_FALSE((Accelerator{.block_in = 12, .block_out = 12}).validate().ok());
  EXPECT_FALSE((Accelerator{.wgt_buffer_bytes_log2 = 7}).validate().ok());
  EXPECT_THAT((Accelerator{.uop_buffer_bytes_log2 = 20}).validate().message(),
              HasSubstr("wider instruction or uop fields"));
}

}  // namespace
}  // namespace edgepipe
