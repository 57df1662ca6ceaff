#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/cover.h"

namespace fourfold::checkpoint {
namespace {

constexpr std::string_view hash_key = ",\"self_hash\":\"";
constexpr std::size_t hash_digits = 32, hex_digits = 16;
constexpr std::size_t most_tensors = 1'000'000, longest_name = 512, most_dims = 8;
/// No number of a manifest is larger, so that sums of a few, and the sizes of all files, fit.
constexpr std::int64_t most_of_anything = std::int64_t{1} << 53;
constexpr std::size_t most_files = 100'000;  // as many as shard_name can tell apart

std::string hex(std::uint64_t value) {
  return format("{:016x}", value);
}

Json to_json(const StoredTensor& tensor) {
  Json slices = Json::array();
  for (const Slice& slice : tensor.slices)
    slices.push(Json::object({{"file", slice.file},
                              {"origin", Json::array_of(slice.box.origin)},
                              {"extent", Json::array_of(slice.box.extent)}}));
  return Json::object({{"name", tensor.name},
                       {"dtype", std::string(to_string(tensor.dtype))},
                       {"shape", Json::array_of(tensor.shape)},
                       {"digest", hex(tensor.digest)},
                       {"slices", std::move(slices)}});
}

Json to_json(const StoredFile& file) {
  std::string hashes;
  for (const std::uint64_t hash : file.chunk_hashes) hashes += hex(hash);
  return Json::object({{"name", file.name}, {"size", file.size_bytes}, {"chunks", hashes}});
}

bool is_printable(char c) {
  return c >= ' ' && c <= '~';
}
bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_printable(c); });
}
/// A text that may be anything, for a message: quoted, without control sequences, and not too long.
std::string printable(std::string_view text) {
  std::string shown(text.substr(0, longest_name));
  for (char& c : shown)
    if (!is_printable(c)) c = '?';
  return format("\"{}\"{}", shown, text.size() > shown.size() ? "..." : "");
}

/// Reads members of objects; every error names the file and the member.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: {}; the checkpoint is damaged", file_, what));
  }
  void check(bool is_fine, const std::string& what) const {
    if (!is_fine) fail(what);
  }

  const Json& member(const Json& object, std::string_view key, Json::Kind kind) const {
    const Json* value = object.find(key);
    if (value == nullptr || value->kind() != kind) fail(format("has no valid {}", key));
    return *value;
  }
  std::int64_t count(const Json& object, std::string_view key) const {
    const std::int64_t value = member(object, key, Json::Kind::integer).as_integer();
    check(value >= 0 && value <= most_of_anything,
          format("{} is {}, expected 0 to {}", key, value, most_of_anything));
    return value;
  }
  const std::string& text(const Json& object, std::string_view key) const {
    return member(object, key, Json::Kind::string).as_string();
  }
  /// A text that people are shown: no byte of it is a control sequence of a terminal.
  const std::string& shown_text(const Json& object, std::string_view key) const {
    const std::string& value = text(object, key);
    check(is_printable(value), format("{} is no printable text: {}", key, printable(value)));
    return value;
  }
  const std::vector<Json>& list(const Json& object, std::string_view key) const {
    return member(object, key, Json::Kind::array).items();
  }
  std::uint64_t hex_number(std::string_view digits, std::string_view key) const {
    std::uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
    check(digits.size() == hex_digits && error == std::errc() && stop == end,
          format("{} is not {} hexadecimal digits", key, hex_digits));
    return value;
  }

  Shape shape(const Json& object, std::string_view key) const {
    Shape result;
    for (const Json& item : list(object, key)) {
      constexpr std::int64_t most = std::int64_t{1} << 40;
      check(item.kind() == Json::Kind::integer && item.as_integer() >= 0 &&
                item.as_integer() <= most && result.rank() < most_dims,
            format("{} is no list of at most {} sizes", key, most_dims));
      result.push_back(item.as_integer());
    }
    return result;
  }

  double figure(const Json& object, std::string_view key) const {
    const Json* const value = object.find(key);
    check(value != nullptr &&
              (value->kind() == Json::Kind::number || value->kind() == Json::Kind::integer) &&
              std::isfinite(value->as_double()),
          format("has no valid {} of a step", key));
    return value->as_double();
  }
  Evaluated evaluated(const Json& json) const {
    return {count(json, "step"), figure(json, "loss")};
  }

  StoredFile stored_file(const Json& json) const {
    StoredFile file{text(json, "name"), count(json, "size"), {}};
    const std::string& chunks = text(json, "chunks");
    const std::int64_t wanted = (file.size_bytes + chunk_bytes - 1) / chunk_bytes;
    check(
        static_cast<std::int64_t>(chunks.size()) == wanted * static_cast<std::int64_t>(hex_digits),
        format("a file of {} bytes has {} chunks, expected their hashes", file.size_bytes, wanted));
    for (std::size_t i = 0; i < chunks.size(); i += hex_digits)
      file.chunk_hashes.push_back(
          hex_number(std::string_view(chunks).substr(i, hex_digits), "chunks"));
    return file;
  }

  StoredTensor stored_tensor(const Json& json, std::size_t num_files) const {
    StoredTensor tensor;
    tensor.name = text(json, "name");
    check(!tensor.name.empty() && tensor.name.size() <= longest_name && is_printable(tensor.name) &&
              tensor.name.find(' ') == std::string::npos,
          "a tensor's name is no printable text of reasonable length");
    const auto dtype = parse_dtype(text(json, "dtype"));
    check(dtype.has_value(), format("{} has no dtype that is known", tensor.name));
    tensor.dtype = *dtype;
    tensor.shape = shape(json, "shape");
    tensor.digest = hex_number(text(json, "digest"), "digest");
    for (const Json& item : list(json, "slices")) {
      const Slice slice{static_cast<std::size_t>(count(item, "file")),
                        {shape(item, "origin"), shape(item, "extent")}};
      check(slice.file < num_files, format("{} names a file that is not listed", tensor.name));
      tensor.slices.push_back(slice);
    }
    const std::string fault = find_gap_or_overlap(tensor);
    check(fault.empty(), fault);
    return tensor;
  }

 private:
  std::string_view file_;
};

/// The text before the hash, if the hash is that of this text.
std::string_view checked_body(std::string_view text, const Reader& reader) {
  const std::size_t tail = hash_key.size() + hash_digits + 3;  // "}\n
  reader.check(text.size() > tail, format("has {} bytes, which is too few", text.size()));
  const std::string_view body = text.substr(0, text.size() - tail), end = text.substr(body.size());
  reader.check(end.starts_with(hash_key) && end.ends_with("\"}\n"), "does not end with its hash");
  const std::string_view stated = end.substr(hash_key.size(), hash_digits);
  const std::string found = hash128_text(body);
  reader.check(stated == found,
               format("its hash is {}, its text has {}", printable(stated), found));
  return body;
}

bool is_shard_name(const std::string& name) {
  constexpr std::string_view before = "shard-", after = ".safetensors";
  constexpr std::size_t digits = 5;
  if (name.size() != before.size() + digits + after.size()) return false;
  return name.starts_with(before) && name.ends_with(after) &&
         std::all_of(name.begin() + before.size(), name.begin() + before.size() + digits,
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::int64_t Manifest::size_bytes() const {
  std::int64_t bytes = 0;
  for (const StoredFile& file : files) bytes += file.size_bytes;
  return bytes;
}

std::string shard_name(std::size_t rank) {
  return format("shard-{:05}.safetensors", rank);
}

std::string to_text(const Manifest& m) {
  Json tensors = Json::array(), files = Json::array();
  for (const StoredTensor& tensor : m.tensors) tensors.push(to_json(tensor));
  for (const StoredFile& file : m.files) files.push(to_json(file));
  Json best = Json::array();
  for (const Evaluated& one : m.best)
    best.push(Json::object({{"step", one.step}, {"loss", one.loss}}));
  Json json = Json::object({{"format", manifest_format},
                            {"step", m.step},
                            {"samples_seen", m.samples_seen},
                            {"seed", hex(m.seed)},
                            {"is_finite", m.is_finite},
                            {"best", std::move(best)},
                            {"since_best", m.since_best},
                            {"version", m.version},
                            {"config", m.config},
                            {"data", m.data},
                            {"tokenizer", m.tokenizer},
                            {"grid", m.grid},
                            {"chunk_bytes", chunk_bytes},
                            {"tensors", std::move(tensors)},
                            {"files", std::move(files)}});
  if (m.untold)
    json.set("untold", Json::object({{"loss", m.untold->loss},
                                     {"lr", m.untold->lr},
                                     {"grad_norm", m.untold->grad_norm},
                                     {"time_s", m.untold->time_s}}));
  std::string text = json.dump();
  text.pop_back();  // the closing brace comes after the hash
  const std::string hash = hash128_text(text);
  return format("{}{}{}\"}}\n", text, hash_key, hash);
}

Manifest parse_manifest(std::string_view text, std::string_view file) {
  const Reader reader(file);
  const std::string body = std::string(checked_body(text, reader)) + "}";
  const Json json = parse_json(body, file, ExitCode::no_checkpoint);
  const std::int64_t form = reader.count(json, "format");
  if (form != manifest_format)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: has format {}, this program reads {}; use the version of Fourfold "
                           "that wrote it ({})",
                           file, form, manifest_format, reader.shown_text(json, "version")));
  Manifest m;
  m.step = reader.count(json, "step");
  m.samples_seen = reader.count(json, "samples_seen");
  m.seed = reader.hex_number(reader.text(json, "seed"), "seed");
  m.is_finite = reader.member(json, "is_finite", Json::Kind::boolean).as_bool();
  // Earlier versions did not say.
  if (json.find("best") != nullptr) {
    for (const Json& item : reader.list(json, "best")) m.best.push_back(reader.evaluated(item));
    m.since_best = reader.count(json, "since_best");
  }
  if (const Json* const untold = json.find("untold"); untold != nullptr)
    m.untold = Untold{reader.figure(*untold, "loss"), reader.figure(*untold, "lr"),
                      reader.figure(*untold, "grad_norm"), reader.figure(*untold, "time_s")};
  m.version = reader.shown_text(json, "version");
  m.config = reader.text(json, "config");
  m.data = reader.shown_text(json, "data");
  m.tokenizer = reader.text(json, "tokenizer");
  m.grid = reader.shown_text(json, "grid");
  reader.check(reader.count(json, "chunk_bytes") == chunk_bytes, "has chunks of an unknown size");
  std::set<std::string> names;
  std::int64_t all_bytes = 0;
  for (const Json& item : reader.list(json, "files")) {
    reader.check(m.files.size() < most_files, "has too many files");
    m.files.push_back(reader.stored_file(item));
    all_bytes += m.files.back().size_bytes;
    reader.check(all_bytes <= most_of_anything, "has files of too many bytes");
    const std::string& name = m.files.back().name;
    reader.check(is_shard_name(name),
                 format("names the file {}, expected shard-NNNNN.safetensors", printable(name)));
    reader.check(names.insert(name).second, format("names {} twice", name));
  }
  names.clear();
  for (const Json& item : reader.list(json, "tensors")) {
    reader.check(m.tensors.size() < most_tensors, "has too many tensors");
    m.tensors.push_back(reader.stored_tensor(item, m.files.size()));
    reader.check(names.insert(m.tensors.back().name).second,
                 format("has the tensor {} twice", m.tensors.back().name));
  }
  return m;
}

}  // namespace fourfold::checkpoint
