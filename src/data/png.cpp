// The only file that knows libpng.
#include "data/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::data {
namespace {

constexpr std::array<unsigned char, 8> signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
/// No bytes, the name IEND, and the checksum of that name.
constexpr std::array<unsigned char, 12> end_chunk = {0,   0,   0,    0,    'I',  'E',
                                                     'N', 'D', 0xae, 0x42, 0x60, 0x82};

bool are(std::span<const unsigned char> wanted, std::span<const std::byte> bytes) {
  return std::equal(wanted.begin(), wanted.end(), bytes.begin(), bytes.end(),
                    [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

/// A big-endian number of four bytes.
std::int64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::int64_t number = 0;
  for (const std::byte byte : bytes.subspan(at, 4))
    number = number * 256 + std::to_integer<int>(byte);
  return number;
}

/// What the library's callbacks share. Plain: the library leaves by longjmp, which runs no
/// destructor.
struct PngReading {
  const std::byte* rest = nullptr;
  std::size_t rest_bytes = 0;
  std::array<char, 128> fault{};
  bool has_memory = true;
};

void give_bytes(png_structp png, png_bytep into, std::size_t size) {
  auto* reading = static_cast<PngReading*>(png_get_io_ptr(png));
  if (size > reading->rest_bytes) png_error(png, "the file ends too early");
  std::memcpy(into, reading->rest, size);
  reading->rest += size;
  reading->rest_bytes -= size;
}

[[noreturn]] void note_fault(png_structp png, png_const_charp message) {
  auto* reading = static_cast<PngReading*>(png_get_error_ptr(png));
  std::snprintf(reading->fault.data(), reading->fault.size(), "%s", message);
  png_longjmp(png, 1);
}

/// Want of memory is no fault of the file, which another rank may be able to decode.
png_voidp take_memory(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngReading*>(png_get_mem_ptr(png))->has_memory = false;
  return memory;
}
void free_memory(png_structp /*png*/, png_voidp memory) {
  std::free(memory);
}

void ignore_warning(png_structp /*png*/, png_const_charp /*message*/) {}

/// Owns the library's two structures.
class Decoder {
 public:
  explicit Decoder(PngReading& reading)
      : png_(png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reading, note_fault, ignore_warning,
                                      &reading, take_memory, free_memory)) {
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &reading, give_bytes);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }

  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

 private:
  png_structp png_;
  png_infop info_ = nullptr;
};

/// False after a fault. Has no variable with a destructor: see PngReading.
bool decode_rows(png_structp png, png_infop info, const PictureShape& shape, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_benign_errors(png, 0);  // what the library would repair in silence is a fault
  png_set_user_limits(png, most_picture_side, most_picture_side);
  // Comments, profiles, times, and whatever else says nothing about pixels.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_scale_16(png);
  const bool has_alpha = (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                         png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  const png_color_16 black{};
  if (has_alpha) png_set_background_fixed(png, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, PNG_FP_1);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_image_height(png, info) != shape.height ||
      png_get_image_width(png, info) != shape.width ||
      png_get_rowbytes(png, info) != static_cast<std::size_t>(shape.width * shape.channels))
    png_error(png, "its size is not the one of its first bytes");
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

bool is_png(std::span<const std::byte> first_bytes) {
  return first_bytes.size() >= signature.size() &&
         are(signature, first_bytes.first(signature.size()));
}

bool is_png_end(std::span<const std::byte> last_bytes) {
  return last_bytes.size() >= end_chunk.size() && are(end_chunk, last_bytes.last(end_chunk.size()));
}

std::variant<PictureShape, std::string> png_shape(std::span<const std::byte> first_bytes) {
  if (!is_png(first_bytes)) return "is no PNG: it begins otherwise";
  constexpr std::size_t name_at = 12, width_at = 16, height_at = 20, color_at = 25;
  if (first_bytes.size() < png_header_bytes) return "is cut off within its header";
  if (number_at(first_bytes, name_at) != 0x49484452)  // "IHDR"
    return "is no PNG: its first chunk is not its header";
  const int color = std::to_integer<int>(first_bytes[color_at]);
  if (color != PNG_COLOR_TYPE_GRAY && color != PNG_COLOR_TYPE_RGB &&
      color != PNG_COLOR_TYPE_PALETTE && color != PNG_COLOR_TYPE_GRAY_ALPHA &&
      color != PNG_COLOR_TYPE_RGB_ALPHA)
    return format("has the colour type {}, expected 0, 2, 3, 4 or 6", color);
  const PictureShape shape = {number_at(first_bytes, height_at), number_at(first_bytes, width_at),
                              (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1};
  if (auto fault = fault_of(shape)) return *std::move(fault);
  return shape;
}

std::optional<std::string> decode_png(std::span<const std::byte> file, const PictureShape& shape,
                                      std::span<std::uint8_t> into) {
  require(std::ssize(into) == shape.size_bytes(), "there is room for a picture");
  std::vector<png_bytep> rows(static_cast<std::size_t>(shape.height));
  for (std::size_t row = 0; row < rows.size(); ++row)
    rows[row] = into.data() + row * static_cast<std::size_t>(shape.width * shape.channels);
  PngReading reading;
  reading.rest = file.data();
  reading.rest_bytes = file.size();
  const Decoder decoder(reading);
  if (decode_rows(decoder.png(), decoder.info(), shape, rows.data())) return std::nullopt;
  if (!reading.has_memory) throw std::bad_alloc();
  return format("cannot be decoded: {}", reading.fault.data());
}

std::string encode_png(std::span<const std::uint8_t> picture, const PictureShape& shape) {
  require(static_cast<std::int64_t>(picture.size()) == shape.size_bytes() &&
              (shape.channels == 1 || shape.channels == 3),
          "a picture to write is whole, and grey or of three colours");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(shape.width);
  image.height = static_cast<png_uint_32>(shape.height);
  image.format = shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  const auto write = [&](void* into) {
    return png_image_write_to_memory(&image, into, &size, 0, picture.data(), 0, nullptr) != 0;
  };
  require(write(nullptr), "libpng tells the size of a file");
  std::string file(size, '\0');
  require(write(file.data()), "libpng writes to memory");
  file.resize(size);
  return file;
}

}  // namespace fourfold::data
