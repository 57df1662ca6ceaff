// Convolution and its gradients on the device; op::Convolution ... op::ConvolutionWeightGradient
// say what they compute. Products with a matrix of patches (picture_sizes.h) that is never written
// out: tiles of it are gathered in shared memory.
#include <algorithm>

#include "kernels/cuda/patch_tiles.cuh"

namespace fourfold::kernels::cuda {
namespace {

/// Into how many stretches the places are cut that the gradient of a weight sums over: enough
/// blocks for a large GPU, at least 256 places in each.
std::int64_t stretches_of(const ConvolutionSizes& sizes) {
  constexpr std::int64_t wanted_blocks = 528, least_places = 256;
  const std::int64_t elements = sizes.taps() * sizes.channels;
  const std::int64_t blocks = std::max<std::int64_t>(
      ceil_divide(sizes.outputs, product_rows) * ceil_divide(elements, product_columns), 1);
  return std::clamp<std::int64_t>(
      std::min(ceil_divide(wanted_blocks, blocks), sizes.places() / least_places), 1, 1024);
}

}  // namespace

std::int64_t workspace_bytes(const op::ConvolutionWeightGradient& op, const Problem& problem) {
  const std::int64_t stretches = stretches_of(convolution_sizes(op, problem.shapes));
  if (stretches == 1) return 0;
  const std::int64_t bytes =
      stretches * problem.shapes[2].elements() * static_cast<std::int64_t>(sizeof(float));
  return ceil_divide(bytes, 16) * 16;
}

Enqueue prepare_with_bias(const op::Convolution& op, const Problem& product,
                          const ProductPlaces& places) {
  const ConvolutionSizes sizes = convolution_sizes(op, product.shapes);
  const Patches patches = patches_of_x(sizes);
  return for_element(product.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, patches, places](Tensors operands, Workspace, Stream stream) {
      const std::int64_t depth = patches.elements();
      enqueue_product<T>(
          PatchRows<T, false>(operands[places.first].as<T>(), patches, sizes.places()),
          StoredMatrix<T, Contiguous::inner>{operands[places.second].as<T>(), sizes.outputs, depth,
                                             depth},
          ProductOutput<T>{operands[places.out].as<T>(), false,
                           places.bias ? operands[*places.bias].as<T>() : nullptr},
          stream);
    };
  });
}

Enqueue prepare_row(const op::Convolution& op, const Problem& problem) {
  return prepare_with_bias(op, problem, {});
}

Enqueue prepare_row(const op::ConvolutionGradient& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  const Patches patches = patches_of_y_grad(sizes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, patches](Tensors operands, Workspace, Stream stream) {
      enqueue_product<T>(PatchRows<T, true>(operands[0].as<T>(), patches, sizes.pixels()),
                         WeightOfTaps<T>{operands[1].as<T>(), small(sizes.taps()),
                                         small(sizes.outputs), sizes.channels, patches.elements()},
                         ProductOutput<T>{operands[2].as<T>()}, stream);
    };
  });
}

Enqueue prepare_row(const op::ConvolutionWeightGradient& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  const Patches patches = patches_of_x(sizes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Enqueue {
      return [sizes, patches, stretches = stretches_of(sizes), accumulate = op.accumulate](
                 Tensors operands, Workspace workspace, Stream stream) {
        enqueue_product_in_stretches<T>(
            StoredMatrix<T, Contiguous::index>{operands[1].as<T>(), sizes.outputs, sizes.places(),
                                               sizes.outputs},
            PatchColumns<T>(operands[0].as<T>(), patches, sizes.places()), stretches, accumulate,
            operands[2].as<Out>(), workspace, stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
