// The model that reads digits: what comes out of every layer for 28 x 28 pixels, and what to say while there is no
// model yet. Any thread may ask; one is answered at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan::serve {

inline constexpr int64_t kDigitSide = 28, kDigitPixels = kDigitSide * kDigitSide;

struct LayerValues {
  std::string name;
  std::vector<int64_t> sizes;  // {13, 13, 32}: rows, columns, channels; {100}: units
  std::vector<float> values;
};

struct DigitModel {
  std::string title;
  // From pixels in 0..1, row by row, to every layer; the last one is the ten probabilities.
  std::function<std::vector<LayerValues>(const std::vector<float>& pixels)> run;
};

struct NamedTensor {
  std::string name;
  Tensor value;
};
// A model that is a graph over the state `pixels`. Compiled and run once here, so that no request waits for it.
DigitModel compiled_model(std::string title, Context ctx, const Tensor& pixels, const std::vector<NamedTensor>& layers);

struct DigitExample {
  int label = 0;
  std::vector<float> pixels;
};

// There is no model yet; the message says what happens meanwhile.
struct NotReady : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Digits {
 public:
  void use(DigitModel model);
  void say(std::string status);  // why there is no model yet
  void show(std::vector<DigitExample> examples);

  struct Status {
    bool ready = false;
    std::string text;  // the model's title, or why there is none
  };
  Status status() const;
  std::vector<DigitExample> examples() const;
  std::vector<LayerValues> predict(const std::vector<float>& pixels);  // throws NotReady

 private:
  mutable std::mutex mutex_;  // of everything but the model's run, which may take longer than a look at the status
  std::mutex running_;
  DigitModel model_;
  std::string status_ = "There is no model.";
  std::vector<DigitExample> examples_;
};

}  // namespace caravan::serve
