// The tensors of another program's file under the names and in the layouts of a model here.
//
//     NameMap map{{{.ours = "fc.weight", .theirs = {"dense.kernel"}, .transposed = true},
//                  {.ours = "attn.qkv.weight", .theirs = {"q.weight", "k.weight", "v.weight"}}},   // joined
//                 {"*.attn.bias"}};                                                                  // not needed
//     load_checkpoint(renamed(read_safetensors(file), map, file), file, ctx);
//
// PyTorch keeps the weight of a linear map as [output, input] and an embedding as [num, dim], as we do. Some files have
// linear maps as [input, output], so they are transposed.
#pragma once

#include <string>
#include <vector>

#include "caravan/data/safetensors.h"

namespace caravan::pretrained {

// One tensor of the model, and where it comes from. `{}` in the names stands for the number of a block, 0, 1, ..
struct MappedTensor {
  std::string ours;                 // the name in the model
  std::vector<std::string> theirs;  // the tensor of the file; of several, one after the other along the first axis
  bool transposed = false;          // a matrix whose axes are exchanged, after that
  int64_t part = 0, parts = 1;      // of theirs, this one of so many equal parts along the first axis
  std::vector<int64_t> sizes{};     // in the model, where a file has fewer axes: [36, 64, 768] for [2304, 768]
};
// All tensors of a model.
struct NameMap {
  std::vector<MappedTensor> tensors;   // what the model has
  std::vector<std::string> ignored{};  // names of the file that no model needs; a `*` stands for any text
  int64_t blocks = 0;                  // rows with `{}` count for each of so many blocks
};

// Floats of any precision become f32. ConfigError with all names that the file lacks and all that nobody knows.
data::Tensors renamed(const data::Tensors& theirs, const NameMap& map, const std::string& file);

}  // namespace caravan::pretrained
