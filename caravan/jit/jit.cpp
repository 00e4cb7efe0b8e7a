#include "caravan/jit/jit.h"

#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"
#include "caravan/jit/parse.h"

namespace caravan::jit {

struct Kernel::Impl {
  std::vector<Buffer> buffers;
  std::vector<Shape> shapes;  // of these buffers
  std::unique_ptr<backend::Device> device;
  std::unique_ptr<backend::Executable> executable;
};

Kernel compile(std::string_view text, const Options& options) {
  const ir::Program program = parse_program(text, options.buffers);
  auto out = std::make_shared<Kernel::Impl>();
  std::vector<bool> is_result(program.buffers.size(), false);
  for (const auto& a : program.assignments) is_result[size_t(a.state)] = true;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const ir::Buffer& buffer = program.buffers[b];
    if (!std::holds_alternative<ir::StateLeaf>(buffer.kind)) continue;
    out->buffers.push_back({buffer.name, buffer.shape.sizes(), buffer.dtype, is_result[b]});
    out->shapes.push_back(buffer.shape);
  }
  cc::DeviceOptions device;
  device.threads = options.threads;
  device.compiler.cache = options.cache;
  device.compiler.flags.insert(device.compiler.flags.end(), options.compiler_flags.begin(),
                               options.compiler_flags.end());
  out->device = cc::make_device(device);
  out->executable = backend::prepare(*out->device, program).executable;
  return Kernel(std::move(out));
}

const std::vector<Kernel::Buffer>& Kernel::buffers() const { return impl_->buffers; }

void Kernel::bind(std::initializer_list<Binding> memory) {
  for (const Binding& given : memory) {
    bool known = false;
    for (const Buffer& b : impl_->buffers) known = known || b.name == given.name;
    if (!known) throw StateError("the kernel has no buffer `" + given.name + "` to bind.");
  }
  for (size_t b = 0; b < impl_->buffers.size(); ++b) {
    const Buffer& buffer = impl_->buffers[b];
    const Binding* found = nullptr;
    for (const Binding& given : memory)
      if (given.name == buffer.name) found = &given;
    if (!found || !found->memory)
      throw StateError("`" + buffer.name + "` is not bound; run the kernel with {{\"" + buffer.name +
                       "\", memory}, ..}.");
    if (found->dtype != buffer.dtype)
      throw StateError("`" + buffer.name + "` is bound to memory of " + std::string(name(found->dtype)) +
                       ", but the kernel was compiled for " + std::string(name(buffer.dtype)) + ".");
    impl_->device->borrow(buffer.name, impl_->shapes[b], buffer.dtype, found->memory);
  }
}

void Kernel::run(std::initializer_list<Binding> memory) {
  bind(memory);
  impl_->executable->run({});
}
void Kernel::run_times(int64_t times, std::initializer_list<Binding> memory) {
  if (times < 0) throw StateError("`run_times` was asked for " + std::to_string(times) + " runs.");
  bind(memory);
  std::vector<int64_t> no_symbols;
  if (times > 0) impl_->executable->run_steps(times, no_symbols, {});
}

}  // namespace caravan::jit
