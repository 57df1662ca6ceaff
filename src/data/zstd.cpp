// The only file that knows zstd.
#include <zstd.h>

#include "data/unpacker.h"

namespace fourfold::data {
namespace {

class ZstdSource final : public Unpacker {
 public:
  ZstdSource(std::unique_ptr<ByteSource> packed, std::string file)
      : Unpacker(std::move(packed), std::move(file)), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    require(context_ != nullptr, "zstd starts");
  }

 private:
  std::size_t unpack(std::span<const std::byte> packed, std::span<std::byte> into) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const std::size_t state = ZSTD_decompressStream(context_.get(), &out, &in);
    if (ZSTD_isError(state)) fail(ZSTD_getErrorName(state));
    consume(in.pos);
    set_in_member(state != 0);
    return out.pos;
  }

  // Its window is at most 128 MiB unless told otherwise: the bound of the memory that a file can
  // ask for.
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed, std::string file) {
  return std::make_unique<ZstdSource>(std::move(packed), std::move(file));
}

}  // namespace fourfold::data
