#include "caravan/ir/identity.h"

#include <bit>
#include <type_traits>

#include "caravan/base/match.h"

namespace caravan::ir {

namespace {

// Appends values so that no two lists of values give the same text: numbers have a fixed length, and whatever has not
// begins with its length.
class Writer {
 public:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void add(T value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
    out.append(bytes.data(), bytes.size());
  }
  void add(double value) { add(std::bit_cast<uint64_t>(value)); }
  void add(const std::string& text) { add(text.size()), out += text; }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const auto& value : list) add(value);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }

  void add(const Term::Part& part) { add(part.kind), add(part.which), add(part.coefficient); }
  void add(const Term& term) { add(term.constant), add(term.parts); }
  void add(const Operand& operand) { add(operand.buffer), add(operand.map); }
  void add(const Scalar& entry) {
    add(entry.kind), add(entry.constant), add(entry.operand), add(entry.op), add(entry.dtype);
    for (const int arg : entry.args) add(arg);
  }
  void add(const SumOrder::Block& block) { add(block.iterator), add(block.size); }
  void add(const SumOrder& order) { add(order.lanes), add(order.width), add(order.blocks), add(order.fused); }
  void add(const Collective& collective) { add(collective.kind), add(collective.mesh_axis); }
  void add(const Accumulation& a) {
    add(a.target), add(a.accumulator), add(a.iterators), add(a.extents), add(a.where), add(a.write), add(a.operands);
    add(a.body.entries()), add(a.counted), add(a.order), add(a.chosen_by), add(a.part), add(a.after), add(a.collective);
  }
  void add(const Buffer& buffer) {
    add(buffer.name), add(to_string(buffer.shape)), add(buffer.dtype), add(buffer.kind.index());
    match(
        buffer.kind, [](const StateLeaf&) {}, [](const DataLeaf&) {}, [&](const NumberLeaf& n) { add(n.value); },
        [&](const SymbolLeaf& s) { add(s.symbol); }, [](const IotaLeaf&) {},
        [&](const RandomLeaf& r) { add(r.stream), add(r.lane), add(r.width), add(r.step); }, [](const Computed&) {});
  }
  void add(const Symbol& symbol) { add(symbol.name), add(symbol.range); }
  void add(const Assignment& a) { add(a.state), add(a.value); }
  void add(const Placement& p) { add(p.buffer), add(p.axis), add(p.mesh_axis); }

  std::string out;
};

}  // namespace

std::string identity(const Program& program) {
  Writer writer;
  writer.add(program.name), writer.add(program.symbols), writer.add(program.buffers);
  writer.add(program.accumulations), writer.add(program.assignments), writer.add(program.observed);
  writer.add(program.placements);
  return std::move(writer.out);
}

}  // namespace caravan::ir
