#include "data/idx_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/byte_source.h"
#include "data/sampled_hash.h"

namespace fourfold::data {
namespace {

constexpr std::size_t most_dims = 4;
constexpr std::int64_t most_unpacked = std::int64_t{2} << 30;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data, format("{}: {}; bring the file again", path, what));
}

bool begins_as_idx(std::span<const std::byte> bytes) {
  constexpr std::byte unsigned_bytes{8};
  return bytes.size() >= 4 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0} &&
         bytes[2] == unsigned_bytes;
}

std::vector<std::int64_t> read_dims(const std::string& path, ByteSource& source) {
  std::array<std::byte, 4 + 4 * most_dims> header{};
  if (source.read(std::span(header).first(4)) < 4 || !begins_as_idx(header))
    fail(path, "does not begin as an IDX file of bytes does, with 0, 0, 8");
  const auto num_dims = std::to_integer<std::size_t>(header[3]);
  if (num_dims < 1 || num_dims > most_dims)
    fail(path, format("has {} dims, expected 1 to {}", num_dims, most_dims));
  if (source.read(std::span(header).subspan(4, 4 * num_dims)) < 4 * num_dims)
    fail(path, format("is cut off within its header of {} bytes", 4 + 4 * num_dims));
  std::vector<std::int64_t> dims(num_dims);
  for (std::size_t i = 0; i < 4 * num_dims; ++i)
    dims[i / 4] = dims[i / 4] * 256 + std::to_integer<int>(header[4 + i]);
  return dims;
}

std::int64_t product(const std::string& path, const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    const auto larger = checked_multiply(count, dim);
    if (!larger) fail(path, "claims more values than 63 bits can count");
    count = *larger;
  }
  return count;
}

/// As many values as there are, up to the claim. Memory grows with what is there.
std::vector<std::byte> unpack(const std::string& path, ByteSource& source, std::int64_t claimed) {
  if (claimed > most_unpacked)
    throw UserError(ExitCode::bad_data,
                    format("{}: claims {} once it is unpacked, expected at most {}; unpack it: "
                           "plain files are read from the disk",
                           path, format_bytes(claimed), format_bytes(most_unpacked)));
  constexpr std::int64_t stretch = 1 << 20;
  std::vector<std::byte> values;
  while (std::ssize(values) < claimed) {
    const std::size_t before = values.size();
    values.resize(before +
                  static_cast<std::size_t>(std::min(stretch, claimed - std::ssize(values))));
    const std::size_t got = source.read(std::span(values).subspan(before));
    values.resize(before + got);
    if (got == 0) break;
  }
  return values;
}

}  // namespace

IdxFile::IdxFile(std::string path) : path_(std::move(path)) {
  DataFile file(path_);
  std::array<std::byte, 4> first{};
  const std::size_t got = file.read_some(0, first);
  const auto source = open_bytes(path_);
  dims_ = read_dims(path_, *source);
  claimed_ = product(path_, dims_);
  bool has_more = false;
  if (begins_as_idx(std::span(first).first(got))) {
    size_ = std::min(file.size() - header_bytes(), claimed_);
    has_more = file.size() - header_bytes() > claimed_;
    values_ = std::move(file);
  } else {
    auto values = unpack(path_, *source, claimed_);
    size_ = std::ssize(values);
    has_more = source->read(std::span(first).first(1)) > 0;
    values_ = std::move(values);
  }
  if (has_more)
    fail(path_, format("has more bytes than the {} values that its header claims",
                       format_grouped(claimed_)));
}

bool IdxFile::is_idx(const std::string& path) {
  try {
    std::array<std::byte, 4> first{};
    return open_bytes(path)->read(first) == first.size() && begins_as_idx(first);
  } catch (const UserError&) {
    return false;
  }
}

void IdxFile::read(std::int64_t first, std::span<std::uint8_t> into) const {
  require(first >= 0 && first <= size_ - std::ssize(into), "only values that are there are read");
  if (const auto* file = std::get_if<DataFile>(&values_)) {
    file->read(header_bytes() + first, std::as_writable_bytes(into));
    return;
  }
  const auto from =
      std::span(std::get<0>(values_)).subspan(static_cast<std::size_t>(first), into.size());
  std::transform(from.begin(), from.end(), into.begin(),
                 [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
}

std::uint64_t IdxFile::hash() const {
  if (const auto* file = std::get_if<DataFile>(&values_)) return sampled_hash(*file);
  return hash64(std::get<0>(values_));
}

}  // namespace fourfold::data
