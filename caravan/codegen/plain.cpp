#include "caravan/codegen/plain.h"

#include "caravan/base/error.h"
#include "caravan/codegen/kernel_functions.h"
#include "caravan/codegen/prelude.h"
#include "caravan/codegen/words.h"

namespace caravan::codegen {

using namespace loop;

PlainText to_plain(const Module& module, const std::string& prefix) {
  PlainText out;
  const PlainC dialect(prefix);
  KernelFunctions functions;
  for (const Kernel& kernel : module.kernels) {
    if (const LibraryCall* call = library_call(kernel)) {
      auto* copy = std::get_if<LibraryCall::Copy>(&call->function);
      CARAVAN_CHECK(copy, "`" + kernel.name + "` calls a library");
      out.calls.push_back({"", "", {call->writes[0], call->reads[0]}, {}, copy->bytes});
      continue;
    }
    KernelPrinter printer(module, kernel, dialect, KernelPrinter::Names::own);
    const Uses& uses = printer.uses();
    CARAVAN_CHECK(uses.streams.empty() && !parallel_loop(kernel), "`" + kernel.name + "` needs random bits or threads");
    const auto& [function, number, fresh] = functions.find<KernelPrinter>(
        module, kernel, dialect, prefix + "_k" + std::to_string(out.functions.size()) + "_" + identifier(kernel.name));
    std::string comments;
    for (const std::string& text : kernel.comments) comments += comment(text) + "\n";
    if (fresh) {
      const std::string head = wrapped("static " + printer.head(function));
      out.functions.push_back(comments + head + printer.body());
      out.helpers.insert(printer.helpers().begin(), printer.helpers().end());
    }
    out.calls.push_back({function, fresh ? "" : comments, uses.buffers, uses.symbols});
  }
  return out;
}

std::string plain_helpers(const std::set<std::string>& names, const std::string& prefix) {
  constexpr std::string_view ours = "caravan_";
  std::string out;
  for (const Helper& helper : kHelpers) {
    if (!names.count(std::string(helper.name.substr(ours.size())))) continue;
    out += "\n";
    std::string_view rest = helper.text;
    for (size_t at; (at = rest.find(ours)) != rest.npos; rest.remove_prefix(at + ours.size()))
      out.append(rest.substr(0, at)).append(prefix + "_");
    out += rest;
  }
  return out;
}

}  // namespace caravan::codegen
