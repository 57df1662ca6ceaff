// The checksum of TensorBoard's records. Not for our own files: base/hash.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace fourfold::interop {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4): "123456789" gives 0xE3069283.
std::uint32_t crc32c(std::string_view bytes);
/// Turned and shifted, as TFRecord files store it: checksums of what holds checksums stay good.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace fourfold::interop
