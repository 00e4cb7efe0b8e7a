#include "caravan/codegen/gnu_printer.h"

#include "caravan/base/list_text.h"
#include "caravan/codegen/words.h"

namespace caravan::codegen {

using namespace loop;

void GnuPrinter::print(const Attention& a) {
  auto number = [](int64_t n) { return std::to_string(n); };
  const bool forward = a.part == Attention::Part::forward;
  const std::vector<Attention::Rows>&reads = a.reads, &writes = a.writes;
  std::vector<std::string> sizes = {
      number(a.rows),  number(a.columns), number(a.depth), literal(a.divisor, DType::f32), literal(a.scale, DType::f32),
      number(a.causal)};
  for (const Attention::Rows& r : {reads[0], reads[1], reads[2]}) sizes.push_back(number(r.row));
  sizes.push_back(forward ? number(writes[0].row) : "0");
  sizes.push_back(forward ? "0" : number(reads[3].row));
  for (size_t k = 0; k < 3; ++k) sizes.push_back(forward ? "0" : number(writes[k].row));
  sizes.push_back(number(a.kept_rows));
  for (const Attention::Order& order : {a.over_scores, a.over_rows, a.over_columns})
    sizes.push_back("{" + number(order.block) + ", " + number(order.slice) + "}");
  auto row = [&](const Attention::Rows& r) {
    return memory_name(r.buffer) + " + " + number(r.offset) + " + " + number(r.batch) + " * caravan_b + " +
           number(r.head) + " * caravan_h";
  };
  auto numbers = [&](ir::BufferId id) {
    return id < 0 ? std::string("caravan_unused") : memory_name(id) + " + " + number(a.rows) + " * caravan_n";
  };
  const bool shared = a.chunk > 0;
  std::vector<std::string> arguments = {"caravan_sizes", "caravan_room"};
  for (const Attention::Rows& r : reads) arguments.push_back(row(r));
  if (forward) arguments.push_back(row(writes[0]));
  arguments.push_back(numbers(a.totals)), arguments.push_back(numbers(a.sums));
  if (!forward)
    for (const Attention::Rows& r : writes) arguments.push_back(row(r));
  line("  const caravan_head caravan_sizes = {" + joined(sizes) + "};");
  if (a.rooms < 0)
    line("  CARAVAN_ALIGNED float caravan_room[" + number(a.room) + "];");
  else
    line("  float* caravan_room = " + memory_name(a.rooms) +
         (shared ? " + from / " + number(a.chunk) + " * " + number(a.room) : "") + ";");
  line("  for (int64_t caravan_n = " + std::string(shared ? "from" : "0") + "; caravan_n < " +
       (shared ? "to" : number(a.batch * a.heads)) + "; ++caravan_n) {");
  line("    const int64_t caravan_b = caravan_n / " + number(a.heads) + ", caravan_h = caravan_n % " + number(a.heads) +
       ";");
  if (a.totals < 0) line("    float caravan_unused[" + number(a.rows) + "];");
  line("    " + std::string(forward ? "caravan_attention(" : "caravan_attention_back(") + joined(arguments) + ");");
  for (size_t k = 0; k < writes.size(); ++k)
    if (writes[k].adds_zero)
      line("    caravan_plus_zero(" + row(writes[k]) + ", " + number(writes[k].row) + ", " +
           number(forward || k == 0 ? a.rows : a.columns) + ", " + number(a.depth) + ");");
  line("  }");
}

}  // namespace caravan::codegen
