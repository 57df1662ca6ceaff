#include "interop/tensorboard_events.h"

#include <array>
#include <bit>

namespace fourfold::interop {
namespace {

template <class T>
void append_bytes(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xffU));
}

/// A message of protocol buffers (protobuf.dev, "Encoding"): fields one after the other.
class Message {
 public:
  void add_varint(unsigned field, std::uint64_t value) {
    append_key(field, 0);
    append_varint(value);
  }
  void add_double(unsigned field, double value) {
    append_key(field, 1);
    append_bytes(bytes_, std::bit_cast<std::uint64_t>(value));
  }
  void add_float(unsigned field, float value) {
    append_key(field, 5);
    append_bytes(bytes_, std::bit_cast<std::uint32_t>(value));
  }
  void add_bytes(unsigned field, std::string_view value) {
    append_key(field, 2);
    append_varint(value.size());
    bytes_ += value;
  }
  void add_message(unsigned field, const Message& value) { add_bytes(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void append_key(unsigned field, unsigned wire_type) { append_varint(field << 3 | wire_type); }
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

/// A record of a TFRecord file: length, its checksum, payload, its checksum.
std::string record_of(const Message& event) {
  std::string record;
  append_bytes(record, static_cast<std::uint64_t>(event.bytes().size()));
  append_bytes(record, masked_crc32c(record));
  record += event.bytes();
  append_bytes(record, masked_crc32c(event.bytes()));
  return record;
}

/// Numbers of fields: tensorflow/core/util/event.proto and framework/summary.proto.
Message event_at(EventTime time) {
  Message event;
  event.add_double(1, time.wall_s);
  event.add_varint(2, static_cast<std::uint64_t>(time.step));
  return event;
}

std::string summary_record(EventTime time, const Message& summary) {
  Message event = event_at(time);
  event.add_message(5, summary);
  return record_of(event);
}

}  // namespace

std::string file_version_record(double wall_s) {
  Message event;
  event.add_double(1, wall_s);
  event.add_bytes(3, "brain.Event:2");
  return record_of(event);
}

std::string restart_record(EventTime time) {
  Message session_log;
  session_log.add_varint(1, 1);  // START
  Message event = event_at(time);
  event.add_message(7, session_log);
  return record_of(event);
}

std::string scalars_record(EventTime time, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.add_bytes(1, scalar.tag);
    value.add_float(2, static_cast<float>(scalar.value));
    summary.add_message(1, value);
  }
  return summary_record(time, summary);
}

std::string text_record(EventTime time, std::string_view tag, std::string_view text) {
  Message plugin, metadata, size, shape, tensor, value, summary;
  plugin.add_bytes(1, "text");
  metadata.add_message(1, plugin);
  size.add_varint(1, 1);
  shape.add_message(2, size);
  tensor.add_varint(1, 7);  // strings
  tensor.add_message(2, shape);
  tensor.add_bytes(8, text);
  value.add_bytes(1, tag);
  value.add_message(9, metadata);
  value.add_message(8, tensor);
  summary.add_message(1, value);
  return summary_record(time, summary);
}

namespace {

/// The remainder of each value of a byte for the checksum; the bits of its polynomial stand in
/// reverse.
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
