// The test driver of foreign_device_test.cc (drivers/simulator_driver.cc), opened for an
// accelerator.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "device/foreign_device.h"

namespace edgepipe::testing {

/// Such a library knows its own accelerator; this one reads it from the environment.
inline Result<std::unique_ptr<Device>> open_test_driver(const char* revision) {
  const std::string json =
      R"({"revision":")" + std::string(revision) +
      R"(","clock_hz":100000000,"batch":1,"block_in":16,"block_out":16,)"
      R"("uop_buffer_bytes_log2":15,"inp_buffer_bytes_log2":15,"wgt_buffer_bytes_log2":18,)"
      R"("acc_buffer_bytes_log2":17,"acc_hazard_steps":8,"command_queue_depth":512,)"
      R"("token_queue_depth":1024})";
  ::setenv("EDGEPIPE_TEST_ACCELERATOR", json.c_str(), 1);
  const Result<Accelerator> accelerator = parse_accelerator(json);
  if (!accelerator.ok()) return accelerator.status();
  return open_foreign_device(*accelerator,
                             *parse_library(std::string(EDGEPIPE_TEST_DRIVER "@") + revision));
}

}  // namespace edgepipe::testing
