// Reference convolution and its gradients; op::Convolution ... op::ConvolutionWeightGradient say
// what they compute. Letters as in op/pictures.h.
#include "kernels/picture_sizes.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// Where the elements of x (B,H,W,C), weight (O,I,J,C) and y (B,P,Q,O) lie.
struct Places {
  ConvolutionSizes sizes;

  std::size_t x(std::int64_t b, std::int64_t h, std::int64_t w, std::int64_t c) const {
    return at(((b * sizes.height + h) * sizes.width + w) * sizes.channels + c);
  }
  std::size_t weight(std::int64_t o, std::int64_t i, std::int64_t j, std::int64_t c) const {
    return at(((o * sizes.kernel_height + i) * sizes.kernel_width + j) * sizes.channels + c);
  }
  std::size_t y(std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t o) const {
    return at(((b * sizes.rows + p) * sizes.columns + q) * sizes.outputs + o);
  }

  /// body(i, j, h, w) for the taps of the kernel that lie within the picture at (p, q).
  template <class Body>
  void for_taps(std::int64_t p, std::int64_t q, Body body) const {
    for (std::int64_t i = 0; i < sizes.kernel_height; ++i)
      for (std::int64_t j = 0; j < sizes.kernel_width; ++j) {
        const std::int64_t h = p * sizes.stride + i - sizes.padding,
                           w = q * sizes.stride + j - sizes.padding;
        if (h >= 0 && h < sizes.height && w >= 0 && w < sizes.width) body(i, j, h, w);
      }
  }
  /// body(b, p, q) for all places of y.
  template <class Body>
  void for_places(Body body) const {
    for (std::int64_t b = 0; b < sizes.samples; ++b)
      for (std::int64_t p = 0; p < sizes.rows; ++p)
        for (std::int64_t q = 0; q < sizes.columns; ++q) body(b, p, q);
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
};

template <class T>
void convolution(const T* x_BHWC, const T* weight_OIJC, const Places& of, T* y_BPQO) {
  of.for_places([&](std::int64_t b, std::int64_t p, std::int64_t q) {
    for (std::int64_t o = 0; o < of.sizes.outputs; ++o) {
      Sum<T> sum = 0;
      of.for_taps(p, q, [&](std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t w) {
        for (std::int64_t c = 0; c < of.sizes.channels; ++c)
          sum += static_cast<Sum<T>>(x_BHWC[of.x(b, h, w, c)]) *
                 static_cast<Sum<T>>(weight_OIJC[of.weight(o, i, j, c)]);
      });
      y_BPQO[of.y(b, p, q, o)] = static_cast<T>(sum);
    }
  });
}

/// The element of y along a dim to which tap `tap` of the kernel brings element `index` of x; -1:
/// none.
std::int64_t place_of(std::int64_t index, std::int64_t tap, std::int64_t places,
                      const ConvolutionSizes& sizes) {
  const std::int64_t scaled = index + sizes.padding - tap;
  if (scaled < 0 || scaled % sizes.stride != 0 || scaled / sizes.stride >= places) return -1;
  return scaled / sizes.stride;
}

template <class T>
Sum<T> x_gradient(const T* y_grad_BPQO, const T* weight_OIJC, const Places& of, std::int64_t b,
                  std::int64_t h, std::int64_t w, std::int64_t c) {
  Sum<T> sum = 0;
  for (std::int64_t i = 0; i < of.sizes.kernel_height; ++i)
    for (std::int64_t j = 0; j < of.sizes.kernel_width; ++j) {
      const std::int64_t p = place_of(h, i, of.sizes.rows, of.sizes),
                         q = place_of(w, j, of.sizes.columns, of.sizes);
      if (p < 0 || q < 0) continue;
      for (std::int64_t o = 0; o < of.sizes.outputs; ++o)
        sum += static_cast<Sum<T>>(y_grad_BPQO[of.y(b, p, q, o)]) *
               static_cast<Sum<T>>(weight_OIJC[of.weight(o, i, j, c)]);
    }
  return sum;
}

template <class T>
void convolution_gradient(const T* y_grad_BPQO, const T* weight_OIJC, const Places& of,
                          T* x_grad_BHWC) {
  for (std::int64_t b = 0; b < of.sizes.samples; ++b)
    for (std::int64_t h = 0; h < of.sizes.height; ++h)
      for (std::int64_t w = 0; w < of.sizes.width; ++w)
        for (std::int64_t c = 0; c < of.sizes.channels; ++c)
          x_grad_BHWC[of.x(b, h, w, c)] =
              static_cast<T>(x_gradient(y_grad_BPQO, weight_OIJC, of, b, h, w, c));
}

template <class T, class Out>
void convolution_weight_gradient(const T* x_BHWC, const T* y_grad_BPQO, const Places& of,
                                 bool accumulate, Out* weight_grad_OIJC) {
  for (std::int64_t o = 0; o < of.sizes.outputs; ++o)
    for (std::int64_t i = 0; i < of.sizes.kernel_height; ++i)
      for (std::int64_t j = 0; j < of.sizes.kernel_width; ++j)
        for (std::int64_t c = 0; c < of.sizes.channels; ++c) {
          Sum<T> sum = 0;
          of.for_places([&](std::int64_t b, std::int64_t p, std::int64_t q) {
            const std::int64_t h = p * of.sizes.stride + i - of.sizes.padding,
                               w = q * of.sizes.stride + j - of.sizes.padding;
            if (h < 0 || h >= of.sizes.height || w < 0 || w >= of.sizes.width) return;
            sum += static_cast<Sum<T>>(y_grad_BPQO[of.y(b, p, q, o)]) *
                   static_cast<Sum<T>>(x_BHWC[of.x(b, h, w, c)]);
          });
          Out& out = weight_grad_OIJC[of.weight(o, i, j, c)];
          out = static_cast<Out>(accumulate ? static_cast<Sum<T>>(out) + sum : sum);
        }
}

}  // namespace

Run prepare_row(const op::Convolution& op, const Problem& problem) {
  const Places places{convolution_sizes(op, problem.shapes)};
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [places](Tensors operands, Workspace) {
      convolution<T>(operands[0].as<T>(), operands[1].as<T>(), places, operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::ConvolutionGradient& op, const Problem& problem) {
  const Places places{convolution_sizes(op, problem.shapes)};
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [places](Tensors operands, Workspace) {
      convolution_gradient<T>(operands[0].as<T>(), operands[1].as<T>(), places,
                              operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::ConvolutionWeightGradient& op, const Problem& problem) {
  const Places places{convolution_sizes(op, problem.shapes)};
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Run {
      return [places, accumulate = op.accumulate](Tensors operands, Workspace) {
        convolution_weight_gradient<T>(operands[0].as<T>(), operands[1].as<T>(), places, accumulate,
                                       operands[2].as<Out>());
      };
    });
  });
}

}  // namespace fourfold::kernels::reference
