// How CUDA C++ spells the constructs of kernels that are mapped to groups of threads (schedule/map_to_grid.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "caravan/codegen/dialect.h"

namespace caravan::codegen {

// A kernel is a function that is told the number of its block and how many blocks there are. Indices are 32 bits wide
// where all of them fit (Grid::narrow).
class Cuda : public Dialect {
 public:
  explicit Cuda(const loop::Kernel& kernel);

  const std::string& index_type() const { return index_; }
  std::string free_name(const std::string& identifier) const override;
  std::string head(const std::string& function, const std::vector<std::string>& parameters) const override;
  std::string buffer_parameter(DType dtype, const std::string& name, BufferUse use) const override;
  std::vector<std::string> work_parameters(const loop::Kernel& kernel) const override;
  std::string function(std::string_view name, DType compute) const override;
  std::string local(const loop::Local& local, const std::string& name) const override;
  std::vector<std::string> before_loop(const loop::For& loop) const override;
  std::string loop(const loop::For& loop, const std::string& variable) const override;
  std::string barrier(const loop::Grid& grid) const override;
  std::string across_lanes(const loop::Grid& grid, DType dtype, const std::string& value,
                           const std::string& combined) const override;

 private:
  const loop::Grid grid_;
  const std::string index_;               // the type of indices
  std::set<const loop::For*> outermost_;  // loops that are not inside of a loop of their kind
};

}  // namespace caravan::codegen
