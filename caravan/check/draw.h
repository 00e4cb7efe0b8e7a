// Fixed random values for gradient checks.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/array/array.h"
#include "caravan/tensor/tensor.h"

namespace caravan {

// In [low, high), a function of its arguments alone; another attempt is another draw.
double draw(const std::string& name, int64_t element, int64_t attempt, double low, double high);

Array drawn(const std::string& name, const std::string& shape);   // in (-1, 1), not within 0.05 of 0, in f64
Array spaced(const std::string& name, const std::string& shape);  // multiples of 0.1, no two equal, in random order

// Parameters with these values; the second has no two equal elements, so that a maximum has one place.
Tensor leaf(const std::string& name, const std::string& shape);
Tensor leaf_without_ties(const std::string& name, const std::string& shape);

}  // namespace caravan
