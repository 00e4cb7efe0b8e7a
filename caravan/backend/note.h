// What an entry of the cache says beside its code: numbers and names in a fixed order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace caravan::backend {

// Each number and each name has a space after it. A name has no space.
class NoteWriter {
 public:
  NoteWriter& number(int64_t number);  // at least 0
  NoteWriter& name(std::string_view name);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Reads them in the same order. After something that cannot be what was written, all numbers are 0 and all names empty.
class NoteReader {
 public:
  static constexpr int64_t kMost = INT32_MAX;
  explicit NoteReader(std::string_view text) : rest_(text) {}
  int64_t number(int64_t most = kMost);  // of 0 to `most`
  bool flag() { return number(1) != 0; }
  std::string name();
  // Calls read() as many times as the next number says.
  template <class Read>
  void list(Read&& read) {
    for (int64_t k = number(); right_ && k > 0; --k) read();
  }
  std::string_view rest() const { return rest_; }            // what was not read yet
  bool is_right() const { return right_ && rest_.empty(); }  // was all of it read?

 private:
  std::string_view word();
  std::string_view rest_;
  bool right_ = true;
};

}  // namespace caravan::backend
