// caravan doctor: what was built, what is there, and every setting with its source.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/c_compiler.h"
#include "apps/cache_text.h"
#include "apps/commands.h"
#include "caravan/base/folders.h"
#include "caravan/base/processors.h"

namespace caravan::app {

namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

struct Device {
  std::string name;
  bool built, works;
  std::string note;
};

std::string note_of(const CCompiler& c) {
  if (!c.works()) return c.problem;
  return fmt::format("compiled by {}, {}; ", c.path, c.version) +
         (c.wrong == 0
              ? fmt::format("its {} test loops are right", c.loops)
              : fmt::format("called with {}, without which {} of {} test loops are wrong", c.added, c.wrong, c.loops));
}

std::string processors_text(const Processors& p) {
  std::string out = fmt::format("{} of {} may be used", p.usable(), p.online);
  if (p.allowed < p.online) out += fmt::format("; this process may run on {} of them", p.allowed);
  if (p.quota) out += fmt::format("; its container has the time of {:.3g}", *p.quota);
  return out;
}

}  // namespace

std::string version() { return CARAVAN_VERSION; }

int doctor_command(const DoctorOptions& options, const Settings& settings) {
  const CCompiler c = find_c_compiler();
  const backend::KernelCache cache(settings.cache());
  const std::string temporary = temporary_folder_problem();
  const Processors here = processors();
  const Device devices[] = {
      {"interp", true, true, "the interpreter, in double precision, one thread"},
      {"cpu", true, c.works(), note_of(c)},
      {"cuda", false, false, "not built into this version"},
  };
  if (options.json) {
    using Json = nlohmann::ordered_json;
    Json out{{"version", version()}, {"compiler", kCompiler}, {"devices", Json::array()}};
    for (const Device& d : devices)
      out["devices"].push_back(Json{{"name", d.name}, {"built", d.built}, {"works", d.works}, {"note", d.note}});
    out["c_compiler"] =
        Json{{"path", c.path},        {"version", c.version},        {"works", c.works()},    {"problem", c.problem},
             {"test_loops", c.loops}, {"wrong_test_loops", c.wrong}, {"added_flags", c.added}};
    out["processors"] = Json{{"online", here.online}, {"allowed", here.allowed}, {"usable", here.usable()}};
    out["processors"]["quota"] = here.quota ? Json(*here.quota) : Json();
    out["cache"] = cache_json(cache);
    out["temporary"] = Json{{"folder", temporary_folder()}, {"problem", temporary}};
    out["settings"] = Json::object();
    for (const auto& [name, setting] : settings.all())
      out["settings"][name] = Json{{"value", setting.value}, {"source", setting.source}};
    std::cout << out.dump() << '\n';
    return kDone;
  }
  std::cout << fmt::format("caravan  {}\ncompiler {}\n\ndevices\n", version(), kCompiler);
  for (const Device& d : devices) std::cout << fmt::format("{:<8} {:<6} {}\n", d.name, d.works ? "yes" : "no", d.note);
  std::cout << fmt::format("\ncores    {}\ncache    {}\n", processors_text(here), cache_text(cache));
  if (!cache.problem().empty()) std::cout << fmt::format("         {}\n", cache_problem_text(cache));
  if (!temporary.empty()) std::cout << fmt::format("         {}; {} is used instead\n", temporary, temporary_folder());
  std::cout << "\nsettings\n" << settings.to_string();
  return kDone;
}

}  // namespace caravan::app
