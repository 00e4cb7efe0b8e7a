#include "caravan/backend/cuda/step.h"

#include "caravan/loop/dependence.h"

namespace caravan::cuda {

using backend::NoteReader;
using backend::NoteWriter;
using codegen::CudaForm;
using codegen::CudaText;
using loop::LibraryCall;
using Product = LibraryCall::Product;

namespace {

constexpr loop::Variable kVariables[] = {Product::kBatch, Product::kRow, Product::kColumn, Product::kTerm};
enum class Kind : uint8_t { copy, product };  // of a call
constexpr int64_t kMost = INT64_MAX;

void write(NoteWriter& note, const loop::Term& offset) {
  note.number(offset.constant);
  for (const loop::Variable v : kVariables) note.number(loop::coefficient(offset, v));
}
loop::Term read_offset(NoteReader& note) {
  loop::Term out = loop::Term::number(note.number(kMost));
  for (const loop::Variable v : kVariables) out.add(loop::Term::Part::Kind::iterator, v, note.number(kMost));
  return out;
}

void write(NoteWriter& note, const CudaText::Launch& launch) {
  note.number(int64_t(launch.kernels.size()));
  for (const size_t kernel : launch.kernels) note.number(int64_t(kernel));
  note.number(launch.stage + 1).name(launch.function.empty() ? "-" : launch.function).number(int64_t(launch.text));
  note.number(int64_t(launch.arguments.size()));
  for (const CudaText::Launch::Argument& a : launch.arguments) note.number(a.buffer + 1).number(a.symbol + 1);
  note.number(launch.has_seed).number(launch.threads).number(launch.blocks).number(launch.shared_bytes);
}
CudaText::Launch read_launch(NoteReader& note) {
  CudaText::Launch out;
  note.list([&] { out.kernels.push_back(size_t(note.number())); });
  out.stage = int(note.number()) - 1;
  if (const std::string name = note.name(); name != "-") out.function = name;
  out.text = size_t(note.number());
  note.list([&] {
    const int buffer = int(note.number()) - 1, symbol = int(note.number()) - 1;
    out.arguments.push_back({buffer, symbol});
  });
  out.has_seed = note.flag(), out.threads = int(note.number());
  out.blocks = note.number(kMost), out.shared_bytes = note.number(kMost);
  return out;
}

void write(NoteWriter& note, const Call& call) {
  for (const auto* buffers : {&call.call.writes, &call.call.reads}) {
    note.number(int64_t(buffers->size()));
    for (const ir::BufferId id : *buffers) note.number(id);
  }
  if (auto* copy = std::get_if<LibraryCall::Copy>(&call.call.function)) {
    note.number(int64_t(Kind::copy)).number(copy->bytes);
    return;
  }
  const Product& p = std::get<Product>(call.call.function);
  note.number(int64_t(Kind::product)).number(p.batch).number(p.rows).number(p.columns).number(p.terms);
  for (const loop::Term* offset : {&p.left, &p.right, &p.result}) write(note, *offset);
  note.number(p.tf32);
  for (const DType dtype : {call.left, call.right, call.result}) note.number(int64_t(dtype));
}
Call read_call(NoteReader& note) {
  Call out{{LibraryCall::Copy{}, {}, {}}};
  for (auto* buffers : {&out.call.writes, &out.call.reads})
    note.list([&] { buffers->push_back(ir::BufferId(note.number())); });
  if (Kind(note.number(int64_t(Kind::product))) == Kind::copy) {
    out.call.function = LibraryCall::Copy{note.number(kMost)};
    return out;
  }
  Product p;
  for (int64_t* size : {&p.batch, &p.rows, &p.columns, &p.terms}) *size = note.number(kMost);
  for (loop::Term* offset : {&p.left, &p.right, &p.result}) *offset = read_offset(note);
  p.tf32 = note.flag();
  out.call.function = p;
  for (DType* dtype : {&out.left, &out.right, &out.result}) *dtype = DType(note.number(UINT8_MAX));
  return out;
}

}  // namespace

Step step_of(const plan::Plan& plan, CudaForm form) {
  const loop::Module& module = plan.scheduled;
  Step out{backend::runnable(plan), form, codegen::to_cuda(module, form), {}};
  auto dtype = [&](ir::BufferId id) { return module.buffers[size_t(id)].dtype; };
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const LibraryCall* call = loop::library_call(module.kernels[k]);
    if (!call) continue;
    Call& made = out.calls.emplace(k, Call{*call}).first->second;
    if (std::holds_alternative<Product>(call->function))
      made.left = dtype(call->reads[0]), made.right = dtype(call->reads[1]), made.result = dtype(call->writes[0]);
  }
  return out;
}

std::string to_text(const Step& step) {
  NoteWriter note;
  write(note, step.runnable);
  note.number(int64_t(step.form)).number(step.text.shared_bytes).number(step.text.threads);
  note.number(int64_t(step.text.launches.size()));
  for (const CudaText::Launch& launch : step.text.launches) write(note, launch);
  note.number(int64_t(step.calls.size()));
  for (const auto& [kernel, call] : step.calls) note.number(int64_t(kernel)), write(note, call);
  return note.text();
}

std::optional<Step> parse_step(std::string_view text) {
  NoteReader note(text);
  Step out;
  out.runnable = read_runnable(note);
  out.form = CudaForm(note.number(int64_t(CudaForm::one_block)));
  out.text.shared_bytes = note.number(kMost), out.text.threads = int(note.number());
  note.list([&] { out.text.launches.push_back(read_launch(note)); });
  note.list([&] {
    const auto kernel = size_t(note.number());
    out.calls.emplace(kernel, read_call(note));
  });
  return note.is_right() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace caravan::cuda
