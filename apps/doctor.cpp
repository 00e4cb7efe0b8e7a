// caravan doctor: what was built, what is there, and every setting with its source.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/c_compiler.h"
#include "apps/commands.h"

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

struct Cache {
  std::string folder;
  int64_t files = 0, bytes = 0;
};
Cache measure(const std::string& folder) {
  Cache out{folder};
  std::error_code error;
  for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;  // another process may be at work
    const auto size = i->file_size(gone);
    if (!gone) ++out.files, out.bytes += int64_t(size);
  }
  return out;
}

}  // namespace

std::string version() { return CARAVAN_VERSION; }

int doctor_command(const DoctorOptions& options, const Settings& settings) {
  const CCompiler c = find_c_compiler();
  const Cache cache = measure(settings.cache());
  const Device devices[] = {
      {"interp", true, true, "the interpreter, in double precision, one thread"},
      {"cpu", true, c.works(), c.works() ? fmt::format("compiled by {}, {}", c.path, c.version) : c.problem},
      {"cuda", false, false, "not built into this version"},
  };
  if (options.json) {
    using Json = nlohmann::ordered_json;
    Json out{{"version", version()}, {"compiler", kCompiler}, {"devices", Json::array()}};
    for (const Device& d : devices)
      out["devices"].push_back(Json{{"name", d.name}, {"built", d.built}, {"works", d.works}, {"note", d.note}});
    out["c_compiler"] = Json{{"path", c.path}, {"version", c.version}, {"works", c.works()}, {"problem", c.problem}};
    out["cache"] = Json{{"folder", cache.folder}, {"files", cache.files}, {"bytes", cache.bytes}};
    out["settings"] = Json::object();
    for (const auto& [name, setting] : settings.all())
      out["settings"][name] = Json{{"value", setting.value}, {"source", setting.source}};
    std::cout << out.dump() << '\n';
    return kDone;
  }
  std::cout << fmt::format("caravan  {}\ncompiler {}\n\ndevices\n", version(), kCompiler);
  for (const Device& d : devices) std::cout << fmt::format("{:<8} {:<6} {}\n", d.name, d.works ? "yes" : "no", d.note);
  std::cout << fmt::format("\nkernels  {} files, {:.1f} MB in {}\n", cache.files, double(cache.bytes) / 1e6,
                           cache.folder);
  std::cout << "\nsettings\n" << settings.to_string();
  return kDone;
}

}  // namespace caravan::app
