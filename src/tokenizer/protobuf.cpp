#include "tokenizer/protobuf.h"

namespace fourfold::tokenizer {

std::nullopt_t ProtobufReader::fail(std::string_view why) {
  fault_ = why;
  rest_ = {};
  return std::nullopt;
}

std::optional<std::uint64_t> ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return fail("a number is cut short");
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return fail("a number has more than 64 bits");
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) return value;
  }
  return fail("a number has more than 64 bits");
}

std::optional<std::uint64_t> ProtobufReader::fixed(std::size_t num_bytes) {
  if (rest_.size() < num_bytes) return fail("a number is cut short");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < num_bytes; ++i)
    value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
  rest_.remove_prefix(num_bytes);
  return value;
}

std::optional<std::string_view> ProtobufReader::bytes() {
  const auto length = varint();
  if (!length) return std::nullopt;
  if (*length > rest_.size()) return fail("a text is longer than what is left");
  const std::string_view found = rest_.substr(0, static_cast<std::size_t>(*length));
  rest_.remove_prefix(found.size());
  return found;
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  field_offset_ = size_ - rest_.size();
  const auto tag = varint();
  if (!tag) return std::nullopt;
  if (*tag >> 3 == 0 || *tag >> 32 != 0) return fail("a field has no number");
  ProtobufField field;
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  field.type = static_cast<ProtobufField::Type>(*tag & 7U);
  std::optional<std::uint64_t> value = 0;
  switch (field.type) {
    case ProtobufField::Type::varint:
      value = varint();
      break;
    case ProtobufField::Type::fixed64:
      value = fixed(8);
      break;
    case ProtobufField::Type::fixed32:
      value = fixed(4);
      break;
    case ProtobufField::Type::bytes: {
      const auto found = bytes();
      if (!found) return std::nullopt;
      field.bytes = *found;
      break;
    }
    default:
      return fail("a field has a type that is not in use");
  }
  if (!value) return std::nullopt;
  field.number_value = *value;
  return field;
}

void ProtobufWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80U);
  text_ += static_cast<char>(value);
}

void ProtobufWriter::tag(std::uint32_t field, ProtobufField::Type type) {
  varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(type));
}

void ProtobufWriter::number(std::uint32_t field, std::uint64_t value) {
  tag(field, ProtobufField::Type::varint);
  varint(value);
}

void ProtobufWriter::fixed32(std::uint32_t field, std::uint32_t bits) {
  tag(field, ProtobufField::Type::fixed32);
  for (unsigned shift = 0; shift < 32; shift += 8) text_ += static_cast<char>(bits >> shift);
}

void ProtobufWriter::bytes(std::uint32_t field, std::string_view bytes) {
  tag(field, ProtobufField::Type::bytes);
  varint(bytes.size());
  text_ += bytes;
}

}  // namespace fourfold::tokenizer
