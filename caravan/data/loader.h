// From arrays to batches: splitting, shuffling, normalising, and a thread that prepares the next batches.
//
// Rows of the leftmost axis are examples; arrays that are handled together have equally many, and row i of one belongs
// to row i of the others. Every random order is a function of a seed (and an epoch) alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::data {

using Arrays = std::vector<Array>;  // images and labels, say

// Parts of a random order of the examples, without overlap: split({x, y}, {0.8, 0.1, 0.1}, 1) gives three pairs. A
// part begins where the one before ended, at the nearest example; fractions that sum to 1 lose none.
std::vector<Arrays> split(const Arrays& arrays, const std::vector<double>& fractions, uint64_t seed,
                          Source where = Source::here());
Arrays shuffled(const Arrays& arrays, uint64_t seed,
                Source where = Source::here());  // in one random order for all arrays

// The examples in batches of `size`, in their order; the last may be smaller. They share the elements of the arrays.
// Every epoch in another order: batches(shuffled({x, y}, epoch), 32).
std::vector<Arrays> batches(const Arrays& arrays, int64_t size, Source where = Source::here());

// n|... becomes steps,batch|...: the last batch is completed by the first examples.
Array whole_batches(const Array& array, int64_t batch, Source where = Source::here());

// f of every example (its row as an array without the leftmost axis), and of every pair of them; the results, of one
// shape, are the rows of a new array.
Array map_rows(const Array& array, const std::function<Array(const Array&)>& f, Source where = Source::here());
// f of every pair of examples, one of each array.
Array zip_rows(const Array& a, const Array& b, const std::function<Array(const Array&, const Array&)>& f,
               Source where = Source::here());

Array unit_pixels(const Array& images, Source where = Source::here());  // u8 of 0 to 255 as f32 of 0 to 1

enum class Over : uint8_t { everything, each_feature };  // one mean for all numbers, or one for each position
// (x - mean) / deviation in f32, with the mean and the deviation of the training data, applied to test data as well. A
// feature that does not vary is only shifted.
class Normalization {
 public:
  Normalization(const Array& train, Over over, Source where = Source::here());
  Array operator()(const Array& array, Source where = Source::here()) const;
  const std::vector<double>& mean() const { return mean_; }            // one, or one for every position of a row
  const std::vector<double>& deviation() const { return deviation_; }  // as many as means

 private:
  std::vector<double> mean_, deviation_;
};

// How examples become batches.
struct LoaderOptions {
  int64_t batch = 32;      // examples in a batch
  uint64_t seed = 0;       // of the order
  int64_t start_step = 0;  // as if so many batches had been taken: a run that is resumed goes on exactly
  bool shuffle = true;     // a new order every epoch
  int64_t ahead = 4;       // batches that may wait
  std::function<Arrays(Arrays batch, int64_t step)> change{};  // augmentation, run by the thread
};

// Batches in an order that is a function of seed and step alone; a batch that reaches the end of an epoch is completed
// by that epoch's first examples. For one thread of the caller.
class Loader {
 public:
  Loader(Arrays arrays, LoaderOptions options, Source where = Source::here());
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  // The next batch: batch|... of each array. What `change` throws is thrown here, at its step and ever after.
  Arrays next();
  int64_t step() const;             // of the batch that comes next
  int64_t steps_per_epoch() const;  // batches until all examples have come once

 private:
  class Worker;
  Worker& worker() const;  // refused after a move
  std::unique_ptr<Worker> worker_;
};

}  // namespace caravan::data
