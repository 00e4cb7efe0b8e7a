#include "caravan/nn/advice.h"

#include "caravan/base/list_text.h"

namespace caravan::nn {

namespace {

std::string quoted(const Shape& shape) { return shape.rank() == 0 ? "a single number" : "`" + to_string(shape) + "`"; }
std::string sizes(const Row& row) {
  return joined(row, " x ", [](const Axis& axis) { return std::to_string(axis.size); });
}
// The first argument, if its shape is known and the number of its output axes is another.
const Shape* with_other_axes(const Shapes& shapes, size_t output) {
  return !shapes.empty() && shapes[0] && shapes[0]->output.size() != output ? &*shapes[0] : nullptr;
}
Shape without_last(Shape shape) {
  shape.output.pop_back();
  return shape;
}
Shape with_one(Shape shape) {
  shape.output.push_back({1});
  return shape;
}
// The rows of a table are examples only if they are a batch.
std::string about_batch(const Shape& x) {
  if (!x.batch.empty() || x.output.empty()) return "";
  return " Before `|` stands the number of examples, so " + quoted(x) + " is " + in_words(x) +
         "; rows({..}) makes a batch of what it is given.";
}

}  // namespace

std::string in_words(const Shape& shape) {
  if (shape.rank() == 0) return "a single number";
  auto is_one = [](const std::vector<Axis>& axes) { return axes.size() == 1 && axes[0].size == 1; };
  const std::string examples =
      shape.batch.empty() || is_one(shape.batch) ? "one example" : sizes(shape.batch) + " examples";
  if (shape.output.empty()) return examples + " without an output axis";
  return examples + " of " + sizes(shape.output) + (is_one(shape.output) ? " number" : " numbers");
}

std::string has_last_axis(const Shapes& shapes) {
  if (shapes.empty() || !shapes[0] || !shapes[0]->output.empty()) return "";
  return "it works over the last output axis, but x is " + quoted(*shapes[0]) + " and has none.";
}

std::string are_groups(const Shapes& shapes, int64_t groups) {
  if (shapes.empty() || !shapes[0] || shapes[0]->output.empty()) return "";
  const int64_t channels = shapes[0]->output.back().size;
  if (groups > 0 && channels % groups == 0) return "";
  return "its " + std::to_string(groups) + " groups do not divide the " + std::to_string(channels) +
         " channels of x, which is " + quoted(*shapes[0]) + ".";
}

std::string have_heads(const Shapes& shapes) {
  if (shapes.size() < 3 || !shapes[0] || !shapes[1] || !shapes[2]) return "";
  const Shape &q = *shapes[0], &k = *shapes[1], &v = *shapes[2];
  const char* const names[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i)
    if (const Shape& x = *shapes[i]; x.batch.empty() || x.output.size() != 2)
      return std::string("queries, keys and values are `batch, time | heads, width of a head`, but ") + names[i] +
             " is " + quoted(x) + ".";
  auto differ = [](const char* first, int64_t a, const char* second, int64_t b, const char* what) {
    return std::string(first) + " has " + std::to_string(a) + " " + what + " and " + second + " has " +
           std::to_string(b) + "; they must be equal.";
  };
  const int64_t heads = q.output[0].size, shared = k.output[0].size;
  if (shared != v.output[0].size) return differ("k", shared, "v", v.output[0].size, "heads");
  if (heads % shared != 0)
    return "the " + std::to_string(shared) + " heads of k and v do not divide the " + std::to_string(heads) +
           " heads of q. Each head of k and v serves the same number of heads of q.";
  if (q.output[1].size != k.output[1].size)
    return differ("q", q.output[1].size, "k", k.output[1].size, "numbers in a head");
  if (k.batch.back().size != v.batch.back().size)
    return differ("k", k.batch.back().size, "v", v.batch.back().size, "positions");
  return "";
}

std::string is_image(const Shapes& shapes) {
  const Shape* x = with_other_axes(shapes, 3);
  if (!x) return "";
  std::string out = "images are `batch | height, width, channels`, but x is " + quoted(*x) + ".";
  if (x->output.size() == 2)
    out += " An axis of one channel comes from einsum(\"... | h, w => ... | h, w, 0\", x).";
  else
    out += about_batch(*x);
  return out;
}

std::string is_channels_in_time(const Shapes& shapes) {
  const Shape* x = with_other_axes(shapes, 2);
  if (!x) return "";
  return "sequences here are `batch | time, channels`, but x is " + quoted(*x) + ".";
}

std::string is_any_sequence(const Shapes& shapes) {
  if (shapes.empty() || !shapes[0]) return "";
  const Shape& x = *shapes[0];
  if (!x.batch.empty() && x.output.size() == 1) return "";
  return "sequences are `batch, time | channels`, the time being the last axis before `|`, but x is " + quoted(x) + ".";
}

std::string is_sequence(const Shapes& shapes, int64_t length, const std::string& takes) {
  if (std::string out = is_any_sequence(shapes); !out.empty()) return out;
  if (shapes.empty() || !shapes[0] || shapes[0]->batch.back().size == length) return "";
  const Shape& x = *shapes[0];
  return "it " + takes + ", but x is " + quoted(x) + ", a sequence of " + std::to_string(x.batch.back().size) + ".";
}

std::string are_equal(const Shapes& shapes, const std::string& first, const std::string& second) {
  if (shapes.size() < 2 || !shapes[0] || !shapes[1] || same_sizes(*shapes[0], *shapes[1])) return "";
  const Shape &a = *shapes[0], &b = *shapes[1];
  auto is = [](const std::string& name) { return name.ends_with('s') ? " are " : " is "; };
  std::string out =
      first + is(first) + quoted(a) + " and " + second + is(second) + quoted(b) + ", but both must have one shape.";
  auto bare = [](const std::string& name) { return name.substr(name.rfind(' ') + 1); };
  if (same_sizes(a, with_one(b)) || same_sizes(with_one(a), b)) {
    const bool second_lacks = a.output.size() > b.output.size();
    const std::string &shorter = second_lacks ? second : first, &longer = second_lacks ? first : second;
    return out + " Give " + shorter + " an axis of 1, einsum(\"... | => ... | 0\", " + bare(shorter) +
           "), or take that of " + longer + ", einsum(\"... | 0 => ... |\", " + bare(longer) + ").";
  }
  if (a.batch.empty() && b.batch.empty()) return out + about_batch(a.output.size() > b.output.size() ? a : b);
  return out + about_batch(a.batch.empty() ? a : b);
}

std::string are_targets(const Shapes& shapes, const std::string& scores, DType targets) {
  if (shapes.size() < 2 || !shapes[0] || !shapes[1]) return "";
  const Shape &x = *shapes[0], &y = *shapes[1];
  if (x.output.empty()) return "the " + scores + " are " + quoted(x) + ", without an output axis for the classes.";
  const Shape ids = without_last(x);
  const std::string type(name(targets));
  if (is_integer(targets)) {
    if (same_sizes(y, ids)) return "";
    const std::string out = "the " + scores + " are " + quoted(x) + ", so the targets must be " + quoted(ids) +
                            ", one id for each; they are " + quoted(y) + ".";
    if (same_sizes(y, x))
      return out + " Targets of " + type +
             " are ids; distributions over the classes must be floats: cast(targets, DType::f32).";
    return out + (ids.batch.empty() ? about_batch(x) : about_batch(y));
  }
  if (same_sizes(y, x)) return "";
  return "the targets are " + type + ", so they are distributions over the classes and must be " + quoted(x) +
         ", as the " + scores + " are; they are " + quoted(y) + ". For ids, cast(targets, DType::i32).";
}

}  // namespace caravan::nn
