// The pointer inside of a value handle such as Array: a shared object that exists until the handle is moved from. Using
// a handle after that is the user's mistake, and throws a UserError that says so.
#pragma once

#include <memory>
#include <utility>

namespace caravan {

// Inside: throws the UserError of an object that was moved from.
[[noreturn]] void refuse_moved(const char* what);

// Inside: a shared object that exists until the handle is moved from.
template <class T>
class Handle {
 public:
  Handle(const char* what, std::shared_ptr<T> object) : what_(what), object_(std::move(object)) {}

  // The object. Throws after a move.
  const std::shared_ptr<T>& shared() const {
    if (!object_) refuse_moved(what_);
    return object_;
  }
  T* operator->() const { return shared().get(); }
  T& operator*() const { return *shared(); }

 private:
  const char* what_;  // "an Array"
  std::shared_ptr<T> object_;
};

}  // namespace caravan
