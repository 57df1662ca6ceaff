// Bytes as the host sees them, wherever they are: the memory itself, or a copy of it that goes back
// when the view ends. Not the owner of that memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace fourfold {

/// `Byte` is std::byte where the host may write, const std::byte where it only reads. A view ends
/// before the next program runs.
template <class Byte>
class HostView {
 public:
  /// Puts a copy back where it came from. Must not throw.
  using GiveBack = std::function<void(std::span<const std::byte>)>;

  HostView() = default;
  /// The memory itself.
  HostView(std::span<Byte> memory) : bytes_(memory) {}
  /// A copy; nothing goes back without `give_back`.
  HostView(std::unique_ptr<std::byte[]> copy, std::size_t size_bytes, GiveBack give_back = {})
      : copy_(std::move(copy)), bytes_(copy_.get(), size_bytes), give_back_(std::move(give_back)) {}
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;
  HostView(HostView&& other) noexcept
      : copy_(std::move(other.copy_)),
        bytes_(std::exchange(other.bytes_, {})),
        give_back_(std::exchange(other.give_back_, nullptr)) {}
  HostView& operator=(HostView&& other) noexcept {
    std::swap(copy_, other.copy_);
    std::swap(bytes_, other.bytes_);
    std::swap(give_back_, other.give_back_);
    return *this;
  }
  /// One to write is one to read.
  HostView(HostView<std::byte>&& other) noexcept
    requires std::is_const_v<Byte>
      : copy_(std::move(other.copy_)),
        bytes_(std::exchange(other.bytes_, {})),
        give_back_(std::exchange(other.give_back_, nullptr)) {}
  ~HostView() {
    if (give_back_) give_back_(bytes_);
  }

  Byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Byte& operator[](std::size_t index) const { return bytes_[index]; }
  /// Valid as long as the view.
  std::span<Byte> span() const { return bytes_; }
  operator std::span<Byte>() const { return bytes_; }
  operator std::span<const std::byte>() const
    requires(!std::is_const_v<Byte>)
  {
    return bytes_;
  }

 private:
  friend class HostView<const std::byte>;
  std::unique_ptr<std::byte[]> copy_;
  std::span<Byte> bytes_;
  GiveBack give_back_;
};

}  // namespace fourfold
