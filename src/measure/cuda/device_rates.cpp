#include "measure/cuda/device_rates.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/units.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "measure/cuda/streams.h"
#include "measure/step_calls.h"

namespace fourfold::measure::cuda {
namespace {

/// A kernel to measure, against which rate. Made on an open device: cuDNN is asked whether it has
/// one.
struct Case {
  std::string op, shape, kernel;
  kernels::Problem problem;
  machine::Target target;
  double peak_flops_per_s = 0;  // 0: not known
};

std::string row_text(const std::string& op, const std::string& shape, const std::string& kernel,
                     double seconds, const std::string& rate, const std::string& of_peak) {
  return format("{:<20} {:<22} {:<20} {:>10.1f} {:>14} {:>8}\n", op, shape, kernel, seconds * 1e6,
                rate, of_peak);
}

std::string header() {
  return format("{:<20} {:<22} {:<20} {:>10} {:>14} {:>8}\n", "op", "shape", "kernel", "us a call",
                "rate", "of peak");
}

/// Name of a type as users write it.
std::string type_text(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : "fp32";
}

// --- products

/// Rows by columns by inner length: squares, and the products of GPT-2 124M (16 x 1024 tokens) and
/// of GPT-2 1.5B (8 x 1024 tokens), the head last.
struct ProductShape {
  std::int64_t m, n, k;
};
constexpr ProductShape product_shapes[] = {
    {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192},
    {16384, 2304, 768}, {16384, 3072, 768}, {16384, 768, 3072}, {16384, 50304, 768},
    {8192, 4800, 1600}, {8192, 6400, 1600}, {8192, 1600, 6400}, {8192, 50304, 1600}};

std::vector<Case> product_cases(const machine::PeakRates& peak) {
  using kernels::cuda::FloatProducts;
  struct Kind {
    DType dtype;
    FloatProducts floats;
    const char* name;
    double peak;
  };
  const Kind kinds[] = {{DType::bf16, FloatProducts::full, "bf16", peak.bf16_flops_per_s},
                        {DType::f32, FloatProducts::tf32, "tf32", peak.tf32_flops_per_s},
                        {DType::f32, FloatProducts::full, "fp32", peak.f32_flops_per_s}};
  std::vector<Case> cases;
  for (const Kind& kind : kinds)
    for (const auto& [m, n, k] : product_shapes)
      cases.push_back({"contract",
                       format("nn {}x{}x{}", m, n, k),
                       kind.name,
                       {op::Contract{}, kind.dtype, {{m, k}, {k, n}, {m, n}}},
                       kernels::cuda::target(kind.floats),
                       kind.peak});
  return cases;
}

// --- attention

struct AttentionShape {
  std::int64_t batch, time, heads, width;
};
constexpr AttentionShape attention_shapes[] = {{16, 1024, 12, 64},
                                               {8, 1024, 25, 64},
                                               {8, 2048, 32, 128},
                                               {4, 4096, 32, 128},
                                               {2, 8192, 32, 128}};

void add_attention(const AttentionShape& of, DType dtype, const machine::PeakRates& peak,
                   std::vector<Case>& cases) {
  const Shape qkv{of.batch, of.time, 3, of.heads, of.width},
      y{of.batch, of.time, of.heads, of.width}, lse{of.batch, of.heads, of.time};
  const kernels::Problem problems[] = {{op::Attention{}, dtype, {qkv, y, lse}},
                                       {op::AttentionGradient{}, dtype, {qkv, y, lse, y, qkv}}};
  using kernels::cuda::AttentionBy;
  using kernels::cuda::FloatProducts;
  for (const kernels::Problem& problem : problems) {
    const auto target_by = [](AttentionBy by) {
      return kernels::cuda::target(FloatProducts::full, by);
    };
    const auto name = [&](const machine::Target& target) {
      return machine::choose(target, problem.op, problem.shapes, dtype);
    };
    std::vector<machine::Target> targets = {kernels::cuda::own_target()};
    for (const AttentionBy by : {AttentionBy::cudnn, AttentionBy::cudnn_fast})
      if (name(target_by(by)) != name(targets.back())) targets.push_back(target_by(by));
    for (const machine::Target& target : targets)
      cases.push_back({std::string(op::name(problem.op)),
                       format("{}x{}x{}x{}", of.batch, of.time, of.heads, of.width),
                       type_text(dtype), problem, target,
                       dtype == DType::bf16 ? peak.bf16_flops_per_s : peak.tf32_flops_per_s});
  }
}

std::vector<Case> attention_cases(const machine::PeakRates& peak) {
  std::vector<Case> cases;
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const AttentionShape& shape : attention_shapes) add_attention(shape, dtype, peak, cases);
  return cases;
}

void measure_cases(BenchDevice& device, const std::vector<Case>& cases, double seconds,
                   const Print& print) {
  print(header());
  for (const Case& one : cases) {
    const kernels::Problem& problem = one.problem;
    const std::string& name =
        machine::choose(one.target, problem.op, problem.shapes, problem.dtype);
    DeviceKernelBench bench(
        device, problem, kernels::cuda::prepare(name, problem),
        one.target.workspace_bytes(name, problem.op, problem.shapes, problem.dtype));
    const double call_s = bench.measure_s(seconds);
    const double rate = op::flops(problem.op, problem.shapes) / call_s;
    print(row_text(one.op, one.shape, format("{} {}", one.kernel, name), call_s,
                   format("{:.1f} TFLOP/s", rate / 1e12), share_of(rate, one.peak_flops_per_s)));
  }
}

// --- memory

/// Bytes of an array: within the cache of no GPU, and four times that.
constexpr std::int64_t array_bytes[] = {std::int64_t{256} << 20, std::int64_t{1} << 30};

}  // namespace

void measure_streams(BenchDevice& device, double seconds, double peak_bytes_per_s,
                     const Print& print) {
  print(header());
  for (const std::int64_t bytes : array_bytes) {
    std::byte* const memory = device.reserve(3 * bytes);
    const std::int64_t elements = bytes / std::int64_t{sizeof(float)};
    device.fill(memory, 3 * elements, DType::f32, -1);
    const auto array = [&](int i) { return reinterpret_cast<float*>(memory + i * bytes); };
    const auto row = [&](const char* name, const char* kernel, double moved_bytes, auto&& enqueue) {
      const double call_s = median_call_s(
          device, seconds, [&](std::int64_t, kernels::cuda::Stream stream) { enqueue(stream); });
      const double rate = moved_bytes / call_s;
      print(row_text(name, format_bytes(bytes), kernel, call_s, format("{:.1f} GB/s", rate / 1e9),
                     share_of(rate, peak_bytes_per_s)));
    };
    const auto moved = static_cast<double>(bytes);
    row("copy", "cudaMemcpy", 2 * moved,
        [&](kernels::cuda::Stream stream) { copy_by_cuda(memory, bytes, memory + bytes, stream); });
    row("copy", "own", 2 * moved,
        [&](kernels::cuda::Stream stream) { copy(array(0), elements, array(1), stream); });
    row("triad", "own", 3 * moved, [&](kernels::cuda::Stream stream) {
      triad(array(1), array(2), 3, elements, array(0), stream);
    });
  }
}

void measure_products(BenchDevice& device, double seconds, const machine::PeakRates& peak,
                      const Print& print) {
  measure_cases(device, product_cases(peak), seconds, print);
}

void measure_attention(BenchDevice& device, double seconds, const machine::PeakRates& peak,
                       const Print& print) {
  measure_cases(device, attention_cases(peak), seconds, print);
}

}  // namespace fourfold::measure::cuda
