// What would give a wrong number without a word elsewhere.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Refusals, OfWhatFitsByAccidentAlone) {
  const Tensor logits = drawn_tensor("logits", "5|4"), classes = ids("5|", {1, 3, 2, 0, 2}),
               sequence = drawn_tensor("sequence", "2,6|3");
  struct Row {
    const char* name;
    std::function<Tensor()> build;
    const char* phrase;
  };
  const Row rows[] = {
      {"an id beyond the classes",
       [&] {
         return cross_entropy(logits, ids("5|", {1, 3, 7, 0, 2}));
       },
       "7"},
      {"an id below them, not ignored",
       [&] {
         return cross_entropy(logits, ids("5|", {1, -100, 2, 0, 2}));
       },
       "-100"},
      {"ids as floats", [&] { return cross_entropy(logits, drawn_tensor("t", "5|")); }, "cast(targets, DType::i32)"},
      {"ids on an output axis",
       [&] {
         return cross_entropy(logits, ids("5", {1, 3, 2, 0, 2}));
       },
       "so the targets must be `5|`"},
      {"one id for all", [&] { return cross_entropy(logits, ids("", {1})); }, "so the targets must be `5|`"},
      {"weights of examples as those of classes",
       [&] { return cross_entropy(logits, classes, {.class_weights = drawn_tensor("w", "5|")}); },
       "1 batch axis by `w`"},
      {"a column against a row", [&] { return mse(drawn_tensor("p", "5|"), drawn_tensor("t", "5")); },
       "both must have one shape"},
      {"smoothing beyond all", [&] { return cross_entropy(logits, classes, {.label_smoothing = 1.5}); },
       "a share, 0 to 1"},
      {"no delta", [&] { return huber(logits, logits, 0); }, "must be above 0"},
      {"a mask that is added",
       [&] {
         Tensor q = drawn_tensor("q", "2|1,3");
         return attend(q, q, q, {.mask = drawn_tensor("m", "2|2->")});
       },
       "must be boolean"},
      {"a softmax over nothing", [&] { return softmax("b | c => b | c", logits); }, "runs over nothing"},
      {"a window in the padding", [&] { return MaxPool2d{{.kernel = 2, .padding = 2}}(drawn_tensor("x", "1|6,6,1")); },
       "more than half of its kernel"},
      {"a sequence longer than its context", [&] { return Lstm("l", {.hidden = 3, .context = 4})(sequence); }, "4"},
      {"a sequence longer than its context", [&] { return Gru("g", {.hidden = 3, .context = 4})(sequence); }, "4"},
  };
  for (const Row& row : rows)
    for (const char* device : {"interp", "cpu"}) {
      try {
        Context({.device = device}).eval(row.build());
        ADD_FAILURE() << row.name << " was not refused on " << device;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(row.phrase), std::string::npos) << row.name << ": " << e.what();
      }
    }
  EXPECT_TRUE(std::isfinite(
      Context(kInDouble).eval(cross_entropy(logits, ids("5|", {1, -100, 2, 0, 2}), {.ignore = -100})).item()));
}

}  // namespace
}  // namespace caravan
