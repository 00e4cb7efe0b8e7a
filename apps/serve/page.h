// The files of page/, in the binary: cmake/embed.cmake writes them down for page.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace caravan::serve {

struct PageFile {
  std::string_view path;  // "/style.css"
  std::string_view content;
};
const std::vector<PageFile>& page_files();

}  // namespace caravan::serve
