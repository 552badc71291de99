// page_file: the files of cpp_runtime/www, which CMake builds into the program.
#pragma once

#include <string_view>

namespace edgepipe {

struct PageFile {
  std::string_view path;  // "/", "/page.css", ...
  std::string_view type;
  std::string_view content;
};

/// The file at a path of the page; null if there is none.
const PageFile* page_file(std::string_view path);

}  // namespace edgepipe
