// What the unpackers of all formats share: a buffer of packed bytes, and passing over unpacked
// ones. For gzip.cpp and zstd.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "data/byte_source.h"

namespace fourfold::data {

class Unpacker : public ByteSource {
 public:
  Unpacker(std::unique_ptr<ByteSource> packed, std::string file)
      : packed_(std::move(packed)), file_(std::move(file)) {}

  std::size_t read(std::span<std::byte> into) final {
    std::size_t filled = 0;
    while (filled < into.size()) {
      const std::span<const std::byte> packed = input();
      if (!is_in_member_ && (packed.empty() || ends_with_zeros())) break;
      const std::size_t got = unpack(packed, into.subspan(filled));
      // At the end of the file there may be bytes that were unpacked but did not fit before.
      if (packed.empty() && got == 0) fail("it ends too early");
      filled += got;
    }
    return filled;
  }
  void skip(std::int64_t bytes) final {
    std::vector<std::byte> dropped(chunk_bytes);
    while (bytes > 0) {
      const auto wanted = std::min(bytes, static_cast<std::int64_t>(chunk_bytes));
      const std::size_t got = read(std::span(dropped).first(static_cast<std::size_t>(wanted)));
      if (got == 0) return;
      bytes -= static_cast<std::int64_t>(got);
    }
  }
  std::int64_t position_in_file() const final {
    return packed_->position_in_file() - static_cast<std::int64_t>(rest_.size());
  }

 protected:
  /// Unpacks some of `packed`, which may be empty, into some of `into`, says with `consume` how
  /// much and with `set_in_member` whether more must follow. Returns how many bytes it wrote.
  virtual std::size_t unpack(std::span<const std::byte> packed, std::span<std::byte> into) = 0;

  void consume(std::size_t bytes) { rest_ = rest_.subspan(bytes); }
  void set_in_member(bool is_in_member) { is_in_member_ = is_in_member; }

  [[noreturn]] void fail(std::string_view what) const {
    throw UserError(ExitCode::bad_data,
                    format("{}: damaged compressed data before byte {}: {}; bring the file again",
                           file_, position_in_file(), what));
  }

 private:
  static constexpr std::size_t chunk_bytes = 1 << 18;

  /// The packed bytes not yet consumed; empty only at the end of the file.
  std::span<const std::byte> input() {
    if (rest_.empty()) {
      buffer_.resize(chunk_bytes);
      rest_ = std::span(buffer_).first(packed_->read(buffer_));
    }
    return rest_;
  }
  /// Between members, zeros up to the end of the file pad it to a whole block of a tape or disk:
  /// they are passed over, as gzip does (its manual, "Using gzip on tapes"). Zeros that something
  /// follows are damage, which `unpack` then says.
  bool ends_with_zeros() {
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (!std::ranges::all_of(rest_, is_zero)) return false;
    std::vector<std::byte> more(chunk_bytes);
    while (const std::size_t got = packed_->read(more)) {
      const std::span<const std::byte> read = std::span(more).first(got);
      if (!std::ranges::all_of(read, is_zero)) fail("zeros stand between its parts");
    }
    rest_ = {};
    return true;
  }

  std::unique_ptr<ByteSource> packed_;
  std::string file_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> rest_;
  bool is_in_member_ = false;
};

}  // namespace fourfold::data
