#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"

namespace fourfold::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format's byte order is the machine's");
constexpr std::int64_t length_bytes = 8;  // the u64 in front of the header

[[noreturn]] void fail_reading(const std::string& path, int error) {
  fail_file(path, format("cannot be read: {}; check the path and the permissions",
                         std::generic_category().message(error)));
}

/// Fills `into` from the given place of the file.
void read_from(const Descriptor& file, std::int64_t offset_bytes, std::span<std::byte> into,
               const std::string& path) {
  while (!into.empty()) {
    const ssize_t got = ::pread(file.number(), into.data(), into.size(), offset_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(path, errno);
    if (got == 0)
      fail_file(path,
                format("ends at byte {} while it is being read; use another copy", offset_bytes));
    into = into.subspan(static_cast<std::size_t>(got));
    offset_bytes += got;
  }
}

/// The size of a regular file; a pipe or a device is none.
std::int64_t file_size(const Descriptor& file, const std::string& path) {
  struct stat facts = {};
  if (::fstat(file.number(), &facts) != 0) fail_reading(path, errno);
  if (!S_ISREG(facts.st_mode)) fail_file(path, "is not a regular file; name a .safetensors file");
  return facts.st_size;
}

std::int64_t read_header_length(const ReadAt& read, std::int64_t size, const std::string& path) {
  if (size < length_bytes)
    fail_file(path, format("has {} bytes, expected at least {}; it is cut short, use another copy",
                           size, length_bytes));
  std::array<std::byte, length_bytes> bytes;
  read(0, bytes);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  if (length > static_cast<std::uint64_t>(max_header_bytes))
    fail_file(path,
              format("announces a header of {} bytes, expected at most {}; it is damaged or not a "
                     "safetensors file",
                     length, max_header_bytes));
  if (length > static_cast<std::uint64_t>(size - length_bytes))
    fail_file(
        path,
        format("announces a header of {} bytes, {} are there; it is cut short, use another copy",
               length, size - length_bytes));
  return static_cast<std::int64_t>(length);
}

}  // namespace

void fail_file(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::no_checkpoint, format("{}: {}", path, what));
}

std::string safetensors_header_bytes(const SafetensorsHeader& header, const std::string& path) {
  const std::string text = header.text();
  if (static_cast<std::int64_t>(text.size()) > max_header_bytes)
    throw UserError(
        ExitCode::storage,
        format("{}: its header takes {} bytes, the format allows {}; save fewer tensors", path,
               text.size(), max_header_bytes));
  const auto length = std::bit_cast<std::array<char, length_bytes>>(std::uint64_t{text.size()});
  return std::string(length.data(), length.size()) + text;
}

void emit_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                      const Metadata& metadata, const TensorBytes& bytes_of, const Sink& sink) {
  const auto header = SafetensorsHeader::lay_out(std::move(tensors), metadata);
  const std::string text = safetensors_header_bytes(header, path);
  sink(std::as_bytes(std::span(text)));
  for (const TensorInfo& tensor : header.tensors()) {
    const std::span<const std::byte> bytes = bytes_of(tensor);
    require(static_cast<std::int64_t>(bytes.size()) == tensor.size_bytes(),
            "a tensor has as many bytes as its shape and dtype say");
    sink(bytes);
  }
}

void emit_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const Metadata& metadata, const Sink& sink) {
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string_view, std::span<const std::byte>> bytes_of;
  for (const TensorView& tensor : tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
    bytes_of[tensor.name] = tensor.bytes;
  }
  emit_safetensors(
      path, std::move(infos), metadata,
      [&](const TensorInfo& tensor) { return bytes_of.at(tensor.name); }, sink);
}

void write_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                       const Metadata& metadata, const TensorBytes& bytes_of) {
  AtomicFile file(path);
  emit_safetensors(path, std::move(tensors), metadata, bytes_of,
                   [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  AtomicFile file(path);
  emit_safetensors(path, tensors, metadata,
                   [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

PlacedHeader read_safetensors_header(const ReadAt& read, std::int64_t size,
                                     const std::string& path) {
  const std::int64_t header_length = read_header_length(read, size, path);
  std::string text(static_cast<std::size_t>(header_length), '\0');
  read(length_bytes, std::as_writable_bytes(std::span(text)));
  const std::int64_t data_begin = length_bytes + header_length;
  return {SafetensorsHeader::parse(text, size - data_begin, path), data_begin};
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) fail_reading(path, errno);
  const auto read = [&](std::int64_t offset_bytes, std::span<std::byte> into) {
    read_from(file, offset_bytes, into, path);
  };
  PlacedHeader placed = read_safetensors_header(read, file_size(file, path), path);
  return {path, std::move(file), placed.data_begin, std::move(placed.header)};
}

void SafetensorsFile::read(const TensorInfo& tensor, std::span<std::byte> into) const {
  require(static_cast<std::int64_t>(into.size()) == tensor.size_bytes(),
          "a tensor is read into as many bytes as it has");
  require(tensor.begin >= 0 && tensor.end <= header_.data_bytes(),
          "a tensor that is read lies within its file");
  read_from(descriptor_, data_begin_ + tensor.begin, into, path_);
}

}  // namespace fourfold::checkpoint
