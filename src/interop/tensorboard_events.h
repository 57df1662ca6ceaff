// Records of TensorBoard's event files, as bytes. The files: tensorboard_writer.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fourfold::interop {

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
