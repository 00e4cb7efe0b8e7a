// What the tests of the back half share: programs in the intermediate representation, joined, rewritten and run on
// devices.
#pragma once

#include <caravan/caravan.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "caravan/backend/backend.h"
#include "caravan/ir/program.h"
#include "temporary_folder.h"

namespace caravan {

ir::Program to_ir(const Program& program);

// The lines of a dump without remarks (`# ...`), blank ends and the lines that start with one of `without`.
std::vector<std::string> lines_of(const std::string& text, const std::vector<std::string>& without = {});
std::string joined(const std::vector<std::string>& lines);
// The accumulations, assignments and what is observed, as text.
std::string body_of(const ir::Program& program);

// A program, the values of its states before the first run and those of its symbols.
struct Task {
  ir::Program program;
  std::map<std::string, Array> states;
  std::vector<int64_t> symbols;
};

// States have the values that a Context gives them.
Task task_of(const Program& program, const IndexValues& indices = {});

// A body entry by entry; `change` may replace an entry's arguments.
using ChangeArguments =
    std::function<std::vector<int>(ir::Body& body, const ir::Scalar& entry, size_t at, std::vector<int> arguments)>;
ir::Body rewritten(
    const ir::Body& from, const ChangeArguments& change, DType (*cast_to)(DType) = [](DType dtype) { return dtype; });

// The same in f32 where it was in f64.
Task in_f32(Task task);

// One program that does what all do: names get the task's number, so that one compilation covers many.
Task joined(const std::vector<Task>& tasks);

struct Outcome {
  std::vector<Array> observed;          // after the last run
  std::map<std::string, Array> states;  // likewise
};
Outcome run_on(backend::Device& device, const Task& task, int times = 1, const plan::Options& options = {});

}  // namespace caravan
