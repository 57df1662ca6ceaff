#include "interop/crc32c.h"

#include <array>
#include <bit>

namespace fourfold::interop {
namespace {

/// The remainder of each byte; the polynomial has its bits in reverse.
constexpr std::array<std::uint32_t, 256> table = [] {
  std::array<std::uint32_t, 256> result{};
  for (std::uint32_t byte = 0; byte < result.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    result[byte] = crc;
  }
  return result;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

}  // namespace fourfold::interop
