// A handmade step with kernels of every kind, run by the CPU backend: what it allocates and whether
// its bits depend on how it is run.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/target.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "unit/run/allocation_counter.h"
#include "unit/run/handmade.h"

namespace fourfold::run::kernels_in_a_step_test {
namespace {

constexpr int threads = 2;
constexpr std::int64_t rows = 192, width = 128;

class CountingFeeder : public Feeder {
 public:
  void feed(const Input&, const Samples& samples, std::span<std::byte> into) override {
    const std::span<std::int32_t> ids = as<std::int32_t>(into);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>((i + static_cast<std::size_t>(samples.step)) % 50);
  }
};

/// Tokens (fed on a stream of their own) -> embedding -> layer norm -> product by each library ->
/// gelu -> norm.
class Step {
 public:
  Step() {
    const auto result = made_.result_block();
    const auto step = made_.step_block();
    const auto ids = made_.tokens("ids", {1, 4, 0, 4}, rows / 4);
    const auto table = matrix("table", 50, width, program::Region::persistent);
    const auto gain = made_.floats("gain", width, program::Region::persistent);
    const auto fed = made_.event();
    made_.add("feed", made_.feed(ids));
    made_.add("feed", program::Record{fed});
    compute(op::InitNormal{random_stream("table"), 0.5, {50, width}},
            {Handmade::field(step, "step.seed"), made_.whole(table)}, "vector");
    compute(op::Fill{1.5, {width}}, {made_.whole(gain)}, "vector");
    made_.add("math", program::Wait{fed});
    const auto x = made_.buffer("x", DType::f32, {4, rows / 4, width}, program::Region::transient);
    compute(op::Embedding{}, {made_.whole(ids), made_.whole(table), made_.whole(x)}, "vector");
    const auto y = norm(x, gain, "vector"), z = norm(y, gain, "reference");
    auto wide = z;
    // An odd number of products: the last one has 50 columns, as the first.
    for (const char* library : {"openblas", "onednn", "onednn_sgemm", "openblas", "vector"})
      wide = multiply(wide, table, library);
    const auto out = made_.buffer("out", DType::f32, {4, rows / 4, 50}, program::Region::transient,
                                  program::BufferRole::output);
    compute(op::Gelu{}, {made_.whole(wide), made_.whole(out)}, "vector");
    compute(op::SquaredNorm{}, {made_.whole(out), Handmade::field(result, "result.squared_norm")},
            "vector");
  }

  program::Bundle bundle() const { return made_.bundle(); }

 private:
  program::BufferId matrix(const std::string& name, std::int64_t height, std::int64_t breadth,
                           program::Region region) {
    return made_.buffer(name, DType::f32, {height, breadth}, region);
  }

  /// With the workspace that the kernel asks for.
  void compute(const op::Op& op, std::vector<program::Slice> slices,
               const std::string& implementation) {
    program::Compute what{op, DType::f32, std::move(slices), std::nullopt, implementation};
    const std::int64_t bytes = kernels::cpu::target(threads).workspace_bytes(
        implementation, op, made_.edit().operand_shapes(what), DType::f32);
    if (bytes > 0)
      what.workspace = made_.whole(
          made_.buffer("workspace", DType::f32, {(bytes + 3) / 4}, program::Region::transient));
    made_.add("math", std::move(what));
  }

  program::BufferId norm(program::BufferId x, program::BufferId gain,
                         const std::string& implementation) {
    const auto y = made_.buffer("y", DType::f32, {4, rows / 4, width}, program::Region::transient);
    const auto mean = matrix("mean", 4, rows / 4, program::Region::transient);
    const auto rstd = matrix("rstd", 4, rows / 4, program::Region::transient);
    compute(
        op::LayerNorm{1e-5, false},
        {made_.whole(x), made_.whole(gain), made_.whole(y), made_.whole(mean), made_.whole(rstd)},
        implementation);
    return y;
  }

  /// x (4, T, C) or (4, T, 50) with the table or its transpose, whichever fits.
  program::BufferId multiply(program::BufferId x, program::BufferId table,
                             const std::string& implementation) {
    const bool from_width = made_.edit().local_shape(x).back() == width;
    op::Contract op{.a_rows = 2, .b_rows = 1, .transpose_b = from_width};
    const auto y = made_.buffer("product", DType::f32, {4, rows / 4, from_width ? 50 : width},
                                program::Region::transient);
    compute(op, {made_.whole(x), made_.whole(table), made_.whole(y)}, implementation);
    return y;
  }

  Handmade made_{op::ProgramKind::train};
};

class KernelsInAStep : public ::testing::Test {
 protected:
  const program::Bundle bundle_ = Step().bundle();
  CpuBackend backend_{{.threads = threads}};
  Executor executor_{bundle_, backend_};
  CountingFeeder feeder_;

  std::vector<float> output() {
    const auto values = as<float>(executor_.bytes(op::ProgramKind::train, "out"));
    return {values.begin(), values.end()};
  }
};

TEST_F(KernelsInAStep, steps_do_not_allocate_from_our_own_code) {
  executor_.run(op::ProgramKind::train, {.step = 0, .seed = 1}, &feeder_);
  AllocationCounter counter;
  for (std::int64_t step = 1; step <= 5; ++step)
    executor_.run(op::ProgramKind::train, {.step = step, .seed = 1}, &feeder_);
  const Allocations allocations = counter.stop();
  EXPECT_EQ(allocations.own, 0) << "the first at " << allocations.first_own;
  RecordProperty("third_party_allocations", static_cast<int>(allocations.third_party));
}

TEST_F(KernelsInAStep, instruction_by_instruction_gives_the_same_bits) {
  const op::ResultBlock whole =
      executor_.run(op::ProgramKind::train, {.step = 2, .seed = 1}, &feeder_);
  const std::vector<float> wanted = output();
  EXPECT_TRUE(std::isfinite(whole.squared_norm));
  EXPECT_GT(whole.squared_norm, 0);
  executor_.run(op::ProgramKind::train, {.step = 3, .seed = 9}, &feeder_);
  EXPECT_NE(output(), wanted);
  const op::ResultBlock stepwise = executor_.run_stepwise(
      op::ProgramKind::train, {.step = 2, .seed = 1}, &feeder_, [](const auto&, std::size_t) {});
  EXPECT_EQ(output(), wanted);
  EXPECT_EQ(stepwise.squared_norm, whole.squared_norm);
}

std::ptrdiff_t num_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}
/// Their number once it is as expected, or else after five seconds: a thread that was joined is
/// seen a moment longer.
std::ptrdiff_t num_threads_soon(std::ptrdiff_t expected) {
  for (int i = 0; i < 500 && num_threads() != expected; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return num_threads();
}

TEST_F(KernelsInAStep, a_team_that_the_caller_opened_ends_when_a_step_begins) {
  executor_.run(op::ProgramKind::train, {.step = 0, .seed = 1}, &feeder_);
  const std::ptrdiff_t before = num_threads();
  std::vector<float> x(65536, 0.5F), y(x.size());
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const std::vector<kernels::Tensor> operands = {{x.data(), shape, DType::f32},
                                                 {y.data(), shape, DType::f32}};
  kernels::cpu::prepare("vector", {op::Gelu{}, DType::f32, {shape, shape}, 3})(operands, {});
  ASSERT_EQ(num_threads_soon(before + 2), before + 2);
  executor_.run(op::ProgramKind::train, {.step = 1, .seed = 1}, &feeder_);
  EXPECT_EQ(num_threads_soon(before), before);
}

TEST_F(KernelsInAStep, a_kernel_that_does_not_exist_is_refused_when_the_backend_is_bound) {
  Handmade made(op::ProgramKind::train);
  const auto x = made.floats("x", 4);
  made.compute(op::Fill{1, {4}}, {made.whole(x)}, "abacus");
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  EXPECT_THROW(Executor(bundle, backend), InternalError);
}

}  // namespace
}  // namespace fourfold::run::kernels_in_a_step_test
