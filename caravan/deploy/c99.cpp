#include "caravan/deploy/c99.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "caravan/base/error.h"
#include "caravan/codegen/plain.h"
#include "caravan/codegen/words.h"
#include "caravan/deploy/text.h"
#include "caravan/deploy/weights.h"
#include "caravan/loop/walk.h"
#include "caravan/plan/plan.h"
#include "caravan/tensor/graph.h"

namespace caravan::deploy {

using codegen::c_type;
using codegen::comment;
using ir::Buffer;
using ir::BufferId;

namespace {

// Scratch memory is one array for each type of element, so that no element is ever of two types.
struct Pool {
  DType dtype;  // or another of the same C type
  const char* member;
};
constexpr Pool kPools[] = {{DType::f32, "floats"}, {DType::f64, "doubles"}, {DType::f16, "halves"},
                           {DType::u8, "bytes"},   {DType::i32, "ints"},    {DType::i64, "longs"}};

// Every line but the first; empty ones stay empty.
std::string indented(const std::string& text, const char* by) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size() && text[i + 1] != '\n') out += by;
  }
  return out;
}
std::string free_name(std::set<std::string>& taken, const std::string& text) {
  return codegen::unique(taken, codegen::identifier(text));
}

void check_prefix(const std::string& name) {
  const bool fits = !name.empty() && isalpha(uint8_t(name[0])) &&
                    std::all_of(name.begin(), name.end(), [](char c) { return isalnum(uint8_t(c)) || c == '_'; });
  if (!fits)
    throw ConfigError("`" + name +
                      "` cannot start the names of a C file: use letters, digits and underscores, a letter first.");
}

// --- the model: kernels, and what they read and write ---

struct Model {
  loop::Module module;
  BufferId input = -1, output = -1;
  std::vector<BufferId> weight_buffers, state_buffers;
  std::vector<Weight> weights;
  std::vector<Weight> states;  // that a run assigns, with their first values

  const Buffer& buffer(BufferId id) const { return module.buffers[size_t(id)]; }
};

Array value_of(const Context& ctx, const Buffer& buffer, const std::string& output) {
  if (auto* data = std::get_if<ir::DataLeaf>(&buffer.kind)) return data->array;
  if (!ctx.has(buffer.name))
    throw StateError("`" + output + "` reads the state `" + buffer.name +
                     "`, which has no value in the Context; write it, or run a program that uses it, before the "
                     "export.");
  const Array value = ctx.read(buffer.name);
  if (value.dtype() == buffer.dtype) return value;
  for (int64_t i = 0; i < value.size(); ++i)
    if (!can_hold(buffer.dtype, value.at(i)))
      throw DTypeError(fmt::format("`{}` is {} in the model, which cannot hold its value {}.", buffer.name,
                                   name(buffer.dtype), value.at(i)));
  return value.cast(buffer.dtype);
}

void refuse_what_is_no_function(const ir::Program& program, const std::string& output) {
  if (!program.symbols.empty() && program.assignments.empty())
    throw ConfigError("`" + output + "` depends on the index `" + program.symbols[0].name +
                      "`; export what the model gives for an input that is no slice of data.");
  for (const ir::Accumulation& a : program.accumulations)
    for (const ir::Operand& o : a.operands)
      if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(o.buffer)].kind))
        throw ConfigError("`" + output + "` draws the random numbers `" + random->stream +
                          "`; export the model as it is called for evaluation, without a training phase.");
}

Model model_of(const Context& ctx, const Tensor& input, const Tensor& output, const Program& updates) {
  const StateNode* state = input.node().state();
  if (!state)
    throw StateError("`" + input.node().label + "`" + where_text(input.node().where) +
                         " is computed, and cannot be the input of an exported model; an `input(...)` can.",
                     input.node().where);
  const std::shared_ptr<const plan::Plan> plan = ctx.plan(updates & observe(output), plain_c());
  Model out;
  out.module = plan->scheduled;
  out.output = out.module.observed[0];
  const std::string& output_name = out.buffer(out.output).name;
  refuse_what_is_no_function(plan->optimized, output_name);

  std::set<std::string> fields, state_fields, assigned;
  for (const Program::Assignment& a : updates.assignments()) assigned.insert(a.state.name());
  std::set<BufferId> seen;
  for (const loop::Kernel& kernel : out.module.kernels)
    loop::for_each_access(kernel, [&](const loop::Access& access) {
      const Buffer& buffer = out.buffer(access.buffer);
      if (std::holds_alternative<ir::Computed>(buffer.kind) || !seen.insert(access.buffer).second) return;
      if (std::holds_alternative<ir::StateLeaf>(buffer.kind) && buffer.name == state->name) {
        out.input = access.buffer;
        return;
      }
      if (std::holds_alternative<ir::StateLeaf>(buffer.kind) && assigned.count(buffer.name)) {
        out.state_buffers.push_back(access.buffer);
        out.states.push_back({free_name(state_fields, buffer.name), buffer.name, value_of(ctx, buffer, output_name)});
        return;
      }
      out.weight_buffers.push_back(access.buffer);
      out.weights.push_back({free_name(fields, buffer.name), buffer.name, value_of(ctx, buffer, output_name)});
    });
  if (out.input < 0) throw ConfigError("`" + output_name + "` does not depend on `" + state->name + "`, its input.");
  return out;
}

// --- the file ---

class Writer {
 public:
  Writer(Model model, const COptions& options)
      : model_(std::move(model)),
        options_(options),
        prefix_(options.name),
        macro_(capitals(options.name)),
        inside_(options.weights_inside || model_.weights.empty()),
        kernels_(codegen::to_plain(model_.module, prefix_)) {
    std::set<std::string> taken = {"weights", "state", "scratch"};
    for (const auto& call : kernels_.calls) taken.insert(call.function);
    arguments_[model_.input] = free_name(taken, model_.buffer(model_.input).name);
    arguments_[model_.output] = free_name(taken, model_.buffer(model_.output).name);
    for (size_t w = 0; w < model_.weights.size(); ++w)
      arguments_[model_.weight_buffers[w]] = "weights->" + model_.weights[w].field;
    for (size_t k = 0; k < model_.states.size(); ++k)
      arguments_[model_.state_buffers[k]] = "state->" + model_.states[k].field;
    for (const ir::Symbol& symbol : model_.module.symbols) symbols_.push_back(free_name(taken, symbol.name));
    place_scratch(taken);
    if (options.text) {
      check_text(*options.text);
      text_ =
          text_code(*options.text, {prefix_, macro_, inside_, load_text("count > 1"), has_states(), !symbols_.empty()});
    }
  }

  CSource source() const {
    const std::string calls = declarations();
    std::string code;
    if (inside_ && has_weights())
      code += fmt::format("\n{0}\nstatic const {1}_weights {1}_trained;  /* see the end */\n",
                          struct_text(model_.weights, prefix_), prefix_);
    for (const std::string& function : kernels_.functions) code += "\n" + function;
    if (!inside_) code += load_definition(model_.weights, prefix_);
    if (has_states())
      code += fmt::format("\n{2}\nvoid {0}_begin({0}_state* state) {{ *state = {1}; }}\n", prefix_, prefix_ + "_first",
                          initializer_text(model_.states, prefix_, "state", "first"));
    code += run_definition() + text_.definitions;
    const std::string text = codegen::plain_helpers(kernels_.helpers, prefix_) + code;
    CSource out;
    out.source = head_comment() + "\n#include <math.h>\n" + includes() + "#include <string.h>\n";
    out.source +=
        calls + text + "\n#ifdef " + macro_ + "_MAIN\n" + (options_.text ? text_.main : main_text()) + "#endif\n";
    if (inside_ && has_weights()) out.source += "\n" + initializer_text(model_.weights, prefix_);
    out.header = head_comment() + "#ifndef " + macro_ + "_H\n#define " + macro_ + "_H\n\n" + includes() +
                 "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + calls +
                 "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    if (!inside_) out.weights = file_bytes(model_.weights);
    return out;
  }

 private:
  bool has_weights() const { return !model_.weights.empty(); }
  bool has_states() const { return !model_.states.empty(); }
  const Buffer& input() const { return model_.buffer(model_.input); }
  const Buffer& output() const { return model_.buffer(model_.output); }

  void check_text(const CText& text) const {
    auto refuse = [&](const std::string& why) {
      throw ConfigError("`" + output().name + "` cannot write text: " + why);
    };
    if (input().dtype != DType::i32 || input().shape.elements() != 1) refuse("its input must be one id, an i32.");
    if (output().dtype != DType::f32) refuse("its logits must be f32.");
    if (const auto logits = output().shape.elements(); logits != int64_t(text.pieces.size()))
      refuse(fmt::format("it has {} logits, but the vocabulary has {} tokens.", logits, text.pieces.size()));
    if (text.first.empty()) refuse("it needs a token to begin with.");
    if (symbols_.size() > 1) refuse("it has more indices than the position of a token.");
    if (!symbols_.empty() && text.context < 1) refuse("the size of its caches is not given as .context.");
  }

  void place_scratch(std::set<std::string>& taken) {
    const Buffer* elsewhere = &output();
    for (const Pool& pool : kPools) {
      const std::string type = c_type(pool.dtype);
      const plan::MemoryPlan plan = plan::plan_memory(
          model_.module, plain_c(), [&](const Buffer& b) { return &b != elsewhere && type == c_type(b.dtype); });
      if (plan.placements.empty()) continue;
      const int64_t size = std::max<int64_t>(plan.bytes / bytes(pool.dtype), 1);
      members_ += fmt::format("  {} {}[{}];\n", type, pool.member, size);
      scratch_bytes_ += size * bytes(pool.dtype);
      for (const plan::Placement& place : plan.placements) {
        const Buffer& buffer = model_.buffer(place.buffer);
        std::string& local = arguments_[place.buffer] = free_name(taken, buffer.name);
        const int64_t offset = place.offset / bytes(pool.dtype);
        locals_ += fmt::format("  {}* const {} = scratch->{}{};  {}\n", type, local, pool.member,
                               offset ? fmt::format(" + {}", offset) : "", comment(shape_text(buffer)));
      }
    }
    if (members_.empty()) members_ = "  char none;  /* there is nothing to keep */\n";
  }
  static std::string shape_text(const Buffer& buffer) {
    const std::string shape = to_string(buffer.shape);
    return shape.empty() ? "a number" : shape;
  }

  std::string head_comment() const {
    auto row = [&](const char* what, const Buffer& b, const std::string& name) {
      const bool bits = b.dtype == DType::f16 || b.dtype == DType::bf16;
      return fmt::format("  {:<8} {} {}[{}]  ({}{})\n", what, c_type(b.dtype), name, b.shape.elements(),
                         bits ? fmt::format("bits of {}, ", caravan::name(b.dtype)) : "", shape_text(b));
    };
    int64_t numbers = 0, weight_bytes = 0;
    for (const Weight& w : model_.weights)
      numbers += w.value.size(), weight_bytes += w.value.size() * bytes(w.value.dtype());
    std::string text = options_.about.empty() ? "" : options_.about + "\n\n";
    text += fmt::format("`{}` of `{}`, generated by Caravan.\n\n", output().name, input().name);
    text += row("input", input(), arguments_.at(model_.input)) + row("output", output(), arguments_.at(model_.output));
    text += fmt::format("  weights  {} numbers, {} bytes{}\n", numbers, weight_bytes,
                        inside_ ? "" : ", in a file of their own");
    if (has_states()) {
      int64_t state_bytes = 0;
      for (const Weight& w : model_.states) state_bytes += w.value.size() * bytes(w.value.dtype());
      text += fmt::format("  state    {} bytes, what a run remembers for the next; {}_begin begins anew\n", state_bytes,
                          prefix_);
    }
    text += fmt::format("  scratch  {} bytes\n\n", scratch_bytes_);
    const std::string program = fmt::format("cc -O3 -std=c99 -D{1}_MAIN {0}.c -o {0} -lm", prefix_, macro_);
    text += fmt::format(
        "C99 and its <math.h>, no other library. Nothing is allocated and nothing but the arguments changes: several\n"
        "threads may run it at once, each with a scratch of its own. The arguments must not overlap.\n\n"
        "  {0:<{2}}  to be linked with -lm\n  {1}  a program: {3}",
        fmt::format("cc -O3 -std=c99 -c {}.c", prefix_), program, program.size(),
        options_.text ? "writes texts" : "reads inputs as text, prints outputs");
    return comment(indented(text, "   ")) + "\n";
  }
  std::string includes() const {
    return std::string("#include <stdint.h>\n") + (inside_ ? "" : "#include <stdio.h>\n");
  }

  std::string run_head() const {
    std::string kept;
    for (const std::string& symbol : symbols_) kept += "int64_t " + symbol + ", ";
    if (has_states()) kept += prefix_ + "_state* state, ";
    return fmt::format("void {}_run({}const {}* {}, {}* {}, {}{}_scratch* scratch)", prefix_,
                       inside_ ? "" : "const " + prefix_ + "_weights* weights, ", c_type(input().dtype),
                       arguments_.at(model_.input), c_type(output().dtype), arguments_.at(model_.output), kept,
                       prefix_);
  }
  std::string declarations() const {
    std::string out = fmt::format("\n#define {0}_INPUT_SIZE {1}\n#define {0}_OUTPUT_SIZE {2}\n", macro_,
                                  input().shape.elements(), output().shape.elements());
    out += "\n/* What is computed on the way; its contents mean nothing between two runs. */\ntypedef struct {\n" +
           members_ + "} " + prefix_ + "_scratch;\n";
    if (has_states())
      out += "\n/* What a run remembers for the next one. */\n" + struct_text(model_.states, prefix_, "state") +
             fmt::format("void {0}_begin({0}_state* state);\n", prefix_);
    if (!inside_) out += "\n" + struct_text(model_.weights, prefix_) + load_declaration(prefix_);
    return out + "\n" + run_head() + ";\n" + text_.declarations;
  }
  std::string run_definition() const {
    std::string out = "\n" + run_head() + " {\n";
    if (inside_ && has_weights()) out += fmt::format("  const {0}_weights* const weights = &{0}_trained;\n", prefix_);
    out += locals_.empty() ? "  (void)scratch;\n" : locals_;
    for (size_t s = 0; s < symbols_.size(); ++s)
      if (!uses_symbol(int(s))) out += "  (void)" + symbols_[s] + ";\n";
    for (const auto& call : kernels_.calls) {
      out += call.comments.empty() ? "" : "  " + indented(call.comments, "  ");
      std::string line = "  " + (call.copied_bytes ? "memcpy" : call.function) + "(";
      for (size_t k = 0; k < call.buffers.size(); ++k) line += (k ? ", " : "") + arguments_.at(call.buffers[k]);
      for (int s : call.symbols) line += ", " + symbols_[size_t(s)];
      if (call.copied_bytes) line += ", " + std::to_string(call.copied_bytes);
      out += codegen::wrapped(line + ");") + "\n";
    }
    return out + "}\n";
  }

  bool uses_symbol(int symbol) const {
    return std::any_of(kernels_.calls.begin(), kernels_.calls.end(), [&](const codegen::PlainText::Call& call) {
      return std::find(call.symbols.begin(), call.symbols.end(), symbol) != call.symbols.end();
    });
  }

  // A number from text as an element, and an element as a double for printf.
  std::string element_of_number() const {
    const DType dtype = input().dtype;
    const std::string type(caravan::name(dtype));
    if (dtype == DType::boolean) return "number != 0";
    if (dtype == DType::f32) return "(float)number";
    if (dtype == DType::f64) return "number";
    const bool bits = dtype == DType::f16 || dtype == DType::bf16;
    return bits ? fmt::format("{0}_to_{1}({0}_odd(number))", prefix_, type)
                : fmt::format("{}_to_{}(number)", prefix_, type);
  }
  std::string number_of_element() const {
    const DType dtype = output().dtype;
    const bool bits = dtype == DType::f16 || dtype == DType::bf16;
    return bits ? fmt::format("{}_from_{}(output[i])", prefix_, caravan::name(dtype)) : "(double)output[i]";
  }
  // What these two call and the kernels do not.
  std::set<std::string> helpers_of_main() const {
    auto bits = [](DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; };
    std::set<std::string> out;
    const DType in = input().dtype;
    if (bits(in) || (!is_float(in) && in != DType::boolean)) out.insert("to_" + std::string(caravan::name(in)));
    if (bits(in)) out.insert("odd");
    if (bits(output().dtype)) out.insert("from_" + std::string(caravan::name(output().dtype)));
    for (const std::string& known : kernels_.helpers) out.erase(known);
    return out;
  }
  // What main does to have the weights, where this holds of its arguments.
  std::string load_text(const char* condition) const {
    if (inside_) return "";
    return fmt::format(R"C(  static {0}_weights weights;
  FILE* const file = {2} ? fopen(arguments[1], "rb") : NULL;
  const int loaded = file ? {0}_load(&weights, file) : {1}_NO_WEIGHTS;
  if (loaded != {1}_LOADED) {{
    fprintf(stderr, "usage: %s WEIGHTS; they could not be read: error %d of {0}_load\n", arguments[0], loaded);
    return 2;
  }}
  fclose(file);
)C",
                       prefix_, macro_, condition);
  }
  std::string main_text() const {
    const std::string in = element_of_number(), out = number_of_element();
    std::string begin, kept;  // the indices count runs
    if (!symbols_.empty()) begin += "  int64_t runs = 0;\n";
    for (size_t s = 0; s < symbols_.size(); ++s) kept += s + 1 < symbols_.size() ? "runs, " : "runs++, ";
    if (has_states())
      begin += fmt::format("  static {0}_state state;\n  {0}_begin(&state);\n", prefix_), kept += "&state, ";
    const std::string helpers = codegen::plain_helpers(helpers_of_main(), prefix_);
    return "#include <stdio.h>\n" + std::string(helpers.empty() ? "" : "#include <string.h>\n") + helpers +
           fmt::format(R"C(
/* Reads inputs, {1}_INPUT_SIZE numbers each, until there are no more; prints each one's output in a line. */
int main({2}) {{
  static {3} input[{1}_INPUT_SIZE];
  static {4} output[{1}_OUTPUT_SIZE];
  static {0}_scratch scratch;
{10}  double number;
  long given = 0;
{5}  while (scanf("%lf", &number) == 1) {{
    input[given++] = {6};
    if (given < {1}_INPUT_SIZE) continue;
    given = 0;
    {0}_run({7}input, output, {11}&scratch);
    for (long i = 0; i < {1}_OUTPUT_SIZE; ++i)
      printf("%.{8}g%c", {9}, i + 1 < {1}_OUTPUT_SIZE ? ' ' : '\n');
  }}
  if (given == 0 && feof(stdin)) return 0;
  fprintf(stderr, "an input has %ld numbers, and stops after %ld\n", (long){1}_INPUT_SIZE, given);
  return 1;
}}
)C",
                       prefix_, macro_, inside_ ? "void" : "int count, char** arguments", c_type(input().dtype),
                       c_type(output().dtype), load_text("count == 2"), in, inside_ ? "" : "&weights, ",
                       bytes(output().dtype) > 4 ? 17 : 9, out, begin, kept);
  }

  Model model_;
  const COptions& options_;
  std::string prefix_, macro_;
  bool inside_;
  codegen::PlainText kernels_;
  std::map<BufferId, std::string> arguments_;  // what a kernel is given for a buffer
  std::vector<std::string> symbols_;           // what it is given for a symbol
  std::string members_, locals_;               // of the scratch
  int64_t scratch_bytes_ = 0;
  TextCode text_;  // of a language model
};

}  // namespace

CSource to_c99(const Context& ctx, const Tensor& input, const Tensor& output, const COptions& options, Source where) {
  return to_c99(ctx, input, output, Program(), options, where);
}
CSource to_c99(const Context& ctx, const Tensor& input, const Tensor& output, const Program& updates,
               const COptions& options, Source where) {
  const WrittenAt at(where);
  check_prefix(options.name);
  return Writer(model_of(ctx, input, output, updates), options).source();
}

}  // namespace caravan::deploy
