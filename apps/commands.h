// The commands: what each is asked, and its exit code. A user's mistake is thrown as a UserError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/recipes/recipe.h"
#include "apps/settings.h"

namespace caravan::app {

enum ExitCode : int { kDone = 0, kCheckFailed = 1, kWrongInput = 2, kMachineFailed = 3 };  // and Interruption's

struct EinsumOptions {
  std::string spec;
  std::vector<std::string> shapes, sizes, conditions;  // "2,8|8->4", "h=8", "j <= i"
  std::string op = "add";
  bool json = false;
};
int einsum_command(const EinsumOptions& options);

struct GradcheckOptions {
  std::vector<std::string> filters;
  bool json = false;
};
int gradcheck_command(const GradcheckOptions& options);

struct OpsOptions {
  std::string name;
  bool json = false;
};
int ops_command(const OpsOptions& options);

// Devices that share each batch.
struct MeshWishes {
  std::string devices;          // "4" or "cpu:0,cpu:1"; empty: one, or the processes that mpirun has started
  std::string engine = "auto";  // how they exchange values
  int64_t parts = 0;            // sums are added up as on so many devices; 0: as on those there are
  bool split_states = false;    // each device keeps a part of what the optimiser remembers
};

struct InspectOptions {
  std::string recipe, stage, dump, trace;  // no stage: the graph, or nothing beside a dump or a trace
  Wishes wishes;
  MeshWishes mesh;
  std::vector<std::string> passes_off;
  int64_t memory_limit = 0;  // bytes; 0: no limit
  bool measure = false;      // with the stage `kernels`: run the step, and add the share of each kernel
  bool dot = false, json = false;
};
int inspect_command(const InspectOptions& options, const Settings& settings);

struct ProfileRequest {
  std::string recipe;
  Wishes wishes;
  MeshWishes mesh;
  int64_t steps = 0;  // 0: as many as run in about half a second
  size_t top = 10;    // kernels that are shown; 0: all
  std::string plot;   // a file; empty: none
  std::vector<std::string> passes_off;
  int64_t memory_limit = 0;  // bytes; 0: no limit
  bool json = false;
};
int profile_command(const ProfileRequest& options, const Settings& settings);

struct PlanOptions {
  std::string recipe, mesh;  // the mesh as text, "data=1024"
  Wishes wishes;
  double bandwidth = 10, latency = 10;  // of the network: GB/s of each device in each direction; microseconds
  std::string all_reduce = "ring";      // or tree
  bool split_states = false;            // as in MeshWishes
  bool estimate = false;                // computing by the rates of this machine alone; nothing is run
  bool json = false;
};
int plan_command(const PlanOptions& options, const Settings& settings);

struct BenchOptions {
  std::vector<std::string> names;  // none: all
  double seconds = 1;              // for the steps of each
  bool warm = false;               // take compiled code from the cache
  bool tf32 = false;               // on a GPU: ContextOptions::tf32
  int64_t memory_limit = 0;        // bytes; 0: no limit
  std::vector<std::string> flags;  // ContextOptions::compiler_flags
  std::string write;               // a folder for records; empty: none
  bool list = false;               // their names and what they are, and nothing else
  bool profile = false;            // the time of each kernel instead
  std::string stage;               // of a step on its way to code, instead; empty: none
  bool measure = false;            // InspectOptions::measure
  bool json = false;
};
int bench_command(const BenchOptions& options, const Settings& settings);
std::vector<std::string> bench_names();

struct TuneRequest {
  std::vector<std::string> names, numbers;  // workloads, none: a few usual ones; which numbers to change, none: all
  std::string output;                       // a file; empty: the user's
  double seconds = 0.3;                     // of the steps of each workload, for each change
  bool json = false;
};
int tune_command(const TuneRequest& request, const Settings& settings);
std::vector<std::string> tuning_names();  // of the numbers

struct SummaryOptions {
  std::string what;  // a recipe, or the path of a checkpoint
  bool json = false;
};
int summary_command(const SummaryOptions& options, const Settings& settings);

struct TrainOptions {
  std::string recipe;
  Wishes wishes;
  MeshWishes mesh;
  std::string plot, dump;           // folders; empty: none
  std::string trace, save, resume;  // files; empty: none
  double save_every = 60;           // seconds
  std::optional<int64_t> until;     // a step to stop at
  std::vector<std::string> passes_off;
  int64_t memory_limit = 0;  // bytes; 0: no limit
  bool check_numbers = false, debug_kernels = false, quiet = false, json = false;
};
int train_command(const TrainOptions& options, const Settings& settings);

struct EvalOptions {
  std::string file, plot;
  bool quiet = false, json = false;
};
int eval_command(const EvalOptions& options, const Settings& settings);

struct SampleOptions {
  std::string file, llama, tokenizer, gpt2;  // one of the models: a checkpoint, a file of llama2.c, a folder of GPT-2
  std::optional<std::string> prompt;         // none: the beginning of a text
  double temperature = 1, top_p = 1, repetition_penalty = 1;
  int64_t top_k = 0;
  std::optional<int64_t> tokens, count;  // none: a whole name, 20 of them; 500 tokens of a text
  bool json = false;
};
int sample_command(const SampleOptions& options, const Settings& settings);

struct ExportOptions {
  std::string file, part, name;    // no part: the whole; no name: the C file's
  std::string c, header, weights;  // files; empty: none, and weights inside
  std::string tensors;             // a file of the weights alone; empty: none
  bool quiet = false, json = false;
};
int export_command(const ExportOptions& options, const Settings& settings);

struct NewOptions {
  std::string name, recipe;  // no recipe: xor
  bool json = false;
};
int new_command(const NewOptions& options);
std::vector<std::string> project_names();  // what a project may start from

struct ParityOptions {
  std::vector<std::string> files;
  bool quiet = false, json = false;
};
int parity_command(const ParityOptions& options, const Settings& settings);

struct ServeOptions {
  std::string file;  // a checkpoint of a model of digits; empty: the one in the cache, trained first if need be
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any that is free
};
int serve_command(const ServeOptions& options, const Settings& settings);

struct DataOptions {
  std::string name, to;  // no `to`: the folder that was given, or the user's cache
  bool json = false;
};
int data_list(const DataOptions& options, const Settings& settings);
int data_where(const DataOptions& options, const Settings& settings);
int data_get(const DataOptions& options, const Settings& settings);

struct CacheOptions {
  bool clear = false, json = false;
};
int cache_command(const CacheOptions& options, const Settings& settings);

struct DoctorOptions {
  bool json = false;
};
int doctor_command(const DoctorOptions& options, const Settings& settings);

std::string version();  // "0.1.0"

}  // namespace caravan::app
