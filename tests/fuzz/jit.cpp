// Programs as text: refused by a sentence, or read; what is read is printed and read again as the same.
#include "caravan/base/error.h"
#include "caravan/jit/parse.h"
#include "fuzz.h"

using namespace caravan;

namespace {

// The text and the buffers of one line, as another program has them.
void must_be_read_again(const ir::Program& program, const ir::Accumulation& line) {
  jit::Buffers buffers;
  auto describe = [&](ir::BufferId id) {
    const ir::Buffer& buffer = program.buffers[size_t(id)];
    buffers.sizes[buffer.name] = buffer.shape.sizes();
    buffers.dtypes[buffer.name] = buffer.dtype;
  };
  describe(line.target);
  for (const ir::Operand& operand : line.operands) describe(operand.buffer);
  const ir::Program again = jit::parse_program(ir::to_string(program, line), buffers);
  must(again.accumulations.size() == 1);
  must(again.accumulations[0].extents == line.extents);
  must(again.accumulations[0].where == line.where);
  must(again.accumulations[0].write == line.write);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ir::Program program;
  try {
    program = jit::parse_program(text_of(data, size), {.sizes = {}, .dtypes = {}});
  } catch (const SpecError& error) {
    must(std::string_view(error.what()).size() < 1000 + size);
    return 0;
  }
  ir::verify(program);
  for (const ir::Accumulation& line : program.accumulations) must_be_read_again(program, line);
  return 0;
}

std::vector<std::string> seeds() {
  return {
      "y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128        # a remark",
      "p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0 and 8 - 2*o - k >= 0",
      "m[i] max= x[i, j]   for i < 4, j < 6\ns[i] += exp(x[i, j] - m[i])   for i < 4, j < 6\r\n\n"
      "y[i, j] += exp(x[i, j] - m[i]) / s[i]   for i < 4, j < 6",
      "n[b] argmax= x[b, c]   for b < 32, c < 10 counting c",
      "s += where(x[i] > 0.5, -x[i] ** 2, i32(1e3)) + position   for i < 2",
      "e[b, 1] += w[3 - b] * relu(--(((v))))   for b < 4",
      "s[ids[b]] += x[b]   for b < 3",
      "y[i] # x",
  };
}
