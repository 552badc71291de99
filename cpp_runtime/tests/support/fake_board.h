// FakeBoard: folders that look like the kernel's /sys and /dev, for the board's parts of the
// driver.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/uio_device.h"
#include "memory/udmabuf_memory.h"

namespace edgepipe::testing {

/// One at a time in a process: the folder of its files is named after the process.
class FakeBoard {
 public:
  static constexpr std::uint64_t kUdmabufAddress = 0x7000'0000;

  FakeBoard() {
    std::filesystem::create_directories(devices);
    std::filesystem::create_directories(classes);
  }
  ~FakeBoard() { std::filesystem::remove_all(root); }
  FakeBoard(const FakeBoard&) = delete;
  FakeBoard& operator=(const FakeBoard&) = delete;

  static void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void add_uio(const std::string& number, const std::string& name, std::uint64_t bytes) {
    write(classes / "uio" / number / "name", name + "\n");
    write(classes / "uio" / number / "maps/map0/size", std::to_string(bytes) + "\n");
    write(devices / number, std::string(bytes, '\0'));
  }
  void add_udmabuf(const std::string& class_name, const std::string& coherent = "0",
                   std::size_t bytes = 65536) {
    const std::filesystem::path folder = classes / class_name / "udmabuf0";
    write(folder / "size", std::to_string(bytes) + "\n");
    write(folder / "phys_addr", "0x70000000\n");
    write(folder / "dma_coherent", coherent + "\n");
    write(folder / "sync_for_cpu", "");
    write(folder / "sync_for_device", "");
    write(devices / "udmabuf0", std::string(bytes, 'x'));
  }
  std::string attribute(const std::string& name) const {
    std::ifstream file(classes / "u-dma-buf/udmabuf0" / name);
    std::string text;
    std::getline(file, text);
    return text;
  }
  UdmabufMemory::Options memory_options() const {
    return {.devices = devices.string(), .classes = classes.string()};
  }
  UioOptions uio_options() const {
    return {.devices = devices.string(), .classes = classes.string()};
  }

  const std::filesystem::path root =
      std::filesystem::path(::testing::TempDir()) / ("board_" + std::to_string(::getpid()));
  const std::filesystem::path devices = root / "dev";
  const std::filesystem::path classes = root / "class";
};

}  // namespace edgepipe::testing
