// A spec that is made at run time, on operands of any shapes: refused by a sentence, or inferred and turned into
// accumulations that verify. The first line is the spec, `n=3` binds a name, `?i<j` is a condition, any other line a
// shape.
#include <cstdlib>

#include "caravan/base/error.h"
#include "caravan/data/text.h"
#include "caravan/ir/program.h"
#include "caravan/tensor/infer.h"
#include "fuzz.h"

using namespace caravan;

namespace {

// A spec has at most three operands here, and sizes that fit a test.
constexpr int64_t kLargestSize = 1000;

Tensor operand(const std::string& name, const std::string& text) {
  const Shape shape = parse_shape(text);
  auto given = [](const Row& row) {
    Extents out;
    for (const Axis& axis : row) out.push_back(Extent(axis.size, axis.basis));
    return GivenRow(out);
  };
  for (const int64_t size : shape.sizes())
    if (size > kLargestSize) throw ShapeError("too large for a test");
  return input(name, {.batch = given(shape.batch), .input = given(shape.input), .output = given(shape.output)});
}

Tensor result(const std::vector<std::string>& lines) {
  std::vector<Tensor> operands;
  Bindings bindings;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t equals = lines[i].find('=');
    if (lines[i].starts_with('?'))
      bindings.list.push_back(lines[i].c_str() + 1);
    else if (equals == std::string::npos)
      operands.push_back(operand("operand" + std::to_string(i), lines[i]));
    else if (equals > 0)
      bindings.list.push_back({lines[i].substr(0, equals), std::atoi(lines[i].c_str() + equals + 1) % kLargestSize});
    if (operands.size() == 3) break;
  }
  const RuntimeSpec text = spec(lines[0]);
  if (lines[0].find('^') != std::string::npos) {
    check_operand_count({text.text, text.where}, int(operands.size()));
    return concat(text, operands, bindings);
  }
  if (operands.size() == 1) return einsum(text, operands[0], bindings);
  if (operands.size() == 2) return einmax(text, operands[0], operands[1], bindings);
  if (operands.size() == 3) return einsum(text, operands[0], operands[1], operands[2], bindings);
  throw SpecError("no operands");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) try {
  const std::vector<std::string> lines = data::lines(text_of(data, size));
  if (lines.empty()) return 0;
  const Program program = observe(result(lines));
  const Inference inference(program);
  verify(to_ir(program, inference));
  return 0;
} catch (const UserError&) {
  return 0;
}

std::vector<std::string> seeds() {
  return {"ij;jk=>ik\n3,4\n4,5",
          "... | 2*o=+k, ic; k, ic -> oc => ... | o, oc\n8|32,3\n5,3->16",
          "2*o<1+k => o\n9\nk=3",
          "a; b => a^b\n3\n2",
          "...|i, j => ...|j, i\n2|3,4",
          "i; i; i => i\n3\n3\n3",
          "b|..a..->..c.. => b|..c..->..a..\n2|3->4",
          "i, i => i\n3,3",
          "3*i+j => i&j\n12\nj=3",
          "x&y => x, y\n12\nx=3",
          "..r.. => \n2,3",
          "1*i+1 => i\n4",
          "-i => i\n4",
          "0, i => i\n2,3",
          "3^rest => rest\n8",
          "j => i\n6\ni=6\n?j <= i"};
}
