#include "caravan/plan/products.h"

#include <algorithm>
#include <map>

#include "caravan/optimize/sums_of_products.h"

namespace caravan::plan {

std::vector<Product> products(const Plan& plan) {
  const std::vector<loop::Kernel>& kernels = plan.scheduled.kernels;
  std::map<std::string, std::vector<size_t>> places;  // of an accumulation, by its text: kernels with it
  for (size_t k = 0; k < kernels.size(); ++k)
    for (const std::string& text : kernels[k].comments) places[text].push_back(k);

  std::vector<Product> out;
  std::vector<std::vector<loop::Contraction>> tiles;  // by kernel: those that belong to no product yet
  for (const loop::Kernel& kernel : kernels) tiles.push_back(kernel.contractions);
  for (const optimize::SumOfProducts& sum : optimize::sums_of_products(plan.optimized)) {
    const auto at = places.find(sum.text);
    if (at == places.end()) continue;
    Product p{at->second.front(), sum.target, sum.batch, sum.rows, sum.columns, sum.terms};
    for (const size_t k : at->second) {
      if (p.way != Product::Way::loops) break;
      const loop::LibraryCall* call = loop::library_call(kernels[k]);
      const auto tile = std::find_if(tiles[k].begin(), tiles[k].end(), [&](const loop::Contraction& c) {
        return 2 * c.batch * c.rows * c.columns * c.terms == p.flops();
      });
      if (loop::attention(kernels[k])) p.way = Product::Way::attention;
      if (call && std::holds_alternative<loop::LibraryCall::Product>(call->function)) p.way = Product::Way::library;
      if (tile != tiles[k].end()) {
        p.way = Product::Way::tiles;
        p.batch = tile->batch, p.rows = tile->rows, p.columns = tile->columns, p.terms = tile->terms;
        p.tile_rows = tile->tile_rows, p.tile_columns = tile->tile_columns;
        tiles[k].erase(tile);
      }
      if (p.way != Product::Way::loops) p.kernel = k;
    }
    out.push_back(p);
  }
  std::stable_sort(out.begin(), out.end(), [](const Product& p, const Product& q) { return p.kernel < q.kernel; });
  return out;
}

std::string to_string(const Product& p) {
  auto count = [](int64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string way = "in loops";
  switch (p.way) {
    case Product::Way::tiles:
      way = "in tiles of " + std::to_string(p.tile_rows) + " x " + std::to_string(p.tile_columns);
      break;
    case Product::Way::attention: way = "in attention"; break;
    case Product::Way::library: way = "by a library"; break;
    case Product::Way::loops: break;
  }
  return count(p.rows, "row") + ", " + count(p.columns, "column") + ", " + count(p.terms, "term") +
         (p.batch > 1 ? ", " + std::to_string(p.batch) + " times" : "") + ": " + std::to_string(p.flops()) +
         " flops, " + way;
}

}  // namespace caravan::plan
