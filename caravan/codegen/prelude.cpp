#include "caravan/codegen/prelude.h"

#include "caravan/codegen/c.h"

namespace caravan::codegen {

std::string cpu_prelude(bool with_math, bool with_attention) {
  std::string out = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n";
  auto add = [&](std::string_view text) { out.append("\n").append(text); };
  if (with_math) add(kMathPrelude);
  add(kCpuPrelude);
  for (const Helper& helper : kHelpers) add(helper.text);
  if (with_attention) add(kCpuAttentionPrelude);
  return out;
}

}  // namespace caravan::codegen
