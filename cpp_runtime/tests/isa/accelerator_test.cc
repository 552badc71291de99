// The accelerator description: read completely, or refused with the field's name.
#include "edgepipe/accelerator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/stock_accelerator.h"

namespace edgepipe {
namespace {

using ::testing::HasSubstr;

TEST(Accelerator, ReadsEveryField) {
  auto description = testing::stock_accelerator();
  description["revision"] = "0.0.2";
  description["clock_hz"] = 100000000;
  const auto accelerator = parse_accelerator(description.dump());
  ASSERT_TRUE(accelerator.ok()) << accelerator.status().message();
  EXPECT_EQ(*accelerator, (Accelerator{.revision = Revision::k0_0_2, .clock_hz = 100'000'000}));
  EXPECT_EQ(accelerator->configuration(), "1x16_i8w8a32_15_15_18_17");
  EXPECT_EQ(accelerator->uop_depth(), 8192U);
  EXPECT_EQ(accelerator->wgt_depth(), 1024U);
}

TEST(Accelerator, ReadsFieldsThatOlderDescriptionsLack) {
  auto description = testing::stock_accelerator();
  EXPECT_EQ(parse_accelerator(description.dump())->implementation, Implementation::kUnknown);
  EXPECT_EQ(parse_accelerator(description.dump())->load_commands(), 512U);
  description["implementation"] = "chisel";
  description["load_queue_depth"] = 128;
  description["uop_buffer_bytes_log2"] = 13;
  description["uop_index_bits"] = 13;
  const auto accelerator = parse_accelerator(description.dump());
  ASSERT_TRUE(accelerator.ok()) << accelerator.status().message();
  EXPECT_EQ(accelerator->implementation, Implementation::kChisel);
  EXPECT_EQ(accelerator->load_commands(), 128U);
  EXPECT_EQ(accelerator->uop_depth(), 2048U);
  EXPECT_EQ(accelerator->uop_bits(), 13U);
  description["implementation"] = "verilog";
  EXPECT_THAT(parse_accelerator(description.dump()).status().message(),
              HasSubstr("implementation is unknown, expected hls, chisel or ''"));
  description["implementation"] = "hls";
  description["load_queue_depth"] = -1;
  EXPECT_THAT(parse_accelerator(description.dump()).status().message(),
              HasSubstr("field 'load_queue_depth' is not a 32-bit whole number"));
}

TEST(Accelerator, ReadsExtensionsByName) {
  auto description = testing::stock_accelerator();
  EXPECT_EQ(parse_accelerator(description.dump())->extensions, 0U);
  description["extensions"] = nlohmann::json::array({"requantise"});
  const auto accelerator = parse_accelerator(description.dump());
  ASSERT_TRUE(accelerator.ok()) << accelerator.status().message();
  EXPECT_TRUE(accelerator->has(Extension::kRequantise));
  EXPECT_FALSE(accelerator->has(Extension::kMultiply));
  for (const auto& wrong : {nlohmann::json("requantise"), nlohmann::json::array({"divide"})}) {
    description["extensions"] = wrong;
    EXPECT_THAT(parse_accelerator(description.dump()).status().message(),
                HasSubstr("extensions: expected a list of requantise, multiply, table, leaky, "
                          "clear, widen, pad_value"));
  }
  description["extensions"] = nlohmann::json::array({"multiply"});
  description["implementation"] = "hls";
  EXPECT_THAT(parse_accelerator(description.dump()).status().message(),
              HasSubstr("implementation and extensions are both given"));
}

TEST(Accelerator, RefusesStepsThatFollowEachOtherWhereNoResultIsPassedOn) {
  const Accelerator close{.acc_hazard_steps = 1, .implementation = Implementation::kChisel};
  EXPECT_THAT(close.validate().message(), HasSubstr("acc_hazard_steps is 1, expected >= 2"));
}

TEST(Accelerator, RefusesAnIndexThatCannotNameEveryUopAndOneThatIsTooWide) {
  for (const std::uint32_t bits : {12U, 14U}) {
    EXPECT_THAT((Accelerator{.uop_index_bits = bits}).validate().message(),
                HasSubstr("expected 13 to 13, or 0"));
  }
}

TEST(Accelerator, HasSeveralOutputBlocksInAnInputBlockIfItIsOurOwn) {
  const Accelerator wide{.block_in = 32, .inp_buffer_bytes_log2 = 16};
  EXPECT_TRUE(wide.validate().ok()) << wide.validate().message();
  EXPECT_EQ(wide.configuration(), "1x32x16_i8w8a32_15_16_18_17");
  EXPECT_EQ(wide.wgt_bytes(), 512U);
  EXPECT_EQ(wide.wgt_depth(), 512U);
  EXPECT_EQ(wide.out_bytes(), 16U);
  EXPECT_THAT((Accelerator{.block_in = 8}).validate().message(),
              HasSubstr("block_in 8 is smaller than block_out 16"));
  EXPECT_THAT((Accelerator{.batch = 2, .block_in = 32}).validate().message(),
              HasSubstr("block_in 32 differs from block_out 16, but upstream's builds and"));
  EXPECT_FALSE(
      (Accelerator{.block_in = 32, .implementation = Implementation::kHls}).validate().ok());
}

TEST(Accelerator, NamesAMissingAnUnknownAndAWrongField) {
  auto missing = testing::stock_accelerator();
  missing.erase("batch");
  EXPECT_THAT(parse_accelerator(missing.dump()).status().message(), HasSubstr("field 'batch'"));
  auto unknown = testing::stock_accelerator();
  unknown["colour"] = "red";
  EXPECT_THAT(parse_accelerator(unknown.dump()).status().message(),
              HasSubstr("unknown field 'colour'"));
  auto revision = testing::stock_accelerator();
  revision["revision"] = "0.0.9";
  EXPECT_THAT(parse_accelerator(revision.dump()).status().message(),
              HasSubstr("encoding revision '0.0.9' is unknown"));
  EXPECT_FALSE(parse_accelerator("[1]").ok());
}

TEST(Accelerator, RefusesWhatNoVtaCanHave) {
  EXPECT_FALSE((Accelerator{.block_out = 24}).validate().ok());
  EXPECT_FALSE((Accelerator{.block_in = 12, .block_out = 12}).validate().ok());
  EXPECT_FALSE((Accelerator{.wgt_buffer_bytes_log2 = 7}).validate().ok());
  EXPECT_THAT((Accelerator{.uop_buffer_bytes_log2 = 20}).validate().message(),
              HasSubstr("wider instruction or uop fields"));
}

}  // namespace
}  // namespace edgepipe
