// The plans that Contexts which share states have made.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "caravan/plan/plan.h"
#include "caravan/tensor/infer.h"
#include "caravan/tensor/program.h"

namespace caravan {

// Plans of programs that some Routine still has, for a Context and its readers, which may be of several threads.
class PlanCache {
 public:
  // The plan of a program of these very tensors, whose states had these shapes; null if there is none.
  std::shared_ptr<const plan::Plan> find(const Program& program, const KnownShapes& shapes);
  void keep(const Program& program, const KnownShapes& shapes, const std::shared_ptr<const plan::Plan>& plan);

 private:
  struct Entry {
    std::vector<std::weak_ptr<const Node>> tensors;
    KnownShapes shapes;
    std::weak_ptr<const plan::Plan> plan;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace caravan
