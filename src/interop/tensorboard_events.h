// Records of TensorBoard's event files, as bytes. The files: tensorboard_writer.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fourfold::interop {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4): "123456789" gives 0xE3069283.
std::uint32_t crc32c(std::string_view bytes);
/// Turned and shifted, as TFRecord files store it: checksums of what holds checksums stay good.
std::uint32_t masked_crc32c(std::string_view bytes);

/// When an event took place.
struct EventTime {
  double wall_s = 0;  // seconds since 1970
  std::int64_t step = 0;
};

struct Scalar {
  std::string_view tag;
  double value = 0;  // stored in 32 bits
};

/// The first record of a file.
std::string file_version_record(double wall_s);
/// Tells readers that what earlier files say of this step and later ones has not happened.
std::string restart_record(EventTime time);
/// Several scalars of one step.
std::string scalars_record(EventTime time, std::span<const Scalar> scalars);
/// Markdown, for the text dashboard.
std::string text_record(EventTime time, std::string_view tag, std::string_view text);

}  // namespace fourfold::interop
