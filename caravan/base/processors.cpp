#include "caravan/base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

namespace caravan {

namespace {

// Those of a process; 0 is this one.
int allowed_processors(pid_t process, int online) {
  // The kernel's sets may be larger than CPU_SETSIZE.
  for (int room = std::max(online, CPU_SETSIZE); room <= 1 << 20; room *= 2) {
    cpu_set_t* set = CPU_ALLOC(size_t(room));
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(size_t(room));
    const int failed = sched_getaffinity(process, bytes, set) == 0 ? 0 : errno;
    const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
    if (failed != EINVAL) break;
  }
  return online;
}

std::vector<std::string> words(const std::string& line, char separator) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, separator);) out.push_back(word);
  return out;
}
bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Where the control groups (cgroups) that limit CPU time are mounted, and the group of this process. Version 2 has a
// single hierarchy; of those of version 1, it is the one with the controller `cpu`.
struct Hierarchy {
  bool version2 = false;
  std::string mounted;  // the folder
  std::string top;      // the group that is mounted there
  std::string group;    // of this process
};
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> out;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // 33 31 0:30 TOP MOUNTED rw,relatime [optional fields] - cgroup cgroup rw,cpu
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto where = words(line.substr(0, dash), ' '), what = words(line.substr(dash + 3), ' ');
    if (where.size() < 5 || what.size() < 3) continue;
    const bool version2 = what[0] == "cgroup2";
    if (version2 || (what[0] == "cgroup" && contains(words(what[2], ','), "cpu")))
      out.push_back({version2, where[4], where[3], "/"});
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // 1:cpu,cpuacct:/GROUP, or 0::/GROUP for version 2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (Hierarchy& h : out)
      if (h.version2 ? controllers.empty() : contains(words(controllers, ','), "cpu"))
        h.group = line.substr(second + 1);
  }
  return out;
}

std::optional<double> quota_of(const std::string& folder, bool version2) {
  double time = 0, period = 0;  // microseconds; "max" and -1 mean no limit
  if (version2) {
    std::ifstream(folder + "/cpu.max") >> time >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> time;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return time > 0 && period > 0 ? std::optional(time / period) : std::nullopt;
}

// The least quota of the group and of all groups that contain it.
std::optional<double> container_quota(const std::string& root) {
  std::optional<double> out;
  for (const Hierarchy& h : hierarchies(root)) {
    std::string below = h.group;
    if (h.top != "/" && below.rfind(h.top, 0) == 0) below.erase(0, h.top.size());
    for (;;) {
      if (const auto quota = quota_of(root + h.mounted + below, h.version2))
        out = std::min(out.value_or(*quota), *quota);
      if (below.empty() || below == "/") break;
      below.erase(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
  }
  return out;
}

int whole(double processors) { return std::max(1, int(std::floor(processors + 1e-6))); }

}  // namespace

int Processors::usable() const { return whole(std::min(double(allowed), quota.value_or(double(allowed)))); }
int Processors::usable_by_one_of(int processes) const {
  const double all = std::min(double(std::max(allowed, allowed_to_parent)), quota.value_or(double(online)));
  return std::min(usable(), whole(all / std::max(1, processes)));
}

Processors processors(const std::string& root) {
  Processors out;
  out.online = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)));
  out.allowed = allowed_processors(0, out.online);
  out.allowed_to_parent = allowed_processors(getppid(), out.online);
  out.quota = container_quota(root);
  return out;
}

const ProcessorModel& processor_model() {
  static const ProcessorModel known = [] {
    ProcessorModel out;
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
      const bool is_name = line.starts_with("model name"), are_features = line.starts_with("flags");
      if (is_name || are_features) out.lines += line + "\n";
      if (const size_t colon = line.find(": "); is_name && colon != line.npos) out.name = line.substr(colon + 2);
      if (are_features) break;
    }
    return out;
  }();
  return known;
}

}  // namespace caravan
