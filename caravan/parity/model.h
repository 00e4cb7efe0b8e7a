// A model of the library's own blocks, built from PyTorch's description of it.
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/nn/layer.h"
#include "caravan/parity/description.h"

namespace caravan::parity {

Shape output_axes(const Sizes& sizes);

// A parameter or buffer under PyTorch's name. Ours has PyTorch's elements with the axes in this order, in memory order;
// how they are cut into rows and axes of ours makes no difference there.
struct Counterpart {
  std::string name;
  Sizes sizes;             // PyTorch's
  std::vector<int> order;  // PyTorch's axes as ours follow each other

  Array to_ours(const Array& theirs, const Shape& shape) const;
  Array to_theirs(const Array& ours) const;  // all axes are output axes
};

// x and the output have PyTorch's axes, all but the last as batch axes; ids have batch axes alone.
struct Model {
  nn::Layer call;
  std::vector<Counterpart> parameters, buffers;
  int64_t vocabulary;  // x holds ids below it; 0: x holds numbers
  Sizes output;        // without the batch axis
};

// For examples of these sizes. ConfigError, one sentence that names the layer, where they do not fit.
Model build(const ModelDescription& description, const Sizes& example);

}  // namespace caravan::parity
