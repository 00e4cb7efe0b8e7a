#include "caravan/codegen/prelude.h"

namespace caravan::codegen {

namespace {

// What attention.h takes from the schedule.
std::string tiles_of(const loop::Attention& a) {
  auto define = [](const char* name, int64_t value) {
    return "#define " + std::string(name) + " " + std::to_string(value) + "\n";
  };
  return define("CARAVAN_W", a.lanes) + define("CARAVAN_R", a.tile_rows) +
         define("CARAVAN_C", a.tile_columns / a.lanes);
}

}  // namespace

std::string cpu_prelude(bool with_math, const loop::Attention* attention) {
  std::string out = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n";
  auto add = [&](std::string_view text) { out.append("\n").append(text); };
  if (with_math) add(kMathPrelude);
  add(kCpuPrelude);
  for (const Helper& helper : kHelpers) add(helper.text);
  if (attention) add(tiles_of(*attention) + std::string(kCpuAttentionPrelude));
  return out;
}

}  // namespace caravan::codegen
