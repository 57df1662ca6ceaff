// Convolution and its gradients on the device; op::Convolution ... op::ConvolutionWeightGradient
// say what they compute. Products with a matrix of patches (picture_sizes.h) that is never written
// out: tiles of it are gathered in shared memory.
#include <algorithm>

#include "kernels/cuda/tiled_product.cuh"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cuda {
namespace {

/// Element `element` of row `place` of a matrix of patches.
template <class T>
__device__ T patch_element(const Patches& patches, const T* pixels, std::int64_t place,
                           std::int64_t element) {
  const std::int64_t tap = element / patches.channels, channel = element % patches.channels;
  const std::int64_t pixel =
      patches.pixel(patches.place(place), tap / patches.across.taps, tap % patches.across.taps);
  return pixel < 0 ? from_float<T>(0.F) : pixels[pixel + channel];
}

/// Rows are places, sums run along a patch.
template <class T>
struct PatchRows {
  const T* pixels;
  Patches patches;
  std::int64_t count, depth;
  __device__ T at(std::int64_t index, std::int64_t inner) const {
    return index < count && inner < depth ? patch_element(patches, pixels, index, inner)
                                          : from_float<T>(0.F);
  }
  __device__ bool is_inner_contiguous() const { return true; }
};

/// Columns are elements of a patch, sums run over places.
template <class T>
struct PatchColumns {
  const T* pixels;
  Patches patches;
  std::int64_t count, depth;
  __device__ T at(std::int64_t index, std::int64_t inner) const {
    return index < count && inner < depth ? patch_element(patches, pixels, inner, index)
                                          : from_float<T>(0.F);
  }
  __device__ bool is_inner_contiguous() const { return false; }
};

/// Columns are the channels of x, sums run over (tap, o) of weight (O, taps, C).
template <class T>
struct WeightOfTaps {
  const T* weight;
  std::int64_t taps, outputs, count, depth;
  __device__ T at(std::int64_t index, std::int64_t inner) const {
    if (index >= count || inner >= depth) return from_float<T>(0.F);
    return weight[(inner % outputs * taps + inner / outputs) * count + index];
  }
  __device__ bool is_inner_contiguous() const { return false; }
};

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

Enqueue prepare_row(const op::Convolution& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  const Patches patches = patches_of_x(sizes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return
        [sizes, patches, depth = patches.elements()](Tensors operands, Workspace, Stream stream) {
          enqueue_product<T>(PatchRows<T>{operands[0].as<T>(), patches, sizes.places(), depth},
                             StoredMatrix<T>{operands[1].as<T>(), sizes.outputs, depth, depth, 1},
                             false, operands[2].as<T>(), stream);
        };
  });
}

Enqueue prepare_row(const op::ConvolutionGradient& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  const Patches patches = patches_of_y_grad(sizes);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, patches, depth = patches.elements()](Tensors operands, Workspace,
                                                        Stream stream) {
      enqueue_product<T>(
          PatchRows<T>{operands[0].as<T>(), patches, sizes.pixels(), depth},
          WeightOfTaps<T>{operands[1].as<T>(), sizes.taps(), sizes.outputs, sizes.channels, depth},
          false, operands[2].as<T>(), stream);
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
            StoredMatrix<T>{operands[1].as<T>(), sizes.outputs, 1, sizes.places(), sizes.outputs},
            PatchColumns<T>{operands[0].as<T>(), patches, patches.elements(), sizes.places()},
            stretches, accumulate, operands[2].as<Out>(), workspace, stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
