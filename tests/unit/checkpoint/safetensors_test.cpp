#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

/// formats.md 1.3: one F32 tensor a = [1, -2]; 104 bytes.
std::string test_vector() {
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize(88, ' ');
  const auto bytes = [](std::initializer_list<int> list) {
    return std::string(list.begin(), list.end());
  };
  return bytes({0x58, 0, 0, 0, 0, 0, 0, 0}) + header + bytes({0, 0, -0x80, 0x3f, 0, 0, 0, -0x40});
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// Reads the file and every tensor in it.
std::vector<std::vector<std::byte>> read_all(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  std::vector<std::vector<std::byte>> result;
  for (const TensorInfo& tensor : file.header().tensors()) {
    result.emplace_back(static_cast<std::size_t>(tensor.size_bytes()));
    file.read(tensor, result.back());
  }
  return result;
}

TEST(Safetensors, the_file_of_the_formats_test_vector_is_written_byte_for_byte) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, -2};
  const std::vector<TensorView> tensors = {{"a", DType::f32, Shape{2}, bytes_of(values)}};
  write_safetensors(folder.file("a"), tensors);
  EXPECT_EQ(test_vector().size(), 104U);
  EXPECT_EQ(read_bytes(folder.file("a")), test_vector());
}

TEST(Safetensors, the_file_of_the_formats_test_vector_is_read) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), test_vector());
  const auto file = SafetensorsFile::open(folder.file("a"));
  const std::vector<TensorInfo> expected = {{"a", DType::f32, Shape{2}, 0, 8}};
  EXPECT_EQ(file.header().tensors(), expected);
  EXPECT_EQ(file.header().metadata(), default_metadata());
  std::vector<float> values(2);
  file.read(file.header().tensors()[0], std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, (std::vector<float>{1, -2}));
}

TEST(Safetensors, every_dtype_and_odd_shapes_round_trip_whatever_the_order) {
  const TemporaryFolder folder;
  const std::vector<double> f64 = {1.0 / 3, -0.0};
  const std::vector<float> f32 = {1e-40F, 2, 3, 4, 5, 6};
  const std::vector<BFloat16> bf16 = {BFloat16(1.5F), BFloat16(-3.0F), BFloat16(0.1F)};
  const std::vector<std::int32_t> i32 = {-7};
  const std::vector<std::int64_t> i64 = {INT64_MIN};
  const std::vector<std::uint64_t> u64 = {UINT64_MAX, 0};
  std::vector<TensorView> tensors = {{"f64", DType::f64, Shape{1, 2}, bytes_of(f64)},
                                     {"f32", DType::f32, Shape{2, 3}, bytes_of(f32)},
                                     {"bf16", DType::bf16, Shape{3}, bytes_of(bf16)},
                                     {"i32", DType::i32, Shape{}, bytes_of(i32)},
                                     {"i64", DType::i64, Shape{1, 1, 1}, bytes_of(i64)},
                                     {"u64", DType::u64, Shape{2}, bytes_of(u64)},
                                     {"none", DType::f64, Shape{4, 0}, {}}};
  write_safetensors(folder.file("a"), tensors);
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(folder.file("b"), tensors);
  EXPECT_EQ(read_bytes(folder.file("a")), read_bytes(folder.file("b")));

  const auto file = SafetensorsFile::open(folder.file("a"));
  EXPECT_EQ(file.header().tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorInfo* info = file.header().find(tensor.name);
    ASSERT_NE(info, nullptr) << tensor.name;
    EXPECT_EQ(info->dtype, tensor.dtype);
    EXPECT_EQ(info->shape, tensor.shape);
    std::vector<std::byte> bytes(tensor.bytes.size());
    file.read(*info, bytes);
    EXPECT_EQ(bytes, std::vector<std::byte>(tensor.bytes.begin(), tensor.bytes.end()))
        << tensor.name;
  }
}

TEST(Safetensors, a_file_without_tensors_round_trips) {
  const TemporaryFolder folder;
  write_safetensors(folder.file("a"), {});
  EXPECT_TRUE(SafetensorsFile::open(folder.file("a")).header().tensors().empty());
}

TEST(Safetensors, a_tensor_whose_bytes_do_not_fit_its_shape_is_a_bug_and_leaves_no_file) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3};
  const std::vector<TensorView> tensors = {{"a", DType::f32, Shape{2}, bytes_of(values)}};
  EXPECT_THROW(write_safetensors(folder.file("a"), tensors), InternalError);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(Safetensors, a_file_cut_short_anywhere_is_an_error_that_names_it) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cut"), whole = test_vector();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    write_bytes(path, whole.substr(0, size));
    expect_words(user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(path); }), {path});
  }
}

TEST(Safetensors, a_file_with_more_bytes_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), test_vector() + "x");
  expect_words(
      user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(folder.file("a")); }), {"9"});
}

TEST(Safetensors, a_header_length_that_lies_is_an_error) {
  const TemporaryFolder folder;
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{87}, std::uint64_t{89}, std::uint64_t{96},
        std::uint64_t{97}, std::uint64_t{1} << 26, (std::uint64_t{1} << 26) + 1,
        std::uint64_t{100000001}, std::uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    SCOPED_TRACE(length);
    std::string bytes = test_vector();
    std::memcpy(bytes.data(), &length, sizeof length);
    write_bytes(folder.file("a"), bytes);
    expect_words(
        user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(folder.file("a")); }),
        {folder.file("a")});
  }
}

TEST(Safetensors, a_header_longer_than_the_file_is_told_from_a_damaged_one) {
  const TemporaryFolder folder;
  std::string bytes = test_vector();
  bytes[0] = 97;
  write_bytes(folder.file("a"), bytes);
  expect_words(
      user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(folder.file("a")); }),
      {"97 bytes", "96 are there", "cut short"});
}

TEST(Safetensors, flipped_bits_never_crash_and_never_read_outside) {
  const TemporaryFolder folder;
  const std::vector<double> f64(5, 0.5);
  const std::vector<float> f32(6, 2);
  write_safetensors(folder.file("good"),
                    std::vector<TensorView>{{"wte.weight", DType::f64, Shape{5}, bytes_of(f64)},
                                            {"ln.bias", DType::f32, Shape{2, 3}, bytes_of(f32)}});
  const std::string good = read_bytes(folder.file("good"));
  const Random random(7, random_stream("bit flips"));
  int num_refused = 0;
  for (std::uint64_t trial = 0; trial < 3000; ++trial) {
    std::string bytes = good;
    for (std::uint32_t flip = 0; flip <= trial % 3; ++flip) {
      const auto bit = random.below(bytes.size() * 8, trial, flip);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    write_bytes(folder.file("bad"), bytes);
    try {
      read_all(folder.file("bad"));
    } catch (const UserError& error) {
      ++num_refused;
      EXPECT_EQ(error.code(), ExitCode::no_checkpoint);
      EXPECT_NE(std::string(error.what()).find(folder.file("bad")), std::string::npos)
          << error.what();
    }
  }
  EXPECT_GT(num_refused, 1000);
}

TEST(Safetensors, a_file_that_shrinks_while_it_is_read_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), test_vector());
  const auto file = SafetensorsFile::open(folder.file("a"));
  std::filesystem::resize_file(folder.file("a"), 100);
  std::vector<std::byte> bytes(8);
  expect_words(
      user_error(ExitCode::no_checkpoint, [&] { file.read(file.header().tensors()[0], bytes); }),
      {folder.file("a"), "100"});
}

TEST(Safetensors, a_missing_file_a_folder_and_a_pipe_are_errors_that_name_the_path) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  expect_words(user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(missing); }),
               {missing, "cannot be read"});
  std::filesystem::create_directory(folder.file("folder"));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder.file("folder"), folder.file("pipe")})
    expect_words(user_error(ExitCode::no_checkpoint, [&] { SafetensorsFile::open(path); }),
                 {path, "regular file"});
}

TEST(Safetensors, a_wrong_buffer_size_is_a_bug) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), test_vector());
  const auto file = SafetensorsFile::open(folder.file("a"));
  std::vector<std::byte> bytes(7);
  EXPECT_THROW(file.read(file.header().tensors()[0], bytes), InternalError);
}

}  // namespace
}  // namespace fourfold::checkpoint
