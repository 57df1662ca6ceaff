// Tensors (B, ..., C) on the device: loops over elements that know their sample and channel, and
// sums over the pixels of a channel. Neighbouring lanes have neighbouring channels.
#pragma once

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/pixels.h"

namespace fourfold::kernels::cuda {

/// Calls body(index) for the elements of the running thread.
template <class Body>
__device__ void for_own_elements(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       index < count; index += step)
    body(index);
}

/// Walks along consecutive elements.
struct PixelWalk {
  PixelSizes sizes;
  std::int64_t element, sample, channel;
  __device__ PixelWalk(const PixelSizes& of, std::int64_t first)
      : sizes(of), element(first), sample(of.sample_of(first)), channel(first % of.channels) {}
  __device__ bool is_there() const { return element < sizes.elements(); }
  __device__ void step() {
    ++element;
    if (++channel < sizes.channels) return;
    channel = 0;
    sample = sizes.sample_of(element);
  }
};

/// A map whose elements know their place: body(sample, channel, values of the inputs) is a value of
/// the output.
template <int inputs, class Body>
struct PixelBody {
  PixelSizes sizes;
  Body body;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[inputs][size],
                             float (&out)[1][size]) const {
    PixelWalk at(sizes, first);
    for (int i = 0; i < size && at.is_there(); ++i, at.step()) {
      float values[inputs];
      for (int input = 0; input < inputs; ++input) values[input] = in[input][i];
      out[0][i] = body(at.sample, at.channel, values);
    }
  }
};
template <class T, int inputs, class Body>
void enqueue_pixel_map(const PixelSizes& sizes, const void* const (&in)[inputs], T* out,
                       const Body& body, Stream stream) {
  enqueue_map(map_tensors<T>(sizes.elements(), in, {out}), PixelBody<inputs, Body>{sizes, body},
              stream);
}

inline constexpr int pixels_at_once = 8;  // warps of a block, each on a pixel of its own

/// The channel of a thread in a block of sum_over_pixels.
struct ChannelOfLane {
  std::int64_t sample, channel;
  __device__ explicit ChannelOfLane(const PixelSizes& sizes) {
    const std::int64_t blocks = (sizes.channels + warp_lanes - 1) / warp_lanes;
    sample = static_cast<std::int64_t>(blockIdx.x) / blocks;
    channel = static_cast<std::int64_t>(blockIdx.x) % blocks * warp_lanes + lane_index();
  }
};
inline LaunchShape channels_launch(const PixelSizes& sizes) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(sizes.samples * ceil_divide(sizes.channels, warp_lanes));
  shape.threads = warp_lanes * pixels_at_once;
  return shape;
}

/// sum[i] = the sums over the pixels of the channel of each lane, the same in all warps.
/// term(element, sum) adds an element to each of them. All threads of a block must call it.
template <int sums, class Term>
__device__ void sum_over_pixels(const PixelSizes& sizes, const ChannelOfLane& of, Term term,
                                float (&sum)[sums]) {
  __shared__ float of_warps[sums][pixels_at_once][warp_lanes];
  for (int i = 0; i < sums; ++i) sum[i] = 0;
  if (of.channel < sizes.channels)
    for (std::int64_t pixel = warp_index(); pixel < sizes.pixels; pixel += pixels_at_once)
      term((of.sample * sizes.pixels + pixel) * sizes.channels + of.channel, sum);
  for (int i = 0; i < sums; ++i) of_warps[i][warp_index()][lane_index()] = sum[i];
  __syncthreads();
  for (int i = 0; i < sums; ++i) {
    sum[i] = of_warps[i][0][lane_index()];
    for (int warp = 1; warp < pixels_at_once; ++warp) sum[i] += of_warps[i][warp][lane_index()];
  }
  __syncthreads();
}

}  // namespace fourfold::kernels::cuda
