#include "support/model_cublaslt.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/contract_sizes.h"
#include "support/cuda_emulation/emulation.h"

namespace fourfold::test {
namespace {

using kernels::cuda::Epilogue;
using kernels::cuda::EpilogueMemory;

double read(const void* data, DType dtype, std::int64_t index) {
  return dtype == DType::f32
             ? static_cast<const float*>(data)[index]
             : static_cast<double>(static_cast<float>(static_cast<const BFloat16*>(data)[index]));
}
void write(void* data, DType dtype, std::int64_t index, double value) {
  if (dtype == DType::f32)
    static_cast<float*>(data)[index] = static_cast<float>(value);
  else
    static_cast<BFloat16*>(data)[index] = BFloat16(static_cast<float>(value));
}

double inner(double x) {
  return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
}
double gelu(double x) {
  return x / 2 * (1 + std::tanh(inner(x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(inner(x));
  const double slope = std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * slope;
}

struct Product {
  kernels::ContractSizes sizes;
  DType dtype, out_dtype;
  bool accumulates;
  Epilogue epilogue;

  double element(const void* a, const void* b, std::int64_t row, std::int64_t column) const {
    double value = 0;
    for (std::int64_t k = 0; k < sizes.k; ++k)
      value += read(a, dtype, row * sizes.a_row_stride + k * sizes.a_inner_stride) *
               read(b, dtype, k * sizes.b_inner_stride + column * sizes.b_column_stride);
    return value;
  }

  void compute(const void* a, const void* b, void* out, const EpilogueMemory& memory) const {
    for (std::int64_t row = 0; row < sizes.m; ++row)
      for (std::int64_t column = 0; column < sizes.n; ++column) {
        const std::int64_t index = row * sizes.n + column;
        double value = element(a, b, row, column);
        if (accumulates) value += read(out, out_dtype, index);
        if (epilogue == Epilogue::bias || epilogue == Epilogue::bias_gelu)
          value += read(memory.bias, out_dtype, column);
        if (epilogue == Epilogue::bias_gelu) {
          write(memory.aux, out_dtype, index, value);
          value = gelu(value);
        }
        if (epilogue == Epilogue::gelu_gradient)
          value *= gelu_slope(read(memory.aux, out_dtype, index));
        write(out, out_dtype, index, value);
      }
  }

  void operator()(const void* a, const void* b, void* out, const EpilogueMemory& memory,
                  kernels::Workspace workspace, kernels::cuda::Stream stream) const {
    require(workspace.size() >= model_workspace_bytes, "the library gets the workspace it wants");
    cuda_emulation::enqueue(stream, [=, *this] {
      std::memset(workspace.data(), 0xFF, model_workspace_bytes);
      compute(a, b, out, memory);
    });
  }
};

}  // namespace

kernels::cuda::PrepareMultiply model_of_cublaslt(Epilogues epilogues) {
  return [=](const kernels::Problem& problem,
             Epilogue epilogue) -> std::optional<kernels::cuda::Multiply> {
    if (epilogues == Epilogues::none && epilogue != Epilogue::none) return std::nullopt;
    const auto& contract = problem.op.get<op::Contract>();
    return Product{kernels::contract_sizes(contract, problem.shapes), problem.dtype,
                   op::element_dtype(contract.operands()[2].element, problem.dtype),
                   contract.accumulate, epilogue};
  };
}

}  // namespace fourfold::test
