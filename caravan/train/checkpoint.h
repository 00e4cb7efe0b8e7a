// Checkpoints: the states of a Context by name in a safetensors file, with texts that say what they belong to.
//
//     save_checkpoint("run.safetensors", ctx, {{"step", "300"}});
//     ...
//     load_checkpoint("run.safetensors", other);                         // all of them, or none and a list of why
//     save_checkpoint("encoder.safetensors", ctx, {}, parameters(encoder));   // a part of them
//
// Numbers are stored as they are, so going on from a checkpoint is going on, bit for bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/data/safetensors.h"
#include "caravan/runtime/context.h"

namespace caravan {

using About = std::map<std::string, std::string>;  // texts that a checkpoint carries: step, seed, data, ..

// All states of a Context but its inputs, or the given ones, as the contents of a file.
data::Tensors checkpoint(const Context& ctx);
data::Tensors checkpoint(const Context& ctx, const std::vector<Tensor>& states);  // only these states

// Saves states to a file, which appears complete; if that fails, the old file stays.
void save_checkpoint(const std::string& path, const Context& ctx, const About& about = {},
                     Source where = Source::here());
void save_checkpoint(const std::string& path, const Context& ctx, const About& about, const std::vector<Tensor>& states,
                     Source where = Source::here());

// What keeps a file from filling a Context. Sizes must be equal, and precisions; but f64, which the interpreter keeps
// for everything, is rounded to what is declared.
struct LoadReport {
  // A state whose sizes or precisions differ.
  struct Misfit {
    std::string name, in_file, in_context;  // "f32 [16, 2]"
    bool transposed = false;                // the table of an embedding, as files of an earlier version have it
  };
  std::vector<std::string> missing;     // states of the Context that the file lacks
  std::vector<std::string> unexpected;  // tensors of the file that the Context lacks
  std::vector<Misfit> misshapen;        // states that both have, of different sizes or precisions

  // Whether the file has exactly the states of the Context.
  bool fits() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  std::string to_string() const;  // one line for each kind; a hundred names at most
};
LoadReport compare(const data::Tensors& file, const Context& ctx);  // what loading the file would find; changes nothing

// Which differences between a file and a Context are meant.
struct LoadOptions {
  bool allow_missing = false, allow_unexpected = false;  // the file may lack states; it may have others
};
// Into a Context that has no states yet, all of the file: a program that needs a state which the file lacks, or has
// with other sizes, is then refused when it is compiled. Otherwise writes the states that both have. ConfigError with
// the report where something else differs; nothing is changed then.
void load_checkpoint(const std::string& path, Context& ctx, const LoadOptions& options = {},
                     Source where = Source::here());
void load_checkpoint(const data::Tensors& tensors, const std::string& file, Context& ctx,
                     const LoadOptions& options = {}, Source where = Source::here());

}  // namespace caravan
