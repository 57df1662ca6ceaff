// An optional value that is seldom there. Not for values that mostly are: each is an allocation.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace fourfold {

/// As std::optional, but the room of a pointer where there is no value: for structs of which there
/// are many.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(std::nullopt_t) {}
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rare(Rare&& other) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~Rare() = default;

  explicit operator bool() const { return value_ != nullptr; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

  bool operator==(const Rare& other) const {
    return *this && other ? **this == *other : !*this && !other;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace fourfold
