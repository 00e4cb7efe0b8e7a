// A model's numbers: as C, or as a file beside it with the C that reads it.
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::deploy {

struct Weight {
  std::string field;  // of the struct of weights
  std::string name;   // the user's
  Array value;        // of the precision that the model computes with
};

std::string capitals(std::string text);  // of names of macros

// The type PREFIX_weights, or another name for arrays of another kind.
std::string struct_text(const std::vector<Weight>& arrays, const std::string& prefix, const char* type = "weights");
// The constant PREFIX_trained of that type.
std::string initializer_text(const std::vector<Weight>& arrays, const std::string& prefix, const char* type = "weights",
                             const char* constant = "trained");

// The file: a head (magic, byte order, version, hashes of the layout and of the contents), then the arrays, packed.
std::string file_bytes(const std::vector<Weight>& weights);
std::string load_declaration(const std::string& prefix);
std::string load_definition(const std::vector<Weight>& weights, const std::string& prefix);

}  // namespace caravan::deploy
