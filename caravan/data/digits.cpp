#include "caravan/data/digits.h"

#include <fmt/format.h>

#include "caravan/base/error.h"
#include "caravan/data/idx.h"

namespace caravan::data {

namespace {

constexpr int64_t kSide = 28, kClasses = 10;
constexpr int64_t kDrawnTrain = 20'000, kDrawnTest = 4'000;  // enough to learn from, and drawn in a second

LabelledImages load(const std::string& folder, const std::string& part) {
  auto path = [&](const std::string& name) {
    const auto found = find_file(folder, name);
    if (!found) throw ConfigError(fmt::format("`{}` has no {}, packed or not.", folder, name));
    return *found;
  };
  const std::string image_file = path(part + "-images-idx3-ubyte"), label_file = path(part + "-labels-idx1-ubyte");
  const Array images = read_idx(image_file);
  Array labels = read_idx(label_file);
  const std::vector<int64_t> sizes = images.shape().sizes();
  if (sizes.size() != 3 || sizes[1] != kSide || sizes[2] != kSide || images.dtype() != DType::u8)
    throw ConfigError(fmt::format("`{}` has {} of shape {}; images must be u8 of shape n|28,28.", image_file,
                                  name(images.dtype()), to_string(images.shape())));
  if (labels.shape().rank() != 1 || labels.dtype() != DType::u8)
    throw ConfigError(fmt::format("`{}` has {} of shape {}; labels must be u8 of shape n|.", label_file,
                                  name(labels.dtype()), to_string(labels.shape())));
  if (labels.size() != sizes[0])
    throw ConfigError(fmt::format("`{}` has {} images, but `{}` has {} labels; they are not of one data set.",
                                  image_file, sizes[0], label_file, labels.size()));
  if (sizes[0] == 0) throw ConfigError(fmt::format("`{}` has no images.", image_file));
  for (int64_t i = 0; i < labels.size(); ++i)
    if (labels.at(i) >= kClasses)
      throw ConfigError(
          fmt::format("label {} of `{}` is {}; labels must be from 0 to 9.", i, label_file, labels.at(i)));
  Shape shape = images.shape();
  shape.output.push_back({1});
  return {images.reshaped(shape), labels};
}

}  // namespace

Digits load_digits(const std::string& folder, Source where) {
  const WrittenAt at(where);
  return {load(folder, "train"), load(folder, "t10k"), folder};
}

Digits find_digits(const Places& places, uint64_t seed, Source where) {
  const WrittenAt at(where);
  if (const auto folder = find_dataset("mnist", places)) {
    Digits out = load_digits(*folder);
    out.chosen = !places.given.empty();
    return out;
  }
  if (!places.given.empty()) throw ConfigError(missing_message("mnist", places));
  return drawn_digits(kDrawnTrain, kDrawnTest, seed);
}

}  // namespace caravan::data
