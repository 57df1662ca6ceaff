#include "support/model_convolution.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/fused_product.h"
#include "kernels/cuda/library_workspace.h"
#include "support/cuda_emulation/emulation.h"

namespace fourfold::test {
namespace {

using kernels::ConvolutionSizes;
using kernels::cuda::ConvolutionForm;
using Kind = ConvolutionForm::Kind;

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

/// Calls visit(x, weight, y) with the elements of each product of the sums of a convolution.
template <class Visit>
void for_each_product(const ConvolutionSizes& s, Visit visit) {
  for (std::int64_t place = 0; place < s.places(); ++place) {
    const std::int64_t sample = place / (s.rows * s.columns), row = place / s.columns % s.rows,
                       column = place % s.columns;
    for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
      const std::int64_t h = row * s.stride + tap / s.kernel_width - s.padding,
                         w = column * s.stride + tap % s.kernel_width - s.padding;
      if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
      for (std::int64_t o = 0; o < s.outputs; ++o)
        for (std::int64_t c = 0; c < s.channels; ++c)
          visit(((sample * s.height + h) * s.width + w) * s.channels + c,
                (o * s.taps() + tap) * s.channels + c, place * s.outputs + o);
    }
  }
}

struct Model {
  ConvolutionForm form;

  std::size_t elements_of_out() const {
    const ConvolutionSizes& s = form.sizes;
    return static_cast<std::size_t>(form.kind == Kind::forward ? s.places() * s.outputs
                                    : form.kind == Kind::x_gradient
                                        ? s.pixels() * s.channels
                                        : s.outputs * s.taps() * s.channels);
  }
  void compute(const void* first, const void* second, const void* bias, void* out) const {
    std::vector<double> sums(elements_of_out());
    for_each_product(form.sizes, [&](std::int64_t x, std::int64_t weight, std::int64_t y) {
      const std::int64_t to = form.kind == Kind::forward      ? y
                              : form.kind == Kind::x_gradient ? x
                                                              : weight;
      const std::int64_t of_first = form.kind == Kind::x_gradient ? y : x,
                         of_second = form.kind == Kind::weight_gradient ? y : weight;
      sums[static_cast<std::size_t>(to)] +=
          read(first, form.in, of_first) * read(second, form.in, of_second);
    });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      const double added = form.adds_bias ? read(bias, form.in, index % form.sizes.outputs) : 0;
      write(out, form.out, index, sums[i] + added);
    }
  }

  void operator()(const void* first, const void* second, const void* bias, void* out,
                  kernels::Workspace workspace, kernels::cuda::Stream stream) const {
    require(workspace.size() >= model_convolution_bytes, "the library gets what it wants");
    require(
        reinterpret_cast<std::uintptr_t>(workspace.data()) % kernels::cuda::library_alignment == 0,
        "the library's workspace is aligned");
    require((bias != nullptr) == form.adds_bias, "a bias is there where it is added");
    cuda_emulation::enqueue(stream, [=, *this] {
      std::memset(workspace.data(), 0xFF, model_convolution_bytes);
      compute(first, second, bias, out);
    });
  }
};

}  // namespace

kernels::cuda::FindConvolution model_of_convolutions(const ModelledConvolutions& which) {
  return [which](const ConvolutionForm& form) -> std::optional<kernels::cuda::LibraryConvolution> {
    if (form.adds_bias && !which.with_bias) return std::nullopt;
    if (form.in != form.out && !which.f32_of_bf16) return std::nullopt;
    return kernels::cuda::LibraryConvolution{Model{form}, model_convolution_bytes};
  };
}

}  // namespace fourfold::test
