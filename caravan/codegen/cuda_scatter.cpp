// How sums into a table are printed (schedule/gpu_scatters.h): as a call of caravan_scatter (prelude/scatter.cuh) with
// functions for the row of a term, for adding a term, and for storing a sum.
#include "caravan/codegen/cuda_printer.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::codegen {

using namespace loop;

namespace {

int64_t iterations(const std::vector<const For*>& loops) {
  return loops.empty() ? 1 : loops[0]->extent * loops[0]->chunk;
}

}  // namespace

void CudaPrinter::print_scatter(const For& rows) {
  CudaNest nest;
  take_apart(rows.body, nest);
  // The guard asks whether the index minus the row is 0. Its value for row 0 is the row that a term belongs to.
  Term row;
  std::erase_if(nest.guard.where, [&](const Term& term) {
    const int64_t sign = coefficient(term, rows.variable);
    if (sign == -1) row = term + Term::iterator(rows.variable);
    return sign != 0;
  });
  const int64_t blocks = std::get<For>(statements(kernel_).back()).chunk;  // of the grid loop around
  const std::string type = dialect_.element_type(this->type(nest.reset->to)), total = register_name(nest.reset->to),
                    extent = std::to_string((rows.extent + blocks - 1) / blocks);
  std::set<Register> asked, added = {nest.combine->value};
  for_each_use(nest.guard, [&](Register r) { asked.insert(r); });
  for (const Term::Part& part : row.parts)
    if (part.kind == Term::Part::Kind::load) asked.insert(part.which);
  if (nest.combine->factor >= 0) added.insert(nest.combine->factor);
  auto end = [&](const char* text) {
    --depth_;
    line(text);
  };

  line("caravan_scatter<" + std::to_string(kernel_.grid.lanes) + ", " + extent + ", " + type + ">(");
  ++depth_;
  line("caravan_lane, " + std::to_string(iterations(nest.columns)) + ", " + std::to_string(iterations(nest.terms)) +
       ", " + number(nest.reset->value, this->type(nest.reset->to)).text + ",");
  line("[&](int caravan_term) -> int {");
  ++depth_;
  print_digits(nest.terms, "caravan_term");
  print_block(needed(nest.before, asked));
  if (!nest.guard.where.empty()) line("if (!(" + condition(nest.guard) + ")) return -1;");
  line("const int64_t caravan_row = " + index(row).text + " - " + extent + " * int64_t(caravan_at);");
  line("return caravan_row >= 0 && caravan_row < " + extent + " ? int(caravan_row) : -1;");
  end("},");
  line("[&](int caravan_term, int caravan_column, " + type + "& " + total + ") {");
  ++depth_;
  texts_[size_t(nest.reset->to)] = {total};
  print_digits(nest.terms, "caravan_term"), print_digits(nest.columns, "caravan_column");
  print_block(needed(nest.before, added));
  print(*nest.combine);
  end("},");
  line("[&](int caravan_row, int caravan_column, " + type + " " + total + ") {");
  ++depth_;
  line("const " + index_ + " " + variable_name(rows.variable) + " = caravan_row + " + extent + " * caravan_at;");
  print_digits(nest.columns, "caravan_column");
  print(std::get<StoreCombine>(nest.after.at(0)));
  end("});");
  --depth_;
}

}  // namespace caravan::codegen
