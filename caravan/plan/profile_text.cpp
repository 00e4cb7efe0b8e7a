#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "caravan/base/printable.h"
#include "caravan/plan/profile.h"

namespace caravan::plan {

namespace {

std::string size_text(int64_t bytes) {
  if (bytes >= int64_t(1) << 20) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}
std::string peaks_text(const Peaks& peaks) {
  std::string out = fmt::format("at best {:.0f} GFLOP/s", peaks.flops / 1e9);
  for (size_t k = 0; k < peaks.memory.size(); ++k) {
    const bool last = k + 1 == peaks.memory.size();
    out += fmt::format(", {:.0f} GB/s {}", peaks.memory[k].bandwidth / 1e9,
                       last ? "beyond" : "within " + size_text(peaks.memory[k].bytes));
  }
  return out;
}

// A list whose entries end in ", ", on lines of at most 80 columns.
std::string in_lines(std::string list) {
  constexpr size_t kColumns = 80;
  for (size_t begin = 0; list.size() - begin > kColumns;) {
    const size_t comma = list.rfind(", ", begin + kColumns - 1);
    if (comma == std::string::npos || comma < begin) break;
    list[comma + 1] = '\n';
    begin = comma + 2;
  }
  return list;
}

}  // namespace

std::string microseconds_text(double microseconds) {
  return fmt::format("{:.{}f}", microseconds,
                     microseconds < 10     ? 3
                     : microseconds < 100  ? 2
                     : microseconds < 1000 ? 1
                                           : 0);
}

std::string to_string(const Profile& profile, size_t most) {
  std::string out = in_lines(fmt::format("{} on {}", profile.program, profile.target)) + "\n";
  if (profile.peaks.flops > 0) out += in_lines(peaks_text(profile.peaks)) + "\n";
  const size_t count = profile.kernels.size();
  const std::string kernels = count == 1 ? "kernel" : fmt::format("{} kernels", count);
  out += fmt::format("a step takes {} us; its {} one by one {} us (mean of {} steps)\n\n",
                     microseconds_text(profile.step_microseconds), kernels,
                     microseconds_text(profile.kernel_microseconds), profile.steps);
  if (profile.exchange_microseconds > 0) {
    out.pop_back();
    out += fmt::format(
        "a device sends {} bytes in {} us of collectives, of which {:.0f}% are hidden\nbehind kernels\n\n",
        profile.exchanged_bytes, microseconds_text(profile.exchange_microseconds), 100 * profile.hidden_exchange);
  }
  out += fmt::format("{:>6} {:>9} {:>8} {:>7} {:>8}  {}\n", "share", "us", "GFLOP/s", "GB/s", "of peak", "kernel");
  const size_t shown = most == 0 ? profile.kernels.size() : std::min(most, profile.kernels.size());
  for (size_t k = 0; k < shown; ++k) {
    const KernelProfile& row = profile.kernels[k];
    const std::string of_peak = row.least_microseconds > 0 ? fmt::format("{:.0f}%", 100 * row.of_peak()) : "";
    out +=
        fmt::format("{:>5.1f}% {:>9} {:>8.2f} {:>7.2f} {:>8}  {} {}\n", 100 * row.share,
                    microseconds_text(row.microseconds), row.gflops(), row.gigabytes(), of_peak, row.number, row.name);
    if (!row.loops.empty()) out += fmt::format("        loops {}\n", printable(row.loops, 60));
    for (const std::string& tiles : row.tiles) out += fmt::format("        tiles {}\n", tiles);
    const char* word = "from";
    for (const std::string& origin : row.origins)
      out += fmt::format("        {:<5} {}\n", std::exchange(word, ""), printable(origin, 60));
  }
  if (shown < profile.kernels.size()) {
    double rest = 0;
    for (size_t k = shown; k < profile.kernels.size(); ++k) rest += profile.kernels[k].share;
    out += fmt::format("{:>5.1f}%  other kernels: {}\n", 100 * rest, profile.kernels.size() - shown);
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << to_string(profile); }

}  // namespace caravan::plan
