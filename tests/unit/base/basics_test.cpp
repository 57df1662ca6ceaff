// dtype.h, shape.h, units.h, ids.h and mesh.h.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mesh.h"
#include "base/shape.h"
#include "base/units.h"

namespace fourfold {
namespace {

TEST(DTypes, print_and_read_back) {
  for (const DType type :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u64, DType::u8})
    EXPECT_EQ(parse_dtype(to_string(type)), type);
  EXPECT_FALSE(parse_dtype("f16").has_value());
  EXPECT_EQ(size_bytes(DType::bf16), 2);
  EXPECT_EQ(accumulation_type(DType::bf16), DType::f32);
  EXPECT_EQ(accumulation_type(DType::f64), DType::f64);
}

TEST(BFloat16s, round_to_nearest_even) {
  const auto rounded = [](float x) { return static_cast<float>(BFloat16(x)); };
  EXPECT_EQ(rounded(1.0F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-9F), 1.0F);            // below half
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);            // half: to the even one below
  EXPECT_EQ(rounded(1.0F + 0x3p-8F), 1.0F + 0x1p-6F);  // half: to the even one above
  EXPECT_EQ(rounded(-3.4e38F), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::signaling_NaN())));
}

TEST(Shapes, print_and_read_back) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{12, 64, 128}})
    EXPECT_EQ(parse_shape(to_string(shape)), shape);
  for (const char* bad : {"", "[", "12", "[1,,2]", "[1, ]", "[-1]", "[1] x"})
    EXPECT_FALSE(parse_shape(bad).has_value()) << bad;
}

TEST(Shapes, count_elements_and_refuse_more_than_64_bits) {
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0);
  EXPECT_EQ((Shape{3, 4, 5}).elements(1, 3), 20);
  EXPECT_THROW((void)(Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}).elements(),
               InternalError);
}

TEST(Units, bytes_have_three_digits_and_a_binary_unit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536 * 1024), "1.50 MiB");
  EXPECT_EQ(format_bytes(std::int64_t{61} << 30), "61.0 GiB");
  EXPECT_EQ(format_bytes((std::int64_t{1} << 20) - 1), "1.00 MiB");
}

TEST(Units, counts_and_durations_stay_short) {
  EXPECT_EQ(format_count(812), "812");
  EXPECT_EQ(format_count(40321), "40.3k");
  EXPECT_EQ(format_count(999999), "1.00M");
  EXPECT_EQ(format_count(124439808), "124M");
  EXPECT_EQ(format_duration(0.0812), "81.2 ms");
  EXPECT_EQ(format_duration(4.214), "4.21 s");
  EXPECT_EQ(format_duration(134), "2m14s");
  EXPECT_EQ(format_duration(8040), "2h14m");
  EXPECT_EQ(format_duration(3.6e14), "100000000000h00m");
  EXPECT_EQ(format_duration(2.5e24), "2.5e+24 s");
  EXPECT_EQ(format_grouped(1115394), "1,115,394");
  EXPECT_EQ(format_grouped(-100), "-100");
}

TEST(Meshes, coordinates_count_the_last_axis_fastest) {
  const Mesh mesh{"main", {{"data", 2}, {"z", 3}, {"x", 4}}, {}};
  EXPECT_EQ(mesh.coordinates(0), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(mesh.coordinates(5), (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_EQ(mesh.coordinates(23), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Errors, an_internal_error_names_its_place) {
  try {
    require(false, "two and two is four");
    FAIL();
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("two and two is four"), std::string::npos);
    EXPECT_NE(text.find("basics_test.cpp:"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace fourfold
