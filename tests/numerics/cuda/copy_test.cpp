// Copies within device memory and sums over the buffers of several ranks there, run on the CPU
// thread by thread, and how they are cut.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/reduce_members.h"
#include "numerics/cuda/copy_cases.h"
#include "numerics/cuda/member_cases.h"
#include "support/cuda_emulation/emulation.h"

namespace fourfold::numerics {
namespace {

using cuda_emulation::Order;
using kernels::cuda::CopyShape;

void in_host_memory(const Bytes& from, Bytes& to,
                    const std::function<void(const std::byte*, std::byte*)>& copy) {
  copy(from.data(), to.data());
}

class CudaCopies : public testing::TestWithParam<Order> {
 protected:
  CudaCopies() { cuda_emulation::set_order(GetParam()); }
  ~CudaCopies() override { cuda_emulation::set_order(Order::forward); }
};
TEST_P(CudaCopies, of_rows_give_the_bytes_of_the_cpu_and_touch_no_other) {
  expect_all_rows_copied(in_host_memory);
}
TEST_P(CudaCopies, pack_and_unpack_give_the_bytes_of_the_cpu_and_touch_no_other) {
  expect_all_reordered(in_host_memory);
}
TEST_P(CudaCopies, sums_and_maxima_over_members_have_the_bits_of_the_host) {
  expect_all_members_reduced(in_host_memory);
}
INSTANTIATE_TEST_SUITE_P(InOrder, CudaCopies, testing::Values(Order::forward, Order::shuffled),
                         [](const auto& order) {
                           return order.param == Order::forward ? "forward" : "shuffled";
                         });

TEST(CudaCopy, of_something_onto_itself_is_nothing_and_of_unequal_sizes_is_refused) {
  Bytes bytes = counted(64);
  const kernels::cuda::DeviceRows rows{bytes.data(), 2, 16, 32};
  kernels::cuda::copy_rows(rows, rows, nullptr);
  EXPECT_EQ(bytes, counted(64));
  EXPECT_THROW(kernels::cuda::copy_rows(rows, {bytes.data(), 2, 8, 32}, nullptr), InternalError);
  EXPECT_THROW(kernels::cuda::pack({2, 1, 7, 3, 4}, bytes.data(), bytes.data(), nullptr),
               InternalError);
}

TEST(CudaCopy, a_reduction_of_no_members_or_of_more_than_a_launch_takes_is_refused) {
  std::vector<const std::byte*> terms;
  EXPECT_THROW(kernels::cuda::reduce_members(terms, {}, 0, DType::f32, Reduction::sum, nullptr),
               InternalError);
  terms.resize(kernels::cuda::most_members + 1);
  EXPECT_THROW(kernels::cuda::reduce_members(terms, {}, 0, DType::f32, Reduction::sum, nullptr),
               InternalError);
}

TEST(CudaCopy, takes_the_widest_access_that_all_places_allow) {
  EXPECT_EQ(kernels::cuda::access_bytes({32, 48, 0}), 16);
  EXPECT_EQ(kernels::cuda::access_bytes({32, 8}), 4);
  EXPECT_EQ(kernels::cuda::access_bytes({16, 4, 6}), 2);
  EXPECT_EQ(kernels::cuda::access_bytes({16, 5}), 1);
}

TEST(CudaCopy, lanes_cover_every_unit_and_none_has_more_than_eight_in_flight) {
  for (const std::int64_t units : {1, 2, 5, 31, 32, 33, 127, 1000, 1024, 2048, 2049, 5'000'000}) {
    const CopyShape shape = CopyShape::of(3, units);
    EXPECT_GE(shape.pieces * shape.piece_units(), units);
    EXPECT_LT((shape.pieces - 1) * shape.piece_units(), units);
    EXPECT_EQ(CopyShape::threads % shape.lanes, 0) << units;
    EXPECT_EQ(shape.items(), 3 * shape.pieces);
  }
  EXPECT_EQ(CopyShape::of(3, 1).lanes, 1);            // short rows share a block
  EXPECT_EQ(CopyShape::of(3, 5'000'000).lanes, 256);  // long ones take whole blocks
  EXPECT_TRUE(CopyShape::of(0, 16).launch().is_empty());
  EXPECT_TRUE(CopyShape::of(4, 0).launch().is_empty());
}

}  // namespace
}  // namespace fourfold::numerics
