// caravan doctor: what was built, what is there, and every setting with its source.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cache_text.h"
#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/terminal.h"
#include "caravan/backend/cc/about_compiler.h"
#include "caravan/base/folders.h"
#include "caravan/base/processors.h"
#include "caravan/runtime/devices.h"
#include "caravan/runtime/mesh_devices.h"
#include "caravan/target/target.h"
#include "caravan/target/tuning_file.h"

namespace caravan::app {

namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

std::string processors_text(const Processors& p) {
  std::string out = fmt::format("{} of {} may be used", p.usable(), p.online);
  if (p.allowed < p.online) out += fmt::format("; this process may run on {} of them", p.allowed);
  if (p.quota) out += fmt::format("; its container has the time of {:.3g}", *p.quota);
  return out;
}

}  // namespace

std::string version() { return CARAVAN_VERSION; }

int doctor_command(const DoctorOptions& options, const Settings& settings) {
  const cc::CompilerFacts c = cc::about_compiler();
  const backend::KernelCache cache(settings.cache());
  const std::string temporary = temporary_folder_problem();
  const Processors here = processors();
  const std::vector<FoundDevice> kinds = found_devices(c);
  const std::string tuning = tuning_path();
  const Target target = host(int(settings.threads()));
  if (options.json) {
    using Json = nlohmann::ordered_json;
    Json out{{"version", version()}, {"compiler", kCompiler}, {"devices", Json::array()}};
    for (const FoundDevice& d : kinds)
      out["devices"].push_back(Json{{"name", d.name}, {"works", d.works}, {"note", d.note}});
    out["c_compiler"] =
        Json{{"path", c.path},        {"version", c.version},        {"works", c.works()},    {"problem", c.problem},
             {"test_loops", c.loops}, {"wrong_test_loops", c.wrong}, {"added_flags", c.added}};
    out["processors"] = Json{{"online", here.online}, {"allowed", here.allowed}, {"usable", here.usable()}};
    out["processors"]["quota"] = here.quota ? Json(*here.quota) : Json();
    out["target"] = Json{{"processor", target.processor},
                         {"threads", target.threads},
                         {"vector_bytes", target.vector_bytes},
                         {"vector_registers", target.vector_registers},
                         {"fma", target.fma},
                         {"l1", target.l1},
                         {"l2", target.l2},
                         {"l3", target.l3},
                         {"tuning", tuning}};
    out["engines"] = Json::object();
    for (const auto& [name, note] : engines()) out["engines"][name] = note;
    out["cache"] = cache_json(cache);
    out["temporary"] = Json{{"folder", temporary_folder()}, {"problem", temporary}};
    out["settings"] = Json::object();
    for (const auto& [name, setting] : settings.all())
      out["settings"][name] = Json{{"value", setting.value}, {"source", setting.source}};
    std::cout << json_line(out);
    return kDone;
  }
  std::cout << fmt::format("caravan  {}\ncompiler {}\n\ndevices\n", version(), kCompiler);
  const Screen screen = output_screen();
  for (const FoundDevice& d : kinds)
    std::cout << screen.fact(d.name, fmt::format("{:<6} {}", d.works ? "yes" : "no", d.note));
  std::cout << "\nengines of meshes\n";
  for (const auto& [name, note] : engines()) std::cout << screen.fact(name, note);
  std::cout << '\n'
            << screen.fact("target", to_string(target)) << screen.fact("tuning", tuning.empty() ? "built in" : tuning)
            << screen.fact("cores", processors_text(here)) << screen.fact("cache", cache_text(cache));
  if (!cache.problem().empty()) std::cout << fmt::format("         {}\n", cache_problem_text(cache));
  if (!temporary.empty()) std::cout << fmt::format("         {}; {} is used instead\n", temporary, temporary_folder());
  std::cout << "\nsettings\n" << settings.to_string();
  return kDone;
}

}  // namespace caravan::app
