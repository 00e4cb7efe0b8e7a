#include "caravan/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "caravan/base/error.h"
#include "caravan/data/order.h"

namespace caravan::data {

namespace {

int64_t rows_of(const Array& array) {
  const std::vector<int64_t> sizes = array.shape().sizes();
  if (sizes.empty()) throw ShapeError("a scalar has no examples; give an array whose leftmost axis counts them.");
  return sizes[0];
}

int64_t rows_of(const Arrays& arrays) {
  if (arrays.empty()) throw ShapeError("there are no arrays to take examples of.");
  const int64_t n = rows_of(arrays[0]);
  for (const Array& array : arrays)
    if (rows_of(array) != n)
      throw ShapeError(fmt::format(
          "arrays of {} and {} examples cannot go together; example i of one must belong to example i of the other.", n,
          rows_of(array)));
  return n;
}

Arrays taken(const Arrays& arrays, const std::vector<int64_t>& rows) {
  Arrays out;
  for (const Array& array : arrays) out.push_back(array.take(rows));
  return out;
}

void check_batch(int64_t batch, int64_t rows) {
  if (batch < 1) throw ConfigError(fmt::format("a batch of {} examples cannot be; give a positive number.", batch));
  if (rows < 1) throw ShapeError("there are no examples to make batches of.");
}

int64_t batches_in(int64_t rows, int64_t batch) { return (rows - 1) / batch + 1; }  // rows > 0

// One row of `array` without its leftmost axis.
Array row(const Array& array, int64_t i) {
  Shape shape = array.shape();
  for (const RowKind kind : kMemoryOrder)
    if (!shape[kind].empty()) {
      shape[kind].erase(shape[kind].begin());
      break;
    }
  return array.take({i}).reshaped(shape);
}

// One below the other.
class Stack {
 public:
  Stack(int64_t rows, Source where) : rows_(rows), where_(where) {}
  void add(const Array& array) {
    const WrittenAt at(where_);
    if (filled_ == 0) {
      Shape shape = array.shape();
      shape.batch.insert(shape.batch.begin(), {rows_});
      out_ = Array(shape, array.dtype());
      first_ = array;
    }
    if (array.shape() != first_.shape() || array.dtype() != first_.dtype())
      throw ShapeError(fmt::format("examples of shape \"{}\" and \"{}\" do not make one array.",
                                   to_string(first_.shape()), to_string(array.shape())));
    const size_t bytes = size_t(array.size() * caravan::bytes(array.dtype()));
    if (bytes > 0)
      std::memcpy(static_cast<std::byte*>(out_.mutable_data()) + size_t(filled_) * bytes, array.data(), bytes);
    ++filled_;
  }
  Array done() && { return std::move(out_); }

 private:
  int64_t rows_, filled_ = 0;
  Source where_;
  Array out_, first_;
};

int64_t some_rows(const Arrays& arrays, Source where) {
  const WrittenAt at(where);
  const int64_t rows = rows_of(arrays);
  if (rows == 0) throw ShapeError("without examples, the shape of what is made of them is not known.");
  return rows;
}

}  // namespace

std::vector<Arrays> split(const Arrays& arrays, const std::vector<double>& fractions, uint64_t seed, Source where) {
  const WrittenAt at(where);
  std::vector<Arrays> out;
  for (const std::vector<int64_t>& rows : split_order(rows_of(arrays), fractions, seed))
    out.push_back(taken(arrays, rows));
  return out;
}

Arrays shuffled(const Arrays& arrays, uint64_t seed, Source where) {
  const WrittenAt at(where);
  return taken(arrays, permutation(rows_of(arrays), seed, "shuffled.order"));
}

std::vector<Arrays> batches(const Arrays& arrays, int64_t size, Source where) {
  const WrittenAt at(where);
  const int64_t n = rows_of(arrays);
  check_batch(size, n);
  std::vector<Arrays> out;
  for (int64_t first = 0; first < n; first += size) {
    out.emplace_back();
    for (const Array& array : arrays) out.back().push_back(array.part(first, std::min(size, n - first)));
  }
  return out;
}

Array whole_batches(const Array& array, int64_t batch, Source where) {
  const WrittenAt at(where);
  const int64_t n = rows_of(array);
  check_batch(batch, n);
  if (n % batch == 0) return array.batches(batch);
  std::vector<int64_t> rows(size_t(batches_in(n, batch) * batch));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(i) % n;
  return array.take(rows).batches(batch);
}

Array map_rows(const Array& array, const std::function<Array(const Array&)>& f, Source where) {
  const int64_t n = some_rows({array}, where);
  Stack out(n, where);
  for (int64_t i = 0; i < n; ++i) out.add(f(row(array, i)));
  return std::move(out).done();
}

Array zip_rows(const Array& a, const Array& b, const std::function<Array(const Array&, const Array&)>& f,
               Source where) {
  const int64_t n = some_rows({a, b}, where);
  Stack out(n, where);
  for (int64_t i = 0; i < n; ++i) out.add(f(row(a, i), row(b, i)));
  return std::move(out).done();
}

Array unit_pixels(const Array& images, Source where) {
  const WrittenAt at(where);
  if (images.dtype() != DType::u8)
    throw DTypeError(fmt::format("pixels must be u8, from 0 to 255, not {}.", name(images.dtype())));
  Array out(images.shape(), DType::f32);
  const auto* from = static_cast<const uint8_t*>(images.data());
  auto* to = static_cast<float*>(out.mutable_data());
  for (int64_t i = 0; i < images.size(); ++i) to[i] = float(from[i]) / 255;
  return out;
}

Normalization::Normalization(const Array& train, Over over, Source where) {
  const WrittenAt at(where);
  const int64_t n = rows_of(train);
  if (train.size() == 0) throw ShapeError("there are no examples to take a mean of.");
  const int64_t features = over == Over::everything ? 1 : train.size() / n, count = train.size() / features;
  mean_.assign(size_t(features), 0);
  deviation_.assign(size_t(features), 0);
  for (int64_t i = 0; i < train.size(); ++i) mean_[size_t(i % features)] += train.at(i) / double(count);
  for (int64_t i = 0; i < train.size(); ++i) {
    const double off = train.at(i) - mean_[size_t(i % features)];
    deviation_[size_t(i % features)] += off * off / double(count);
  }
  for (double& d : deviation_) d = d > 0 ? std::sqrt(d) : 1;
}

Array Normalization::operator()(const Array& array, Source where) const {
  const WrittenAt at(where);
  const auto features = int64_t(mean_.size()), n = rows_of(array);
  if (features > 1 && n > 0 && array.size() / n != features)
    throw ShapeError(
        fmt::format("the data that was normalised by had {} features, but an array of shape \"{}\" has {}.", features,
                    to_string(array.shape()), array.size() / n));
  Array out(array.shape(), DType::f32);
  auto* to = static_cast<float*>(out.mutable_data());
  for (int64_t i = 0; i < array.size(); ++i)
    to[i] = float((array.at(i) - mean_[size_t(i % features)]) / deviation_[size_t(i % features)]);
  return out;
}

// The thread makes batches in order and waits while `ahead` are ready; the caller takes them. Both meet at `mutex_`.
class Loader::Worker {
 public:
  Worker(Arrays arrays, LoaderOptions options)
      : arrays_(std::move(arrays)), options_(std::move(options)), rows_(rows_of(arrays_)), step_(options_.start_step) {
    check_batch(options_.batch, rows_);
    if (options_.start_step < 0 || options_.ahead < 1)
      throw ConfigError(fmt::format("a Loader cannot begin at step {} or keep {} batches ready.", options_.start_step,
                                    options_.ahead));
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw BackendError(fmt::format("no thread could be started for a Loader: {}.", error.what()));
    }
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Arrays next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    Arrays out = std::move(ready_.front());
    ready_.pop_front();
    ++step_;
    changed_.notify_all();
    return out;
  }
  int64_t step() const { return step_; }
  int64_t steps_per_epoch() const { return batches_in(rows_, options_.batch); }

 private:
  void run() {
    try {
      for (int64_t step = options_.start_step;; ++step) {
        Arrays batch = made(step);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || int64_t(ready_.size()) < options_.ahead; });
        if (stopping_) return;
        ready_.push_back(std::move(batch));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  Arrays made(int64_t step) {
    const int64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * options_.batch;
    if (epoch != epoch_ && options_.shuffle)
      order_ = permutation(rows_, options_.seed, "loader.order", uint64_t(epoch));
    epoch_ = epoch;
    std::vector<int64_t> rows(size_t(options_.batch));
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t at = (first + int64_t(i)) % rows_;
      rows[i] = options_.shuffle ? order_[size_t(at)] : at;
    }
    Arrays out = taken(arrays_, rows);
    return options_.change ? options_.change(std::move(out), step) : out;
  }

  const Arrays arrays_;
  const LoaderOptions options_;
  const int64_t rows_;
  int64_t step_;  // the caller's

  std::vector<int64_t> order_;  // the thread's, of epoch_
  int64_t epoch_ = -1;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Arrays> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;

  std::thread thread_;  // the last member: it uses the others
};

Loader::Loader(Arrays arrays, LoaderOptions options, Source where) {
  const WrittenAt at(where);
  worker_ = std::make_unique<Worker>(std::move(arrays), std::move(options));
}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

Loader::Worker& Loader::worker() const {
  if (!worker_) refuse_moved("a Loader");
  return *worker_;
}
Arrays Loader::next() { return worker().next(); }
int64_t Loader::step() const { return worker().step(); }
int64_t Loader::steps_per_epoch() const { return worker().steps_per_epoch(); }

}  // namespace caravan::data
