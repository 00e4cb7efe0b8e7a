#include "apps/train/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <streambuf>

#include "caravan/backend/mpi/mpi.h"
#include "caravan/base/error.h"
#include "caravan/runtime/devices.h"

namespace caravan::app {

int processes() { return mpi::launch().processes; }
int this_rank() { return mpi::launch().rank; }

namespace {
bool met = false;
}  // namespace
bool have_met() { return met; }

bool any_rank(bool says_so) {
  if (processes() == 1) return says_so;
  met = true;
  std::vector<int> group;
  for (int r = 0; r < processes(); ++r) group.push_back(r);
  const uint8_t own = says_so;
  uint8_t all = 0;
  const backend::Reduced part{&own, &all, 1, DType::u8, Accumulator::max};
  mpi::communicator()->all_reduce(group, {&part, 1});
  return all != 0;
}

void before_all_meet(const std::function<void()>& what) {
  if (processes() == 1) return what();
  std::exception_ptr refused;
  try {
    what();
  } catch (const UserError&) {
    refused = std::current_exception();
  }
  const bool first = this_rank() == 0;
  if (any_rank(first && refused) && !first) throw SaidByFirst();
  if (refused) std::rethrow_exception(refused);
}

void leave_to_first(const UserError& error) {
  if (processes() == 1) return;
  try {
    agree("another program", error.what());
  } catch (const backend::Disagreement&) {  // then this process says what it refuses
    return;
  }
  if (this_rank() != 0) throw SaidByFirst();
}

void wait_for_ranks() { any_rank(false); }
void agree(const std::string& what, const std::string& text) {
  if (processes() == 1) return;
  met = true;
  mpi::communicator()->agree(what, text);
}

namespace {

// How many devices `--devices` names. A list gives their kind to `device`, and GPUs by number to `names`.
int64_t device_count(const std::string& devices, std::string& device, std::vector<std::string>& names) {
  if (devices.empty()) return processes();
  int count = 0;
  const char* end = devices.data() + devices.size();
  if (const auto [stop, error] = std::from_chars(devices.data(), end, count); error == std::errc() && stop == end) {
    if (count < 1) throw ConfigError(fmt::format("--devices is {}; a run needs one at least.", devices));
    return count;
  }
  std::string kind;
  count = 0;
  for (size_t from = 0; from <= devices.size(); ++count) {
    const size_t comma = std::min(devices.find(',', from), devices.size());
    const std::string one = devices.substr(from, comma - from), its_kind = one.substr(0, one.find(':'));
    if (its_kind.empty() || (!kind.empty() && its_kind != kind))
      throw ConfigError(fmt::format(
          "--devices `{}` is neither a number nor a list of devices of one kind, such as cpu:0,cpu:1.", devices));
    kind = its_kind;
    if (const size_t colon = one.find(':');
        colon != one.npos && (colon + 1 == one.size() || one.find_first_not_of("0123456789", colon + 1) != one.npos))
      throw ConfigError(
          fmt::format("--devices `{}`: after the colon of `{}` stands a number, as in {}:0.", devices, one, kind));
    const DeviceKind* known = find_device_kind(kind);
    if (known && known->is_gpu) names.push_back(one);
    from = comma + 1;
  }
  device = kind;
  return count;
}

// Throws ConfigError if this is one of several processes that something else than mpirun of Open MPI has started: each
// of them would train alone.
void check_started_by_mpirun() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) return;
  const auto refuse = [](const std::string& processes, const char* starter) {
    throw ConfigError(
        fmt::format("this is one of {} that {} has started, and they cannot find each other; start them with the "
                    "mpirun of Open MPI, or name the devices of each process with --devices.",
                    processes, starter));
  };
  const char *of_step = std::getenv("SLURM_STEP_NUM_TASKS"), *of_mpi = std::getenv("PMI_SIZE");
  if (of_step && std::atoi(of_step) > 1) refuse(fmt::format("{} processes", of_step), "srun");
  if (of_mpi && std::atoi(of_mpi) > 1) refuse(fmt::format("{} processes", of_mpi), "another MPI than Open MPI");
  // PMIx does not say in the environment how many processes there are.
  if (!of_step && !of_mpi && std::getenv("PMIX_RANK")) refuse("the processes", "something else than mpirun");
}

}  // namespace

Mesh mesh_of(const MeshWishes& wishes, std::string& device) {
  if (wishes.devices.empty()) check_started_by_mpirun();
  std::vector<std::string> names;
  const int64_t count = device_count(wishes.devices, device, names);
  if (processes() > 1 && count != processes())
    throw ConfigError(fmt::format(
        "--devices `{}` names {}, but mpirun has started {} processes, one for each device; leave --devices "
        "out, or start as many processes.",
        wishes.devices, count == 1 ? "1 device" : fmt::format("{} devices", count), processes()));
  if (processes() > 1 && wishes.engine == "streams")
    throw ConfigError(
        fmt::format("the engine `streams` is for workers of one process, but mpirun has started {} processes, each of "
                    "which would compute with all {} devices; leave --engine out, or start one process.",
                    processes(), count));
  if (count == 1 && !names.empty()) device = names[0];
  if (count == 1 && wishes.parts <= 1 && wishes.engine == "auto") return {};
  Mesh out{{"data", count, wishes.parts}};
  out.engine = wishes.engine;
  out.names = std::move(names);
  if (wishes.split_states) out.optimizer_states = "data";
  check(out);
  return out;
}

void be_silent() {
  class Nothing : public std::streambuf {
    int overflow(int c) override { return c; }
    std::streamsize xsputn(const char*, std::streamsize n) override { return n; }
  };
  static Nothing nothing;
  std::cout.rdbuf(&nothing);
}

}  // namespace caravan::app
