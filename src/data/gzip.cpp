// The only file that knows zlib.
#include <zlib.h>

#include "data/unpacker.h"

namespace fourfold::data {
namespace {

class GzipSource final : public Unpacker {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string file)
      : Unpacker(std::move(packed), std::move(file)) {
    constexpr int gzip_only = 16;  // zlib.h: added to the window bits
    require(inflateInit2(&stream_, MAX_WBITS + gzip_only) == Z_OK, "zlib starts");
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

 private:
  std::size_t unpack(std::span<const std::byte> packed, std::span<std::byte> into) override {
    set_in_member(true);
    // zlib's types: bytes are unsigned char and the input is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    const auto room = static_cast<uInt>(std::min<std::size_t>(into.size(), 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = room;
    const int state = inflate(&stream_, Z_NO_FLUSH);
    consume(packed.size() - stream_.avail_in);
    if (state == Z_STREAM_END) {
      set_in_member(false);
      inflateReset(&stream_);
    } else if (state != Z_OK && state != Z_BUF_ERROR) {
      fail(stream_.msg != nullptr ? stream_.msg : "zlib cannot read it");
    }
    return room - stream_.avail_out;
  }

  z_stream stream_{};
};

}  // namespace

std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed, std::string file) {
  return std::make_unique<GzipSource>(std::move(packed), std::move(file));
}

}  // namespace fourfold::data
