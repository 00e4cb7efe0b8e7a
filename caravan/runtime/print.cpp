#include "caravan/runtime/print.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <unordered_map>

#include "caravan/autodiff/grad.h"
#include "caravan/base/list_text.h"
#include "caravan/ir/print.h"
#include "caravan/runtime/context_impl.h"

namespace caravan {

namespace {

// The nodes whose values `root` needs, numbered from 1, operands first.
struct Listing {
  std::vector<Tensor> nodes;
  std::unordered_map<const Node*, int> number;

  explicit Listing(const Tensor& root) : nodes(topological({root}, true)) {
    for (size_t i = 0; i < nodes.size(); ++i) number[&nodes[i].node()] = int(i) + 1;
  }
  std::string line(const Tensor& t) const {
    std::string operands;
    for_each_read(t.node(),
                  [&](const Tensor& o) { add_to_list(operands, std::to_string(number.at(&o.node())), "; "); });
    return "[" + std::to_string(number.at(&t.node())) + "] " + t.node().label + " <- [" + operands + "]";
  }
};

std::string value_text(const Array& array) {
  if (array.size() == 1) return to_string(array.reshaped({}));
  std::string text = to_string(array, 4);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.size() <= 60 ? text : to_string(array.shape()) + " ..";
}

// What each node of a listing holds, and the gradient of the root by it, as text; empty where there is none. Data are
// not computed.
struct Values {
  std::vector<std::string> data, gradient;

  Values(const Listing& listing, const Tensor& root, Context& ctx, const IndexValues& values)
      : data(listing.nodes.size()), gradient(listing.nodes.size()) {
    std::vector<size_t> computed, differentiated;
    std::vector<Tensor> all, floats;
    for (size_t i = 0; i < listing.nodes.size(); ++i) {
      const Tensor& t = listing.nodes[i];
      if (const auto* known = std::get_if<DataNode>(&t.node().kind)) {
        data[i] = value_text(known->array);
        continue;
      }
      computed.push_back(i), all.push_back(t);
      if (is_float(root.dtype()) && is_float(t.dtype()) && !t.node().weak)
        differentiated.push_back(i), floats.push_back(t);
    }
    for (const Tensor& g : grad_or_none(root, floats)) all.push_back(g);
    const std::vector<Array> results = ctx.eval(all, values);
    for (size_t k = 0; k < computed.size(); ++k) data[computed[k]] = value_text(results[k]);
    for (size_t k = 0; k < differentiated.size(); ++k)
      gradient[differentiated[k]] = value_text(results[computed.size() + k]);
  }

 private:
  static std::vector<Tensor> grad_or_none(const Tensor& root, const std::vector<Tensor>& floats) {
    return floats.empty() ? std::vector<Tensor>{}
                          : grad(root, floats, {.allow_unused = true, .cotangent = ones_like(root)});
  }
};

}  // namespace

void print_graph(std::ostream& out, const Tensor& root, Context& ctx, const IndexValues& values) {
  const Listing listing(root);
  const Values shown(listing, root, ctx, values);
  for (size_t i = 0; i < listing.nodes.size(); ++i) {
    out << listing.line(listing.nodes[i]) << ": data=" << shown.data[i];
    if (!shown.gradient[i].empty()) out << ", grad=" << shown.gradient[i];
    out << '\n';
  }
}

void print_graph(std::ostream& out, const Tensor& root) {
  Listing listing(root);
  for (const Tensor& t : listing.nodes)
    out << listing.line(t) << (t.node().accumulate() ? "  " + describe(t) : "") << '\n';
}

namespace {

void print_shapes(std::ostream& stream, const Inference& inference) {
  std::ostringstream out;  // leaves the stream's flags alone
  size_t width = 0;
  const std::vector<Tensor> order = topological(inference.results(), true);
  for (const Tensor& t : order) width = std::max(width, std::min<size_t>(t.node().label.size(), 24));
  for (const Tensor& t : order) {
    std::string shape = to_string(inference.shape(t));
    out << std::left << std::setw(int(width)) << t.node().label << "  " << std::setw(14)
        << (shape.empty() ? "()" : shape) << "  " << std::setw(4) << name(t.dtype())
        << (t.node().accumulate() ? "  " + describe(t) : "") << '\n';
  }
  stream << out.str();
}

}  // namespace

void print_shapes(std::ostream& out, const Program& program) { print_shapes(out, Inference(program)); }
void print_shapes(std::ostream& out, const Routine& routine) { print_shapes(out, inference_of(routine)); }
void print_constraints(std::ostream& out, const Program& program) {
  out << shape::to_string(Inference(program).system());
}
void print_constraints(std::ostream& out, const Routine& routine) {
  out << shape::to_string(inference_of(routine).system());
}
void print_assignments(std::ostream& out, const Program& program) {
  out << ir::readable(to_ir(program, Inference(program)));
}
void print_assignments(std::ostream& out, const Routine& routine) { out << routine.to_string(); }

namespace {

// Text inside a label of Graphviz; in a record, bars and brackets mean something too.
std::string escaped(const std::string& text, const char* special) {
  std::string out;
  for (char c : text) {
    if (std::strchr(special, c)) out += '\\';
    out += c;
  }
  return out;
}

// The fields of a box: the axes of each kind that a shape has.
std::string axes_text(const Shape& shape) {
  std::string out;
  auto add = [&](const char* kind, const Row& row) {
    for (const Axis& axis : row) add_to_list(out, std::string(kind) + "\\n" + std::to_string(axis.size), " | ");
  };
  add("batch", shape.batch), add("in", shape.input), add("out", shape.output);
  return out.empty() ? "scalar" : out;
}

using NodeLabel = std::function<std::string(size_t node)>;  // with its attributes
std::string graphviz_of(const Listing& listing, const char* shape, const NodeLabel& label) {
  std::string out = "digraph graph_of_" + std::to_string(listing.nodes.size()) +
                    "_nodes {\n  rankdir=BT;\n  node [shape=" + shape + ", style=rounded, fontname=\"sans-serif\"];\n";
  for (size_t i = 0; i < listing.nodes.size(); ++i) {
    const std::string id = "n" + std::to_string(i + 1);
    out += "  " + id + " [label=\"" + label(i) + "];\n";
    for_each_read(listing.nodes[i].node(), [&](const Tensor& o) {
      out += "  n" + std::to_string(listing.number.at(&o.node())) + " -> " + id + ";\n";
    });
  }
  return out + "}\n";
}

std::string name_in_graph(const Tensor& t) { return t.node().accumulate() ? describe(t) : t.node().label; }
const char* const kStateColour = ", style=\"rounded,filled\", fillcolor=\"#dde8f8\"";

}  // namespace

std::string graphviz(const Tensor& root) {
  const Listing listing(root);
  return graphviz_of(listing, "box", [&](size_t i) {
    const Node& node = listing.nodes[i].node();
    return escaped(name_in_graph(listing.nodes[i]), "\"\\") + "\"" +
           (node.state()        ? kStateColour
            : node.accumulate() ? ""
                                : ", shape=plaintext");
  });
}

std::string graphviz(const Tensor& root, Context& ctx, const IndexValues& values) {
  const Listing listing(root);
  const Values shown(listing, root, ctx, values);
  return graphviz_of(listing, "record", [&](size_t i) {
    const char* special = "\"\\{}|<>";
    const Tensor& t = listing.nodes[i];
    std::string out = "{" + escaped(name_in_graph(t), special) + " | {" + axes_text(ctx.shape(t)) + "} | " +
                      escaped(shown.data[i], special);
    if (!shown.gradient[i].empty()) out += " | gradient " + escaped(shown.gradient[i], special);
    return out + "}\"" + (t.node().state() ? kStateColour : "");
  });
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "an undefined tensor";
  return out << describe(tensor) << ": " << name(tensor.dtype()) << ", " << to_string(tensor.node().where);
}

std::ostream& operator<<(std::ostream& out, const Program& program) {
  for (const auto& a : program.assignments())
    out << a.state.node().label << " := " << describe(a.value) << "   # " << to_string(a.where) << '\n';
  for (const Tensor& t : program.observed()) out << "observe " << describe(t) << '\n';
  return out;
}

}  // namespace caravan
