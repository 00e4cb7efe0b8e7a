#include "apps/serve/page.h"

namespace caravan::serve {

const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> files = {
#include "apps/serve/page.inc"
  };
  return files;
}

}  // namespace caravan::serve
