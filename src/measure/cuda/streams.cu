#include "measure/cuda/streams.h"

#include "kernels/cuda/map.cuh"

namespace fourfold::measure::cuda {
namespace {

using namespace kernels::cuda;  // the vocabulary of kernels

/// MurmurHash3's finalizer (Appleby, public domain): every bit of the index moves every bit.
__device__ std::uint32_t scrambled(std::uint32_t bits) {
  bits ^= bits >> 16;
  bits *= 0x85ebca6bU;
  bits ^= bits >> 13;
  bits *= 0xc2b2ae35U;
  return bits ^ bits >> 16;
}

/// Numbers between `least` and 1.
struct Random {
  float least;

  template <int inputs, int size>
  __device__ void operator()(std::int64_t first, float (&)[inputs][size],
                             float (&out)[1][size]) const {
    const float unit = (1 - least) / 4294967296.F;
    for (int i = 0; i < size; ++i)
      out[0][i] =
          static_cast<float>(scrambled(static_cast<std::uint32_t>(first + i) + 1U)) * unit + least;
  }
};

struct Copy {
  template <int size>
  __device__ void operator()(std::int64_t, float (&in)[1][size], float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) out[0][i] = in[0][i];
  }
};

struct Triad {
  float scale;
  template <int size>
  __device__ void operator()(std::int64_t, float (&in)[2][size], float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) out[0][i] = in[0][i] + scale * in[1][i];
  }
};

}  // namespace

void fill_random(std::byte* at, std::int64_t elements, DType dtype, float least, Stream stream) {
  for_element(dtype, [&]<class T>(kernels::As<T>) -> Enqueue {
    T* const to = reinterpret_cast<T*>(at);
    // Maps have an input; nothing of it is used.
    enqueue_map(map_tensors<T>(elements, {to}, {to}), Random{least}, stream);
    return {};
  });
}

void copy(const float* from, std::int64_t elements, float* to, Stream stream) {
  enqueue_map(map_tensors<float>(elements, {from}, {to}), Copy{}, stream);
}

void triad(const float* b, const float* c, float scale, std::int64_t elements, float* a,
           Stream stream) {
  enqueue_map(map_tensors<float>(elements, {b, c}, {a}), Triad{scale}, stream);
}

}  // namespace fourfold::measure::cuda
