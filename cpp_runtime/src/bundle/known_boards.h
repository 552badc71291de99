// The boards in board/ and the strings by which a device tree names them, for check_machine().
#pragma once

#include <span>
#include <string_view>

namespace edgepipe {

struct KnownBoard {
  std::string_view name;        // of its file in board/
  std::string_view compatible;  // one of the strings in the file's list of that name
};

/// One entry for each string. Made by CMake from board/*.toml.
std::span<const KnownBoard> known_boards();

}  // namespace edgepipe
