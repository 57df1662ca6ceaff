// Loops over tensors (B, ..., C) in which each thread keeps its sample and its channels, so that it
// divides once and not for each element: maps, and sums over the pixels of a sample.
//
// Threads of a block that lie side by side have packs of channels that lie side by side; a block
// has several pixels at once, of one stretch of the pixels of one sample. Sums have two stages:
// what blocks have summed over their stretches is added in order by a second launch.
#pragma once

#include <algorithm>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/pixels.h"

namespace fourfold::kernels::cuda {

inline constexpr unsigned pixel_threads = 256;

/// How a tensor is cut into blocks; depends on its shape and type alone.
struct PixelBlocks {
  PixelSizes sizes;
  unsigned packs = 1;      // side by side in a block
  unsigned rows = 1;       // pixels at once
  unsigned columns = 1;    // blocks side by side
  unsigned stretches = 1;  // of the pixels of a sample

  std::int64_t count() const {
    return sizes.samples * static_cast<std::int64_t>(stretches) * columns;
  }
  LaunchShape launch_shape() const {
    LaunchShape shape;
    shape.blocks_x = sizes.elements() == 0 ? 0 : static_cast<unsigned>(count());
    shape.threads = pixel_threads;
    return shape;
  }
  /// Numbers of all stretches: `sums` for each channel of each sample.
  std::int64_t numbers(int sums) const {
    return sums * static_cast<std::int64_t>(stretches) * sizes.samples * sizes.channels;
  }
};

inline PixelBlocks pixel_blocks(const PixelSizes& sizes, int pack) {
  // Eight blocks for each multiprocessor of a large GPU, four pixels or more for each thread.
  constexpr std::int64_t wanted_blocks = 1056, least_pixels = 4;
  PixelBlocks blocks{.sizes = sizes};
  const std::int64_t packs = std::max<std::int64_t>(1, ceil_divide(sizes.channels, pack));
  blocks.columns = static_cast<unsigned>(ceil_divide(packs, pixel_threads));
  blocks.packs = static_cast<unsigned>(ceil_divide(packs, blocks.columns));
  blocks.rows = pixel_threads / blocks.packs;
  const std::int64_t wide = std::max<std::int64_t>(1, sizes.samples * blocks.columns);
  blocks.stretches = static_cast<unsigned>(std::clamp<std::int64_t>(
      std::min(ceil_divide(wanted_blocks, wide), sizes.pixels / (least_pixels * blocks.rows)), 1,
      1024));
  return blocks;
}
template <class T>
PixelBlocks pixel_blocks(const PixelSizes& sizes) {
  return pixel_blocks(sizes, pack_size<T>);
}
inline PixelBlocks pixel_blocks(const PixelSizes& sizes, DType dtype) {
  return pixel_blocks(sizes, 16 / static_cast<int>(size_bytes(dtype)));
}

/// What the running thread has: a pack of channels of every `rows`th pixel.
template <class T>
struct OwnPixels {
  unsigned sample, stretch, row;
  int channel, count;  // of the pack: its first channel, and how many are there; 0: no work
  std::int64_t pixel, end, element, step;

  __device__ explicit OwnPixels(const PixelBlocks& of) {
    const unsigned column = blockIdx.x % of.columns, rest = blockIdx.x / of.columns;
    stretch = rest % of.stretches;
    sample = rest / of.stretches;
    row = threadIdx.x / of.packs;
    const unsigned pack = column * of.packs + threadIdx.x % of.packs;
    channel = static_cast<int>(pack) * pack_size<T>;
    const std::int64_t left = of.sizes.channels - channel;
    count = row >= of.rows || left <= 0 ? 0
            : left < pack_size<T>       ? static_cast<int>(left)
                                        : pack_size<T>;
    pixel = of.sizes.pixels * stretch / of.stretches + row;
    end = count == 0 ? pixel : of.sizes.pixels * (stretch + 1) / of.stretches;
    element = (sample * of.sizes.pixels + pixel) * of.sizes.channels + channel;
    step = of.rows * of.sizes.channels;
  }
};

/// Goes over the pixels of the running thread: visitor.load(element, part) for `ahead` of them,
/// then visitor.take(element, loaded, part) for each. An output may lie where an input of the same
/// element does.
template <int ahead, class T, class Visitor, class Part>
__device__ void go_over_pixels(OwnPixels<T> of, const PixelBlocks& blocks, Visitor& visitor,
                               Part part) {
  const auto rows = static_cast<std::int64_t>(blocks.rows);
  for (; of.pixel + (ahead - 1) * rows < of.end; of.pixel += ahead * rows) {
    typename Visitor::Loaded loaded[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) loaded[i] = visitor.load(of.element + i * of.step, part);
#pragma unroll
    for (int i = 0; i < ahead; ++i) visitor.take(of.element + i * of.step, loaded[i], part);
    of.element += ahead * of.step;
  }
  for (; of.pixel < of.end; of.pixel += rows, of.element += of.step)
    visitor.take(of.element, visitor.load(of.element, part), part);
}
template <int ahead, class T, class Visitor>
__device__ void go_over_pixels(const OwnPixels<T>& of, const PixelBlocks& blocks, bool aligned,
                               Visitor& visitor) {
  if (aligned)
    go_over_pixels<ahead>(of, blocks, visitor, WholePack{of.count > 0});
  else
    go_over_pixels<ahead>(of, blocks, visitor, PackPart{of.count, false});
}

/// True if all packs of a tensor of these sizes are whole where it begins at a multiple of 16
/// bytes.
template <class T, class... Pointers>
bool are_whole_packs(const PixelSizes& sizes, Pointers... pointers) {
  return sizes.channels % pack_size<T> == 0 && are_aligned(pointers...);
}

// --- maps

template <class T, int inputs>
struct PixelMapTensors {
  const T* in[inputs];
  T* out;
};

/// Visitor of a map with `inputs`: body.channels(sample, channel, count) is what a thread keeps of
/// its pack of channels; body.compute(kept, element, in, out) makes out[i] from in[.][i], `element`
/// being the number of the first.
template <class T, int inputs, class Body>
struct MapVisitor {
  struct Loaded {
    PackOf<T, T> in[inputs];
  };
  const Body& body;
  typename Body::Channels kept;
  PixelMapTensors<T, inputs> tensors;

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    Loaded loaded;
#pragma unroll
    for (int input = 0; input < inputs; ++input)
      loaded.in[input] = load_packs<T>(tensors.in[input] + element, part);
    return loaded;
  }
  template <class Part>
  __device__ void take(std::int64_t element, const Loaded& of, Part part) const {
    float in[inputs][pack_size<T>], out[pack_size<T>];
#pragma unroll
    for (int input = 0; input < inputs; ++input)
#pragma unroll
      for (int i = 0; i < pack_size<T>; ++i) in[input][i] = of.in[input][i];
    body.compute(kept, element, in, out);
    store_packs<T>(out, part, tensors.out + element);
  }
};

template <class T, int inputs, class Body>
__global__ void __launch_bounds__(pixel_threads)
    map_pixels(PixelBlocks blocks, bool aligned, PixelMapTensors<T, inputs> tensors, Body body) {
  begin_kernel();
  const OwnPixels<T> own(blocks);
  if (own.count == 0) return;
  MapVisitor<T, inputs, Body> visitor{body, body.channels(own.sample, own.channel, own.count),
                                      tensors};
  go_over_pixels<4>(own, blocks, aligned, visitor);
}

template <class T, int inputs, class Body>
void enqueue_pixel_map(const PixelSizes& sizes, const T* const (&in)[inputs], T* out,
                       const Body& body, Stream stream) {
  const PixelBlocks blocks = pixel_blocks<T>(sizes);
  PixelMapTensors<T, inputs> tensors{{}, out};
  bool aligned = are_whole_packs<T>(sizes, out);
  for (int i = 0; i < inputs; ++i) {
    tensors.in[i] = in[i];
    aligned = aligned && are_aligned(in[i]);
  }
  launch(map_pixels<T, inputs, Body>, blocks.launch_shape(), stream, blocks, aligned, tensors,
         body);
}

// --- sums

/// Adds up what the threads of a block have for its channels, in order of their rows, and gives
/// each(channel, totals) for each of its channels, threads sharing them. All threads of a block
/// must call it; they have met at a barrier when it returns.
template <int sums, class T, class Each>
__device__ void add_up_rows(const OwnPixels<T>& own, const PixelBlocks& blocks,
                            const float (&of_thread)[sums][pack_size<T>], Each each) {
  constexpr int size = pack_size<T>;
  __shared__ float of_rows[sums][pixel_threads * size];
  const int columns = static_cast<int>(blocks.packs) * size;
  const int first = own.channel - static_cast<int>(threadIdx.x % blocks.packs) * size;
  if (own.row < blocks.rows) {
    const int place =
        static_cast<int>(own.row) * columns + static_cast<int>(threadIdx.x % blocks.packs) * size;
#pragma unroll
    for (int sum = 0; sum < sums; ++sum)
#pragma unroll
      for (int i = 0; i < size; ++i) of_rows[sum][place + i] = of_thread[sum][i];
  }
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < columns; j += static_cast<int>(pixel_threads))
    if (first + j < blocks.sizes.channels) {
      float totals[sums];
#pragma unroll
      for (int sum = 0; sum < sums; ++sum) {
        totals[sum] = 0;
        for (unsigned row = 0; row < blocks.rows; ++row)
          totals[sum] += of_rows[sum][static_cast<int>(row) * columns + j];
      }
      each(first + j, totals);
    }
  __syncthreads();
}

/// Where numbers of stretches lie: numbers[sum][stretch][sample][channel].
struct StretchNumbers {
  float* numbers;
  unsigned stretches;
  std::int64_t samples, channels;

  StretchNumbers() = default;
  StretchNumbers(const PixelBlocks& of, Workspace workspace)
      : numbers(reinterpret_cast<float*>(workspace.data())),
        stretches(of.stretches),
        samples(of.sizes.samples),
        channels(of.sizes.channels) {}
  __device__ float& at(int sum, unsigned stretch, std::int64_t sample, std::int64_t channel) const {
    return numbers[((static_cast<std::int64_t>(sum) * stretches + stretch) * samples + sample) *
                       channels +
                   channel];
  }
  /// A sum over all stretches, in their order.
  __device__ float total(int sum, std::int64_t sample, std::int64_t channel) const {
    float total = 0;
    for (unsigned stretch = 0; stretch < stretches; ++stretch)
      total += at(sum, stretch, sample, channel);
    return total;
  }
};

/// Visitor that sums terms: terms.load(element, part) as in go_over_pixels; terms.add(kept, loaded,
/// element, part, sum) adds those of a pack.
template <class Terms>
struct SumVisitor {
  using Element = typename Terms::Element;
  using Loaded = typename Terms::Loaded;
  const Terms& terms;
  typename Terms::Channels kept;
  float sum[Terms::sums][pack_size<Element>];

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    return terms.load(element, part);
  }
  template <class Part>
  __device__ void take(std::int64_t element, const Loaded& loaded, Part part) {
    terms.add(kept, loaded, element, part, sum);
  }
};

template <class Terms>
__global__ void __launch_bounds__(pixel_threads)
    sum_pixels(PixelBlocks blocks, bool aligned, Terms terms, StretchNumbers numbers) {
  begin_kernel();
  using T = typename Terms::Element;
  const OwnPixels<T> own(blocks);
  SumVisitor<Terms> visitor{terms, {}, {}};
  if (own.count > 0) {
    visitor.kept = terms.channels(own.sample, own.channel, own.count);
    go_over_pixels<Terms::ahead>(own, blocks, aligned, visitor);
  }
  add_up_rows<Terms::sums>(own, blocks, visitor.sum,
                           [&](int channel, const float(&totals)[Terms::sums]) {
                             for (int sum = 0; sum < Terms::sums; ++sum)
                               numbers.at(sum, own.stretch, own.sample, channel) = totals[sum];
                           });
}

template <class Terms>
void enqueue_pixel_sums(const PixelBlocks& blocks, const Terms& terms, Workspace workspace,
                        Stream stream) {
  launch(sum_pixels<Terms>, blocks.launch_shape(), stream, blocks, terms.are_whole(blocks.sizes),
         terms, StretchNumbers(blocks, workspace));
}

/// Bytes of workspace for so many sums over the pixels of each channel of each sample.
inline std::int64_t bytes_of_pixel_sums(const PixelSizes& sizes, DType dtype, int sums) {
  return pixel_blocks(sizes, dtype).numbers(sums) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace fourfold::kernels::cuda
