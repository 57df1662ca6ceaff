// Numbers with their units.
#include "base/quantity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fourfold {
namespace {

TEST(Quantity, numbers_are_read_with_their_units) {
  EXPECT_EQ(parse_quantity("40 GiB", Quantity::bytes), 40 * 1024. * 1024 * 1024);
  EXPECT_EQ(parse_quantity("80 GB", Quantity::bytes), 80e9);
  EXPECT_EQ(parse_quantity("25 GB/s", Quantity::bytes_per_s), 25e9);
  EXPECT_EQ(parse_quantity("200 Gbit/s", Quantity::bytes_per_s), 25e9);
  EXPECT_EQ(parse_quantity("4 x 25 GB/s", Quantity::bytes_per_s), 100e9);
  EXPECT_EQ(parse_quantity("312 TFLOP/s", Quantity::flops_per_s), 312e12);
  EXPECT_EQ(parse_quantity("1.5 GFLOP", Quantity::flops), 1.5e9);
  EXPECT_EQ(parse_quantity("2.7 us", Quantity::seconds), 2.7e-6);
  EXPECT_EQ(parse_quantity("16.4 TFLOP/s", Quantity::flops_per_s), 16.4e12);
  EXPECT_EQ(parse_quantity("1e-3 us", Quantity::seconds), 1e-9);
  EXPECT_EQ(parse_quantity("0 s", Quantity::seconds), 0);
}

TEST(Quantity, texts_that_could_mean_something_else_are_refused) {
  for (const char* text : {"40",
                           "40GiB",
                           "40 gib",
                           "40 Gb",
                           "40 GiB/s",
                           "-40 GiB",
                           "40  GiB",
                           "",
                           " GiB",
                           "inf GiB",
                           "nan GiB",
                           "1e300 TiB2",
                           "1e308 TiB",
                           "40 GiB ",
                           "x 40 GiB",
                           "4 x",
                           "4 x 40",
                           "4 x 4 x 40 GiB",
                           "0x10 GiB",
                           "1e GiB",
                           "e3 GiB",
                           ". GiB",
                           "1e3e3 GiB",
                           "1e999 GiB",
                           "1e99999999999 GiB"})
    EXPECT_EQ(parse_quantity(text, Quantity::bytes), std::nullopt) << text;
  EXPECT_EQ(parse_quantity("200 Gb/s", Quantity::bytes_per_s), std::nullopt);
  EXPECT_EQ(parse_quantity("312 TFLOP/s", Quantity::flops), std::nullopt);
  EXPECT_EQ(parse_quantity("5 min", Quantity::seconds), std::nullopt);
}

TEST(Quantity, texts_have_the_unit_with_which_they_are_shortest) {
  EXPECT_EQ(quantity_text(40 * 1024. * 1024 * 1024, Quantity::bytes), "40 GiB");
  EXPECT_EQ(quantity_text(80e9, Quantity::bytes), "80 GB");
  EXPECT_EQ(quantity_text(25e9, Quantity::bytes_per_s), "25 GB/s");
  EXPECT_EQ(quantity_text(1.2e9, Quantity::bytes_per_s), "1.2 GB/s");
  EXPECT_EQ(quantity_text(312e12, Quantity::flops_per_s), "312 TFLOP/s");
  EXPECT_EQ(quantity_text(2.7e-6, Quantity::seconds), "2.7 us");
  EXPECT_EQ(quantity_text(1.9e-6, Quantity::seconds), "1.9 us");
  EXPECT_EQ(quantity_text(16.4e12, Quantity::flops_per_s), "16.4 TFLOP/s");
  EXPECT_EQ(quantity_text(1.5e6, Quantity::bytes), "1.5 MB");
  EXPECT_EQ(quantity_text(5e-10, Quantity::seconds), "5e-10 s");
  EXPECT_EQ(quantity_text(0, Quantity::bytes_per_s), "0 B/s");
}

TEST(Quantity, every_number_reads_back_to_the_same_bits) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-12, 18);
  for (int i = 0; i < 4000; ++i) {
    const double value = std::pow(10, exponent(random));
    for (const Quantity quantity : {Quantity::bytes, Quantity::bytes_per_s, Quantity::flops,
                                    Quantity::flops_per_s, Quantity::seconds}) {
      const std::string text = quantity_text(value, quantity);
      ASSERT_EQ(parse_quantity(text, quantity), value) << text;
    }
  }
}

}  // namespace
}  // namespace fourfold
