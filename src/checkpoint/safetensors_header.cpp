#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace fourfold::checkpoint {
namespace {

constexpr std::string_view metadata_key = "__metadata__";

/// Checks what the JSON says about each tensor. Names come from strangers: they are quoted and
/// escaped wherever they are shown.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: {}; the file is damaged or not a safetensors file, use another copy", file_,
               what));
  }

  TensorInfo read_tensor(const std::string& name, const Json& json) const {
    const std::string who = "tensor " + json_quoted(name);
    if (json.kind() != Json::Kind::object)
      fail(who + " is not an object with dtype, shape and data_offsets");
    for (const Json::Member& member : json.members())
      if (member.key != "dtype" && member.key != "shape" && member.key != "data_offsets")
        fail(format("{} has the unknown key {}", who, json_quoted(member.key)));
    TensorInfo tensor;
    tensor.name = name;
    tensor.dtype = read_dtype(json.find("dtype"), who);
    tensor.shape = Shape(read_sizes(json.find("shape"), who, "shape"));
    const auto offsets = read_sizes(json.find("data_offsets"), who, "data_offsets");
    if (offsets.size() != 2)
      fail(format("{}: data_offsets has {} numbers, expected 2", who, offsets.size()));
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    check_size(tensor, who);
    return tensor;
  }

  Metadata read_metadata(const Json& json) const {
    if (json.kind() != Json::Kind::object) fail("__metadata__ is not an object");
    Metadata metadata;
    for (const Json::Member& member : json.members()) {
      if (member.value.kind() != Json::Kind::string)
        fail(format("__metadata__ {} is not a string", json_quoted(member.key)));
      metadata[member.key] = member.value.as_string();
    }
    return metadata;
  }

  /// Tensors in the order of their bytes: no holes, no overlap, nothing left.
  void check_coverage(const std::vector<TensorInfo>& tensors, std::int64_t data_bytes) const {
    std::int64_t end = 0;
    for (const TensorInfo& tensor : tensors) {
      if (tensor.begin != end)
        fail(format("tensor {} begins at byte {} of the data, expected {} (a hole or an overlap)",
                    json_quoted(tensor.name), tensor.begin, end));
      end = tensor.end;
    }
    if (end != data_bytes)
      fail(format("the tensors take {} bytes, {} follow the header (cut short, or appended to)",
                  end, data_bytes));
  }

 private:
  ElementType read_dtype(const Json* json, const std::string& who) const {
    if (!json || json->kind() != Json::Kind::string)
      fail(who + ": dtype is missing or not a string");
    if (const auto dtype = parse_safetensors_name(json->as_string())) return *dtype;
    fail(
        format("{}: unknown dtype {}, expected F16, BF16, F32, F64, BOOL, or I or U with 8, 16, "
               "32 or 64",
               who, json_quoted(json->as_string())));
  }

  std::vector<std::int64_t> read_sizes(const Json* json, const std::string& who,
                                       std::string_view key) const {
    if (!json || json->kind() != Json::Kind::array)
      fail(format("{}: {} is missing or not an array", who, key));
    std::vector<std::int64_t> sizes;
    for (const Json& item : json->items()) {
      if (item.kind() != Json::Kind::integer || item.as_integer() < 0)
        fail(format("{}: {} holds {}, expected integers from 0", who, key, item.dump()));
      sizes.push_back(item.as_integer());
    }
    return sizes;
  }

  void check_size(const TensorInfo& tensor, const std::string& who) const {
    std::int64_t bytes = checkpoint::size_bytes(tensor.dtype);
    for (const std::int64_t size : tensor.shape)
      if (__builtin_mul_overflow(bytes, size, &bytes))
        fail(format("{}: shape {} has more bytes than 64 bits can count", who,
                    to_string(tensor.shape)));
    if (tensor.end < tensor.begin || tensor.size_bytes() != bytes)
      fail(format("{}: data_offsets are {} to {}, but {} of {} takes {} bytes", who, tensor.begin,
                  tensor.end, to_string(tensor.shape), safetensors_name(tensor.dtype), bytes));
  }

  std::string_view file_;
};

bool by_place(const TensorInfo& a, const TensorInfo& b) {
  return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
}

bool as_reference_writer(const TensorInfo& a, const TensorInfo& b) {
  const std::int64_t size_a = size_bytes(a.dtype), size_b = size_bytes(b.dtype);
  return size_a != size_b ? size_a > size_b : a.name < b.name;
}

Json sizes_to_json(const std::vector<std::int64_t>& sizes) {
  Json json = Json::array();
  for (const std::int64_t size : sizes) json.push(size);
  return json;
}

}  // namespace

SafetensorsHeader SafetensorsHeader::parse(std::string_view text, std::int64_t data_bytes,
                                           std::string_view file) {
  const HeaderReader reader(file);
  if (text.empty() || text.front() != '{') reader.fail("the header does not begin with {");
  // The JSON library takes a zero byte for the end of the text.
  if (text.find('\0') != text.npos) reader.fail("the header holds a zero byte");
  const Json json = parse_json(text, file, ExitCode::no_checkpoint);
  std::vector<TensorInfo> tensors;
  Metadata metadata;
  for (const Json::Member& member : json.members()) {
    if (member.key == metadata_key) {
      metadata = reader.read_metadata(member.value);
    } else {
      tensors.push_back(reader.read_tensor(member.key, member.value));
    }
  }
  std::sort(tensors.begin(), tensors.end(), by_place);
  reader.check_coverage(tensors, data_bytes);
  return {std::move(tensors), std::move(metadata)};
}

SafetensorsHeader SafetensorsHeader::lay_out(std::vector<TensorInfo> tensors, Metadata metadata) {
  std::sort(tensors.begin(), tensors.end(), as_reference_writer);
  std::vector<std::string_view> names;
  std::int64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    names.push_back(tensor.name);
    tensor.begin = end;
    end += tensor.shape.elements() * checkpoint::size_bytes(tensor.dtype);
    tensor.end = end;
  }
  std::sort(names.begin(), names.end());
  require(std::adjacent_find(names.begin(), names.end()) == names.end(),
          "tensors of a file have different names");
  require(!std::binary_search(names.begin(), names.end(), metadata_key),
          "no tensor is named __metadata__");
  return {std::move(tensors), std::move(metadata)};
}

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

std::string SafetensorsHeader::text() const {
  Json json = Json::object();
  if (!metadata_.empty()) {
    Json members = Json::object();
    for (const auto& [key, value] : metadata_) members.set(key, value);
    json.set(std::string(metadata_key), std::move(members));
  }
  for (const TensorInfo& tensor : tensors_) {
    Json entry = Json::object();
    entry.set("dtype", safetensors_name(tensor.dtype));
    entry.set("shape", sizes_to_json(tensor.shape.dims()));
    entry.set("data_offsets", sizes_to_json({tensor.begin, tensor.end}));
    json.set(tensor.name, std::move(entry));
  }
  std::string result = json.dump();
  result.resize((result.size() + 7) / 8 * 8, ' ');
  return result;
}

}  // namespace fourfold::checkpoint
