// caravan doctor: what was built, what is there, and every setting with its source.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/commands.h"

namespace caravan::app {

namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

struct Device {
  const char* name;
  bool built;
  const char* note;
};
constexpr Device kDevices[] = {
    {"interp", true, "the interpreter, in double precision, one thread"},
    {"cpu", false, "not built into this version"},
    {"cuda", false, "not built into this version"},
};

}  // namespace

std::string version() { return CARAVAN_VERSION; }

int doctor_command(const DoctorOptions& options, const Settings& settings) {
  if (options.json) {
    nlohmann::ordered_json out{{"version", version()},
                               {"compiler", kCompiler},
                               {"devices", nlohmann::json::array()},
                               {"settings", nlohmann::ordered_json::object()}};
    for (const Device& d : kDevices)
      out["devices"].push_back(nlohmann::ordered_json{{"name", d.name}, {"built", d.built}, {"note", d.note}});
    for (const auto& [name, setting] : settings.all())
      out["settings"][name] = nlohmann::ordered_json{{"value", setting.value}, {"source", setting.source}};
    std::cout << out.dump() << '\n';
    return kDone;
  }
  std::cout << fmt::format("caravan  {}\ncompiler {}\n\ndevices\n", version(), kCompiler);
  for (const Device& d : kDevices)
    std::cout << fmt::format("{:<8} {:<28} {}\n", d.name, d.built ? "yes" : "no", d.note);
  std::cout << "\nsettings\n" << settings.to_string();
  return kDone;
}

}  // namespace caravan::app
