// The CUDA kernels, run on the CPU thread by thread (support/cuda_emulation): every case of every
// family in f32 and bf16, in several orders of threads, in place, and on operands that do not begin
// at multiples of 16 bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/format.h"
#include "kernels/cuda/kernels.h"
#include "numerics/harness.h"
#include "support/cuda_emulation/emulation.h"
#include "support/long_run.h"

namespace fourfold::numerics {
namespace {

using cuda_emulation::Order;

kernels::Run emulated(const kernels::Problem& problem) {
  return [enqueue = kernels::cuda::prepare_own(problem)](kernels::Tensors operands,
                                                         kernels::Workspace workspace) {
    enqueue(operands, workspace, nullptr);
  };
}

/// On copies of the operands that begin one element after a multiple of 16 bytes.
kernels::Run emulated_unaligned(const kernels::Problem& problem) {
  return [run = emulated(problem)](kernels::Tensors operands, kernels::Workspace workspace) {
    struct Copy {
      std::vector<std::byte> memory;
      std::size_t first, bytes;
    };
    std::map<void*, Copy> copies;  // operands that share memory go on sharing it
    std::vector<kernels::Tensor> moved(operands.begin(), operands.end());
    for (kernels::Tensor& tensor : moved) {
      const auto element = static_cast<std::size_t>(size_bytes(tensor.dtype));
      const std::size_t bytes = static_cast<std::size_t>(tensor.elements()) * element;
      Copy& copy =
          copies.try_emplace(tensor.data, Copy{std::vector<std::byte>(bytes + 16), element, bytes})
              .first->second;
      std::memcpy(copy.memory.data() + copy.first, tensor.data, bytes);
      tensor.data = copy.memory.data() + copy.first;
    }
    run(moved, workspace);
    for (const auto& [original, copy] : copies)
      std::memcpy(original, copy.memory.data() + copy.first, copy.bytes);
  };
}

const Kernels aligned{emulated, kernels::cuda::own_workspace_bytes};
const Kernels unaligned{emulated_unaligned, kernels::cuda::own_workspace_bytes};

Backend cuda(DType dtype, const Kernels& source = aligned) {
  return {"cuda", dtype, 1, &source};
}

class CudaEmulated : public testing::TestWithParam<Case> {
 protected:
#ifdef FOURFOLD_FIND_RACES
  void SetUp() override {
    static std::set<std::string_view> seen;
    if (!seen.insert(op::name(GetParam().op)).second && !is_long_run())
      GTEST_SKIP() << "more than one case of an op takes a while under the sanitizer; set "
                      "FOURFOLD_LONG";
  }
#endif
  ~CudaEmulated() override { cuda_emulation::set_order(Order::forward); }
};

TEST_P(CudaEmulated, result_is_within_the_derived_bound_of_the_float64_reference) {
  const op::Op& op = GetParam().op;
  expect_within_bound(GetParam(), cuda(DType::f32));
  if (is_bounded_in_bf16(op)) expect_within_bound(GetParam(), cuda(DType::bf16));
}

TEST_P(CudaEmulated, order_of_threads_place_in_memory_and_aliasing_change_no_bit) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "switches of fibers take minutes with the sanitizer; the bounds run the same code";
#endif
  const Case& sample = GetParam();
  const auto bytes_of = [&](const Backend& backend, Aliasing aliasing = Aliasing::none) {
    return apply(sample.op, backend, sample.reads, sample.updates, aliasing).bytes;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    cuda_emulation::set_order(Order::forward);
    const auto expected = bytes_of(cuda(dtype));
    EXPECT_EQ(bytes_of(cuda(dtype, unaligned)), expected) << "unaligned " << to_string(dtype);
    cuda_emulation::set_order(Order::backward);
    EXPECT_EQ(bytes_of(cuda(dtype), Aliasing::where_allowed), expected)
        << "in place, backward " << to_string(dtype);
    cuda_emulation::set_order(Order::shuffled);
    EXPECT_EQ(bytes_of(cuda(dtype)), expected) << "shuffled " << to_string(dtype);
  }
}

/// True for a chain that sums over rows while it goes over them, and then in another order.
bool adds_in_its_own_order(const op::Op& op) {
  const std::string_view name = op::name(op);
  return name.starts_with("layer_norm_weight_gradient|") ||
         (name.starts_with("group_norm") && name.ends_with("bias_gradient"));
}

TEST_P(CudaEmulated, a_chain_or_list_has_the_bits_of_its_pieces) {
  const Case& sample = GetParam();
  if (op::pieces(sample.op).size() < 2 || adds_in_its_own_order(sample.op)) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Result fused = apply(sample.op, cuda(dtype), sample.reads, sample.updates);
    EXPECT_EQ(fused.bytes, of_pieces(sample, cuda(dtype)).bytes) << to_string(dtype);
  }
}

TEST_P(CudaEmulated, a_chain_that_adds_in_its_own_order_is_as_near_its_pieces_as_roundings_allow) {
  const Case& sample = GetParam();
  if (!adds_in_its_own_order(sample.op) || !sample.magnitude) return;
  EXPECT_LE(difference_from_pieces(sample, cuda(DType::bf16)), 1);
}

TEST(CudaEmulatedExamples, hide_no_nan) {
  cuda_emulation::set_order(Order::forward);
  for (const Case& sample : example_cases()) expect_no_hidden_nan(sample, cuda(DType::f32));
}

TEST(CudaEmulatedState, initial_values_have_the_bits_of_the_reference) {
  // Enough for several threads, a window of a tensor among them.
  const op::TensorWindow window{{300, 200}, {120, 100}};
  const op::InitNormal op{random_stream("weight"), 0.02, {200, 101}, window};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Result drawn = apply(op, cuda(dtype), {scalar(12345)});
    EXPECT_EQ(drawn.bytes, apply(op, {"reference", dtype}, {scalar(12345)}).bytes)
        << to_string(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CudaEmulated, testing::ValuesIn(all_cases()),
                         [](const auto& tested) {
                           std::string name = format("{}_{}_{}", op::name(tested.param.op),
                                                     tested.param.name, tested.index);
                           for (char& letter : name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) == 0)
                               letter = '_';
                           return name;
                         });

TEST(CudaEmulation, finds_a_barrier_that_part_of_a_block_does_not_reach) {
  EXPECT_THROW(cuda_emulation::run({1, 1, 1}, 64, 0,
                                   [] {
                                     if (cuda_emulation::place.thread.x < 32)
                                       cuda_emulation::wait_for_block();
                                   }),
               std::logic_error);
}

TEST(CudaEmulation, finds_threads_that_wait_for_one_another_at_different_places) {
  // Outside of the macro, which is one place.
  const auto apart = [] {
    if (cuda_emulation::place.thread.x < 16)
      cuda_emulation::wait_for_warp();
    else
      cuda_emulation::wait_for_warp();
  };
  EXPECT_THROW(cuda_emulation::run({1, 1, 1}, 32, 0, apart), std::logic_error);
  EXPECT_NO_THROW(cuda_emulation::run({2, 1, 1}, 64, 0, [] { cuda_emulation::wait_for_block(); }));
}

TEST(CudaEmulation, refuses_launches_that_a_gpu_refuses) {
  const int one = 0, other = 0;
  using cuda_emulation::check_launch;
  EXPECT_NO_THROW(check_launch(&one, {0x7fffffff, 65535, 65535}, 48 << 10));
  EXPECT_THROW(check_launch(&one, {1, 65536, 1}, 0), std::logic_error);
  EXPECT_THROW(check_launch(&one, {1, 1, 65536}, 0), std::logic_error);
  EXPECT_THROW(check_launch(&one, {1, 1, 1}, (48 << 10) + 16), std::logic_error);
  cuda_emulation::allow_shared_memory(&one, 100 << 10);
  EXPECT_NO_THROW(check_launch(&one, {1, 1, 1}, 100 << 10));
  EXPECT_THROW(check_launch(&other, {1, 1, 1}, 100 << 10), std::logic_error);
  EXPECT_THROW(cuda_emulation::allow_shared_memory(&one, 200 << 10), std::logic_error);
  EXPECT_THROW(cuda_emulation::check_mask(0xffff), std::logic_error);
}

/// Launches the kernel of an op on operands of no memory, which nobody reads: work that is handed
/// to streams is dropped.
void launch_alone(const op::Op& op, std::vector<Shape> reads) {
  kernels::Problem problem{op, DType::bf16, std::move(reads)};
  for (const Shape& output : op::outputs(op, problem.shapes)) problem.shapes.push_back(output);
  std::vector<kernels::Tensor> tensors;
  for (std::size_t i = 0; i < problem.shapes.size(); ++i)
    tensors.push_back({nullptr, problem.shapes[i],
                       op::element_dtype(op::operands(op)[i].element, problem.dtype)});
  kernels::cuda::prepare_own(problem)(tensors, {}, nullptr);
}

TEST(CudaEmulation, more_heads_columns_and_parts_than_a_grid_has_along_y_are_launched) {
  int dropped = 0;
  cuda_emulation::set_streams({[&](void*, const std::function<void()>&) { ++dropped; }, {}});
  constexpr std::int64_t samples = 10000, heads = 7, width = 64, many = std::int64_t{1} << 23;
  const Shape qkv{samples, 1, 3, heads, width}, y{samples, 1, heads, width}, lse{samples, heads, 1};
  EXPECT_NO_THROW(launch_alone(op::Attention{}, {qkv}));
  EXPECT_NO_THROW(launch_alone(op::AttentionGradient{}, {qkv, y, lse, y}));
  EXPECT_NO_THROW(launch_alone(op::AttentionCached{4}, {qkv, {}}));
  EXPECT_NO_THROW(launch_alone(op::Contract{}, {{2, 3}, {3, many}}));
  EXPECT_NO_THROW(launch_alone(op::BiasGradient{}, {{many, 2}}));
  EXPECT_NO_THROW(launch_alone(op::LayerNormMoments{70000}, {{2, 140000}}));
  cuda_emulation::set_streams({});
  EXPECT_GE(dropped, 10) << "every op was launched";
}

TEST(CudaEmulation, a_missing_barrier_shows_in_some_order) {
  std::vector<int> last_seen;
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    cuda_emulation::set_order(order);
    int cell = 0, seen = 0;
    cuda_emulation::run({1, 1, 1}, 32, 0, [&] {
      if (cuda_emulation::place.thread.x == 5) cell = 1;
      if (cuda_emulation::place.thread.x == 20) seen = cell;
    });
    last_seen.push_back(seen);
  }
  cuda_emulation::set_order(Order::forward);
  EXPECT_EQ(last_seen[0], 1);
  EXPECT_EQ(last_seen[1], 0);
}

/// One warp copies a word for each lane, waits or not, and reads its neighbour's.
std::vector<std::uint32_t> copied(bool waits, bool synchronizes) {
  std::vector<std::uint32_t> from(32), seen(32);
  for (std::uint32_t i = 0; i < 32; ++i) from[i] = i;
  cuda_emulation::run({1, 1, 1}, 32, 128, [&] {
    const unsigned lane = cuda_emulation::place.thread.x;
    auto* const shared = reinterpret_cast<std::uint32_t*>(cuda_emulation::shared_memory());
    shared[lane] = 77;
    cuda_emulation::copy_async(shared + lane, &from[lane], 4, lane != 9);
    cuda_emulation::end_copy_group();
    if (waits) cuda_emulation::wait_for_copies(0);
    if (synchronizes) cuda_emulation::wait_for_block();
    seen[lane] = shared[(lane + 1) % 32];
    if (!waits) cuda_emulation::wait_for_copies(0);
  });
  return seen;
}

TEST(CudaEmulation, an_asynchronous_copy_arrives_when_it_is_waited_for_and_not_before) {
  std::vector<std::uint32_t> expected(32);
  for (std::uint32_t i = 0; i < 32; ++i) expected[i] = i == 8 || i == 31 ? 0 : i + 1;
  EXPECT_EQ(copied(true, true), expected);
  EXPECT_NE(copied(true, false), expected) << "without a barrier";
  EXPECT_NE(copied(false, true), expected) << "without waiting";
  EXPECT_EQ(copied(false, true)[3], 0xffffffffU) << "neither the old nor the new value";
}

TEST(CudaEmulation, waits_for_all_groups_but_the_last_ones) {
  const std::uint32_t from[3] = {1, 2, 3};
  std::uint32_t to[3] = {}, seen[3] = {};
  cuda_emulation::run({1, 1, 1}, 32, 0, [&] {
    if (cuda_emulation::place.thread.x != 0) return;
    for (int i = 0; i < 3; ++i) {
      cuda_emulation::copy_async(&to[i], &from[i], 4, true);
      cuda_emulation::end_copy_group();
    }
    cuda_emulation::wait_for_copies(1);
    std::copy_n(to, 3, seen);
    cuda_emulation::wait_for_copies(0);
  });
  EXPECT_EQ(seen[0], 1U);
  EXPECT_EQ(seen[1], 2U);
  EXPECT_EQ(seen[2], 0xffffffffU);
  EXPECT_EQ(to[2], 3U);
}

TEST(CudaEmulation, refuses_copies_that_are_never_waited_for_and_misaligned_ones) {
  alignas(16) std::byte from[32] = {}, to[32];
  EXPECT_THROW(cuda_emulation::run({1, 1, 1}, 32, 0,
                                   [&] { cuda_emulation::copy_async(to, from, 16, true); }),
               std::logic_error);
  EXPECT_THROW(cuda_emulation::run({1, 1, 1}, 32, 0,
                                   [&] { cuda_emulation::copy_async(to + 4, from, 16, true); }),
               std::logic_error);
  EXPECT_THROW(cuda_emulation::run({1, 1, 1}, 32, 0,
                                   [&] { cuda_emulation::copy_async(to, from + 4, 16, true); }),
               std::logic_error);
}

}  // namespace
}  // namespace fourfold::numerics
