#include "caravan/runtime/trace.h"

#include <charconv>
#include <cmath>
#include <ostream>
#include <set>
#include <sstream>

#include "caravan/loop/walk.h"
#include "caravan/passes/pipeline.h"
#include "caravan/tensor/infer.h"

namespace caravan {

namespace {

// JSON as it is written: objects and arrays, one entry a line.
class Json {
 public:
  explicit Json(std::ostream& out) : out_(out) {}

  void open(const char* key, char bracket) {
    begin(key);
    out_ << bracket;
    closing_.push_back(bracket == '{' ? '}' : ']'), empty_ = true;
  }
  void open(char bracket) { open(nullptr, bracket); }
  void close() {
    const char bracket = closing_.back();
    closing_.pop_back();
    if (!empty_) new_line();
    out_ << bracket;
    empty_ = false;
    if (closing_.empty()) out_ << '\n';
  }
  void text(const char* key, const std::string& value) {
    begin(key);
    quoted(value);
  }
  void text(const std::string& value) { text(nullptr, value); }
  void number(const char* key, double value) {
    begin(key);
    plain(value);
  }
  void truth(const char* key, bool value) {
    begin(key);
    out_ << (value ? "true" : "false");
  }
  template <class Numbers>
  void numbers(const char* key, const Numbers& values) {  // in one line
    begin(key);
    out_ << '[';
    bool first = true;
    for (double v : values) {
      if (!first) out_ << ", ";
      plain(v), first = false;
    }
    out_ << ']';
  }

 private:
  void new_line() { out_ << '\n' << std::string(2 * closing_.size(), ' '); }
  void begin(const char* key) {
    if (!closing_.empty()) {
      if (!empty_) out_ << ',';
      new_line();
    }
    empty_ = false;
    if (!key) return;
    quoted(key);
    out_ << ": ";
  }
  void plain(double value) {
    if (!std::isfinite(value)) {
      out_ << "null";
      return;
    }
    char buffer[32];
    out_ << std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  }
  void quoted(const std::string& text) {
    constexpr char hex[] = "0123456789abcdef";
    out_ << '"';
    for (char c : text) {
      if (c == '"' || c == '\\')
        out_ << '\\' << c;
      else if (uint8_t(c) < 0x20)
        out_ << "\\u00" << hex[uint8_t(c) >> 4] << hex[c & 15];
      else
        out_ << c;
    }
    out_ << '"';
  }

  std::ostream& out_;
  std::vector<char> closing_;
  bool empty_ = true;  // nothing since the last bracket was opened
};

std::string line_of(Source where) { return where.known() ? to_string(where) : ""; }

void write_constraints(Json& json, const Inference& inference) {
  const shape::System& system = inference.system();
  json.open("constraints", '{');
  json.open("asked", '[');
  std::istringstream lines(shape::to_string(system));
  for (std::string line; std::getline(lines, line);) json.text(line);
  json.close();

  json.open("axes", '[');
  for (size_t a = 0; a < system.axes.size(); ++a) {
    const auto& [name, origin] = system.axes[a];
    if (name.empty()) continue;
    const shape::Origin& from = system.origins[size_t(origin)];
    json.open('{');
    json.text("name", name), json.number("size", double(inference.solution().size(shape::AxisId(a))));
    json.text("from", from.text), json.text("line", line_of(from.where));
    json.close();
  }
  json.close();

  json.open("tensors", '[');
  for (const Tensor& t : inference.order()) {
    const Node& node = t.node();
    const Shape shape = inference.shape(t);
    json.open('{');
    json.text("label", node.label), json.text("what", describe(t)), json.text("line", line_of(node.where));
    json.text("dtype", std::string(name(node.dtype))), json.text("shape", to_string(shape));
    for (RowKind kind : kRowKinds) {
      std::vector<int64_t> sizes;
      for (const Axis& axis : shape[kind]) sizes.push_back(axis.size);
      json.numbers(std::string(name(kind)).c_str(), sizes);
    }
    if (const AccumulateNode* n = node.accumulate()) {
      const shape::Projection projection = inference.projection(*n);
      json.open("iterators", '[');
      for (size_t k = 0; k < projection.iterators.size(); ++k) {
        json.open('{');
        json.text("name", projection.iterators[k]), json.number("size", double(projection.extents[k]));
        json.truth("reduced", projection.reduced[k]);
        json.close();
      }
      json.close();
    }
    json.close();
  }
  json.close();
  json.close();
}

void write_passes(Json& json, const passes::Result& compiled) {
  json.open("passes", '[');
  for (const passes::LogEntry& entry : compiled.log) {
    json.open('{');
    json.text("name", entry.pass), json.number("milliseconds", entry.milliseconds);
    json.truth("changed", entry.changed);
    json.number(entry.over_loops ? "kernels" : "accumulations", double(entry.count));
    json.close();
  }
  json.close();
}

void write_kernels(Json& json, const loop::Module& module) {
  json.open("kernels", '[');
  for (const loop::Kernel& kernel : module.kernels) {
    std::set<ir::BufferId> read, written;
    loop::for_each_access(kernel.body,
                          [&](const loop::Access& access) { (access.write ? written : read).insert(access.buffer); });
    json.open('{');
    json.text("name", kernel.name);
    json.open("from", '[');
    for (const std::string& comment : kernel.comments) json.text(comment);
    json.close();
    for (const auto& [key, buffers] : {std::pair{"reads", read}, std::pair{"writes", written}}) {
      json.open(key, '[');
      for (ir::BufferId id : buffers) json.text(module.program.buffers[size_t(id)].name);
      json.close();
    }
    json.close();
  }
  json.close();
}

void write_values(Json& json, const Program& program, Context& ctx, const IndexValues& indices) {
  std::vector<Tensor> roots = program.observed(), seen;
  std::set<const Node*> wanted;
  for (const Tensor& t : roots) wanted.insert(&t.node());
  for (const auto& a : program.assignments()) roots.push_back(a.value), roots.push_back(a.state);
  for (const Tensor& t : topological(roots, true))
    if (t.node().state() || t.node().named || wanted.count(&t.node())) seen.push_back(t);
  const std::vector<Array> values = ctx.eval(seen, indices);

  json.open("values", '[');
  for (size_t k = 0; k < seen.size(); ++k) {
    const Node& node = seen[k].node();
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t nans = 0, infinities = 0, finite = 0;
    for (double v : values[k].values()) {
      nans += std::isnan(v), infinities += std::isinf(v);
      if (!std::isfinite(v)) continue;
      low = std::min(low, v), high = std::max(high, v), sum += v, ++finite;
    }
    std::vector<double> first;
    for (int64_t i = 0; i < std::min<int64_t>(values[k].size(), 8); ++i) first.push_back(values[k].at(i));
    json.open('{');
    json.text("label", node.label), json.text("what", describe(seen[k])), json.text("line", line_of(node.where));
    json.text("kind", node.state() ? "state" : wanted.count(&node) ? "observed" : "named");
    json.text("dtype", std::string(name(node.dtype))), json.text("shape", to_string(values[k].shape()));
    json.number("min", low), json.number("max", high), json.number("mean", sum / double(finite));  // of the finite ones
    json.number("nan", double(nans)), json.number("infinite", double(infinities));
    json.numbers("first", first);
    json.close();
  }
  json.close();
}

}  // namespace

void write_trace(std::ostream& out, const Program& program, Context& ctx, const TraceOptions& options) {
  const Inference inference(program);
  const ir::Program solved = to_ir(program, inference);
  const passes::Result compiled = passes::run(solved, {options.passes_off});
  Json json(out);
  json.open('{');
  json.text("program", solved.name), json.text("device", ctx.device());
  write_constraints(json, inference);
  write_passes(json, compiled);
  write_kernels(json, compiled.module);
  write_values(json, program, ctx, options.indices);
  json.close();
}

}  // namespace caravan
