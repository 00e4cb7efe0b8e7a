#include "programs.h"

#include <memory>

#include "caravan/tensor/infer.h"

namespace caravan {

ir::Program to_ir(const Program& program) { return to_ir(program, Inference(program)); }

std::vector<std::string> lines_of(const std::string& text, const std::vector<std::string>& without) {
  std::vector<std::string> out;
  for (size_t from = 0; from < text.size();) {
    size_t end = std::min(text.find('\n', from), text.size());
    std::string line = text.substr(from, end - from);
    from = end + 1;
    line.resize(std::min(line.find("# "), line.size()));
    while (!line.empty() && line.back() == ' ') line.pop_back();
    bool keep = !line.empty();
    for (const std::string& prefix : without) keep = keep && line.rfind(prefix, 0) != 0;
    if (keep) out.push_back(line);
  }
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string body_of(const ir::Program& program) {
  std::vector<std::string> kept;
  for (const ir::Accumulation& a : program.accumulations) kept.push_back(ir::to_string(program, a));
  for (const auto& a : program.assignments)
    kept.push_back(program.buffers[size_t(a.state)].name + " := " + program.buffers[size_t(a.value)].name);
  return joined(lines_of(joined(kept)));
}

Task task_of(const Program& program, const IndexValues& indices) {
  Task out{to_ir(program), {}, {}};
  Context ctx({.seed = 7, .device = "interp"});
  ctx.compile(program);
  for (const ir::Buffer& b : out.program.buffers)
    if (std::holds_alternative<ir::StateLeaf>(b.kind) && ctx.has(b.name)) out.states[b.name] = ctx.read(b.name);
  for (const ir::Symbol& symbol : out.program.symbols)
    for (const auto& [index, value] : indices)
      if (index.name() == symbol.name) out.symbols.push_back(value);
  return out;
}

ir::Body rewritten(const ir::Body& from, const ChangeArguments& change, DType (*cast_to)(DType)) {
  ir::Body body;
  std::vector<int> at;
  for (const ir::Scalar& s : from.entries()) {
    std::vector<int> args;
    const int arity = s.kind == ir::Scalar::Kind::apply ? row(s.op).arity : s.kind == ir::Scalar::Kind::cast ? 1 : 0;
    for (int k = 0; k < arity; ++k) args.push_back(at[size_t(s.args[k])]);
    args = change(body, s, at.size(), args);
    switch (s.kind) {
      case ir::Scalar::Kind::constant: at.push_back(body.constant(s.constant, s.dtype)); break;
      case ir::Scalar::Kind::load: at.push_back(body.load(s.operand)); break;
      case ir::Scalar::Kind::position: at.push_back(body.position()); break;
      case ir::Scalar::Kind::cast: at.push_back(body.cast(cast_to(s.dtype), args[0])); break;
      case ir::Scalar::Kind::apply: at.push_back(body.apply(s.op, args)); break;
    }
  }
  body.finish(at.back());
  return body;
}

Task in_f32(Task task) {
  auto narrow = [](DType dtype) { return dtype == DType::f64 ? DType::f32 : dtype; };
  for (ir::Buffer& b : task.program.buffers) {
    if (auto* data = std::get_if<ir::DataLeaf>(&b.kind))
      data->array = data->array.cast(narrow(b.dtype)), data->number.reset();
    b.dtype = narrow(b.dtype);
  }
  for (ir::Accumulation& a : task.program.accumulations)
    a.body = rewritten(
        a.body, [](ir::Body&, const ir::Scalar&, size_t, std::vector<int> args) { return args; }, narrow);
  for (auto& [name, value] : task.states)
    if (value.dtype() == DType::f64) value = value.cast(DType::f32);
  return task;
}

Task joined(const std::vector<Task>& tasks) {
  Task out;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const ir::Program& p = tasks[t].program;
    const std::string prefix = "t" + std::to_string(t) + ".";
    const int buffers = int(out.program.buffers.size()), symbols = int(out.program.symbols.size());
    auto moved = [&](std::vector<ir::Term> terms) {
      for (ir::Term& term : terms)
        for (ir::Term::Part& part : term.parts)
          if (part.kind == ir::Term::Part::Kind::symbol) part.which += symbols;
      return terms;
    };
    for (ir::Symbol s : p.symbols) s.name = prefix + s.name, out.program.symbols.push_back(s);
    for (ir::Buffer b : p.buffers) {
      b.name = prefix + b.name;
      if (auto* symbol = std::get_if<ir::SymbolLeaf>(&b.kind)) symbol->symbol += symbols;
      if (auto* random = std::get_if<ir::RandomLeaf>(&b.kind)) random->step += buffers;
      out.program.buffers.push_back(std::move(b));
    }
    for (ir::Accumulation a : p.accumulations) {
      a.target += buffers;
      a.where = moved(a.where), a.write = moved(a.write);
      for (ir::Operand& o : a.operands) o.buffer += buffers, o.map = moved(o.map);
      out.program.accumulations.push_back(std::move(a));
    }
    for (const auto& a : p.assignments) out.program.assignments.push_back({a.state + buffers, a.value + buffers});
    for (ir::BufferId id : p.observed) out.program.observed.push_back(id + buffers);
    for (const auto& [name, value] : tasks[t].states) out.states[prefix + name] = value;
    out.symbols.insert(out.symbols.end(), tasks[t].symbols.begin(), tasks[t].symbols.end());
  }
  return out;
}

Outcome run_on(backend::Device& device, const Task& task, int times, const plan::Options& options) {
  ir::verify(task.program);
  std::unique_ptr<backend::Executable> executable = backend::prepare(device, task.program, options).executable;
  for (const ir::Buffer& b : task.program.buffers)
    if (auto at = task.states.find(b.name); at != task.states.end() && std::holds_alternative<ir::StateLeaf>(b.kind))
      device.write(b.name, at->second, b.dtype);
  for (int i = 0; i < times; ++i) executable->run(task.symbols);
  Outcome out;
  for (size_t k = 0; k < task.program.observed.size(); ++k) out.observed.push_back(executable->observed(k));
  for (const auto& a : task.program.assignments) {
    const std::string& name = task.program.buffers[size_t(a.state)].name;
    out.states[name] = device.read(name);
  }
  return out;
}

}  // namespace caravan
