// The fields of a message in the wire format of Protocol Buffers, one after the other, from bytes
// that may be anything; and written. Not a schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold::tokenizer {

struct ProtobufField {
  enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  std::uint32_t number = 0;  // from 1
  Type type = Type::varint;
  std::uint64_t number_value = 0;  // of all types but bytes: their bits
  std::string_view bytes;          // texts and messages; they lie in what is read
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message), size_(message.size()) {}

  /// Nothing at the end, and at a fault.
  std::optional<ProtobufField> next();
  /// What is wrong with the message; empty when nothing is.
  std::string_view fault() const { return fault_; }
  /// Where the field begins that was read last.
  std::size_t offset() const { return field_offset_; }

 private:
  std::nullopt_t fail(std::string_view why);
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(std::size_t num_bytes);
  std::optional<std::string_view> bytes();

  std::string_view rest_;
  std::size_t size_, field_offset_ = 0;
  std::string_view fault_;
};

/// A message, field after field.
class ProtobufWriter {
 public:
  void number(std::uint32_t field, std::uint64_t value);
  void fixed32(std::uint32_t field, std::uint32_t bits);
  /// For texts and messages.
  void bytes(std::uint32_t field, std::string_view bytes);
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value);
  void tag(std::uint32_t field, ProtobufField::Type type);

  std::string text_;
};

}  // namespace fourfold::tokenizer
