// Tar archives: each entry is seen, its content read or skipped, within the limit.
#include "caravan/data/tar.h"

#include "caravan/base/error.h"
#include "fuzz.h"

using namespace caravan;
using namespace caravan::data;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  TextSource source(text_of(data, size));
  TarReader reader(source, "fuzz.tar", {.unpacked = 1 << 20});
  bool reads = false;
  while (const std::optional<TarEntry> entry = reader.next())
    if ((reads = !reads)) must(reader.content().size() == entry->size);
  return 0;
} catch (const ConfigError&) {
  return 0;
}

namespace {

std::string entry(const std::string& name, char type, const std::string& content) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  block.replace(124, 11, size, 11);
  block.replace(148, 8, "        ");
  block[156] = type;
  block.replace(257, 8, "ustar\00000", 8);
  unsigned sum = 0;
  for (const char c : block) sum += uint8_t(c);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum & 0777777);
  block.replace(148, 7, digits, 7);
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string end(1024, '\0');
  return {
      entry("a/b", '0', "content") + entry("c", '2', "") + end,
      entry("pax", 'x', "19 path=long/name.x\n11 size=3\n") + entry("short", '0', "abc") + end,
      entry("././@LongLink", 'L', "a/long/name") + entry("short", '0', "abc") + entry("g", 'g', "9 k=value\n") + end};
}
