// A device that has another one do everything: a test overrides what it is about.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "caravan/backend/backend.h"

namespace caravan {

class ForwardingDevice : public backend::Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<backend::Device> device) : device_(std::move(device)) {}
  std::string name() const override { return device_->name(); }
  std::optional<Target> target() const override { return device_->target(); }
  std::unique_ptr<backend::Executable> prepare(std::shared_ptr<const plan::Plan> plan) override {
    return device_->prepare(std::move(plan));
  }
  bool has(const std::string& state) const override { return device_->has(state); }
  Array read(const std::string& state) const override { return device_->read(state); }
  void write(const std::string& state, const Array& value, DType dtype) override {
    device_->write(state, value, dtype);
  }
  std::vector<std::string> names() const override { return device_->names(); }

 protected:
  std::unique_ptr<backend::Device> device_;
};

}  // namespace caravan
