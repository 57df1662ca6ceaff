#include "data/byte_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/data_file.h"

namespace fourfold::data {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(DataFile file) : file_(std::move(file)) {}

  std::size_t read(std::span<std::byte> into) override {
    const std::size_t got = file_.read_some(offset_, into);
    offset_ += static_cast<std::int64_t>(got);
    return got;
  }
  void skip(std::int64_t bytes) override {
    offset_ += std::min(bytes, std::max(file_.size() - offset_, std::int64_t{0}));
  }
  std::int64_t position_in_file() const override { return offset_; }

 private:
  DataFile file_;
  std::int64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  DataFile file(path);
  std::array<std::byte, 4> magic{};
  const std::size_t size = file.read_some(0, magic);
  const auto begins_with = [&](std::span<const unsigned char> bytes) {
    return size >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), magic.begin(), [](unsigned char a, std::byte b) {
             return a == std::to_integer<unsigned char>(b);
           });
  };
  constexpr std::array<unsigned char, 3> gzip = {0x1f, 0x8b, 0x08};        // RFC 1952; 8 is deflate
  constexpr std::array<unsigned char, 4> zstd = {0x28, 0xb5, 0x2f, 0xfd};  // RFC 8878
  auto plain = std::make_unique<PlainSource>(std::move(file));
  if (begins_with(gzip)) return unpack_gzip(std::move(plain), path);
  if (begins_with(zstd)) return unpack_zstd(std::move(plain), path);
  return plain;
}

}  // namespace fourfold::data
