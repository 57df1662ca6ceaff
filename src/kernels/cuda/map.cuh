// Loops over elements: each output element from the input elements at the same place. An output may
// lie where an input lies.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"

namespace fourfold::kernels::cuda {

/// The tensors of a map, all of `count` elements: of T, but of float where `wide` has the bit of
/// their number, outputs after inputs.
template <class T, int inputs, int outputs, unsigned wide = 0>
struct MapTensors {
  std::int64_t count;
  bool aligned;
  const void* in[inputs];
  void* out[outputs];
};

inline constexpr unsigned map_threads = 256;

/// body(first, in, out) computes pack_size elements from index `first` on, out[o][i] from in[.][i];
/// what lies after the last element is 0 going in and ignored coming out.
template <class T, int inputs, int outputs, unsigned wide, class Body>
__global__ void map_elements(MapTensors<T, inputs, outputs, wide> tensors, Body body) {
  begin_kernel();
  constexpr int size = pack_size<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * size;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * size;
  for (; first < tensors.count; first += step) {
    const std::int64_t count = tensors.count - first;
    const bool whole = tensors.aligned && count >= size;
    float in[inputs][size], out[outputs][size];
#pragma unroll
    for (int i = 0; i < inputs; ++i) {
      if ((wide >> i & 1U) != 0)
        load_pack_of<T>(static_cast<const float*>(tensors.in[i]) + first, whole, count, in[i]);
      else
        load_pack<T>(static_cast<const T*>(tensors.in[i]) + first, whole, count, in[i]);
    }
    body(first, in, out);
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      if ((wide >> (inputs + o) & 1U) != 0)
        store_pack_of<T>(out[o], whole, count, static_cast<float*>(tensors.out[o]) + first);
      else
        store_pack<T>(out[o], whole, count, static_cast<T*>(tensors.out[o]) + first);
    }
  }
}

template <class T, int inputs, int outputs, unsigned wide, class Body>
void enqueue_map(const MapTensors<T, inputs, outputs, wide>& tensors, const Body& body,
                 Stream stream) {
  launch(map_elements<T, inputs, outputs, wide, Body>,
         stepping_launch(tensors.count, map_threads, map_threads * pack_size<T>), stream, tensors,
         body);
}

/// Names the tensors of a map: map_tensors<T>(count, {x, y}, {out}), of which those that `wide`
/// names are of float.
template <class T, unsigned wide = 0, int inputs, int outputs>
MapTensors<T, inputs, outputs, wide> map_tensors(std::int64_t count,
                                                 const void* const (&in)[inputs],
                                                 void* const (&out)[outputs]) {
  MapTensors<T, inputs, outputs, wide> tensors{count, true, {}, {}};
  for (int i = 0; i < inputs; ++i) {
    tensors.in[i] = in[i];
    tensors.aligned = tensors.aligned && are_aligned(in[i]);
  }
  for (int o = 0; o < outputs; ++o) {
    tensors.out[o] = out[o];
    tensors.aligned = tensors.aligned && are_aligned(out[o]);
  }
  return tensors;
}

}  // namespace fourfold::kernels::cuda
