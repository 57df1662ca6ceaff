// Factors of tiled products (tiled_product.cuh) that are patches of pictures (picture_sizes.h), and
// the weight that meets them. Where a tile lies in the pictures is computed once, when a block
// begins; from tile to tile the digits of places and taps move on by sums with carries. No division
// is left in the loop over tiles.
#pragma once

#include <cstdlib>
#include <limits>

#include "kernels/cuda/tiled_product.cuh"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cuda {

/// A number as three digits, the last of which counts fastest.
struct Digits {
  int high, middle, low;
};

/// So many different middle and low digits there are.
struct Radix {
  int middle, low;

  __device__ Digits digits(std::int64_t number) const {
    const std::int64_t above = number / low, high = above / middle;
    return {static_cast<int>(high), static_cast<int>(above - high * middle),
            static_cast<int>(number - above * low)};
  }
  __device__ Digits digits(int number) const {
    const int above = number / low, high = above / middle;
    return {high, above - high * middle, number - above * low};
  }
  __device__ Digits sum(const Digits& a, const Digits& b) const {
    Digits sum{a.high + b.high, a.middle + b.middle, a.low + b.low};
    if (sum.low >= low) sum.low -= low, ++sum.middle;
    if (sum.middle >= middle) sum.middle -= middle, ++sum.high;
    return sum;
  }
  __device__ Digits next(const Digits& a) const { return sum(a, {0, 0, 1}); }
};

inline int small(std::int64_t number) {
  require(number <= std::numeric_limits<int>::max(),
          "a dim of a picture has less than 2^31 places");
  return static_cast<int>(number);
}

/// A Slide in 32 bits. `divides`: its divisor may be another than 1.
template <bool divides>
struct SmallSlide {
  int size, taps, step, direction, offset;
  // n / divisor is the upper half of n times this, plus n where the divisor is 1: exact for n below
  // 2^32 / divisor.
  unsigned reciprocal, whole, divisor;

  explicit SmallSlide(const Slide& of)
      : size(small(of.size)),
        taps(small(of.taps)),
        step(small(of.step)),
        direction(static_cast<int>(of.direction)),
        offset(static_cast<int>(of.offset)),
        reciprocal(
            of.divisor == 1 ? 0 : static_cast<unsigned>((std::int64_t{1} << 32) / of.divisor + 1)),
        whole(of.divisor == 1 ? ~0U : 0U),
        divisor(static_cast<unsigned>(small(of.divisor))) {
    require(divides || of.divisor == 1, "a slide that does not divide has the divisor 1");
    require((of.places * of.step + of.taps + std::abs(of.offset)) * of.divisor <
                std::numeric_limits<int>::max(),
            "the places of a picture are numbers that a reciprocal divides");
  }
  __device__ int first_read(int place) const { return place * step + offset; }
  /// What tap `tap` reads at the place of first_read, below 0 or not below `size` where that is
  /// nothing.
  __device__ int read_at(int first, int tap) const {
    const int scaled = first + tap * direction;
    if constexpr (!divides) return scaled;
    const auto number = static_cast<unsigned>(scaled);
    const unsigned quotient =
        static_cast<unsigned>((std::uint64_t{number} * reciprocal) >> 32) + (number & whole);
    return scaled >= 0 && quotient * divisor == number ? static_cast<int>(quotient) : -1;
  }
  __device__ bool has(int read) const {
    return static_cast<unsigned>(read) < static_cast<unsigned>(size);
  }
};

/// Pictures of T and how a kernel goes over them.
template <class T, bool divides>
struct PictureOf {
  const T* pixels;
  SmallSlide<divides> down, across;
  Radix places, elements;  // (sample, row, column) and (i, j, channel)
  std::int64_t sample_elements;

  PictureOf(const T* data, const Patches& of)
      : pixels(data),
        down(of.down),
        across(of.across),
        places{small(of.down.places), small(of.across.places)},
        elements{small(of.across.taps), small(of.channels)},
        sample_elements(of.down.size * of.across.size * of.channels) {}
  bool has_whole_packs() const { return are_aligned(pixels) && elements.low % pack_size<T> == 0; }
  /// A pack of a patch from `element` on: find(element) is where one lies, or null for a
  /// zero.
  template <class Find>
  __device__ Pack<T> gather(Digits element, Find find) const {
    Pack<T> pack;
#pragma unroll
    for (int e = 0; e < pack_size<T>; ++e, element = elements.next(element))
      if (const T* const from = find(element)) pack.set(e, *from);
    return pack;
  }
};

/// What a kernel sees at a place, tap by tap.
template <class T, bool divides>
struct PlaceInPicture {
  const T* sample;
  int row, column;  // read at the first tap

  __device__ PlaceInPicture(const PictureOf<T, divides>& of, const Digits& place)
      : sample(of.pixels + place.high * of.sample_elements),
        row(of.down.first_read(place.middle)),
        column(of.across.first_read(place.low)) {}
  /// The element (i, j, channel) of the patch; null where that is outside of the picture.
  __device__ const T* find(const PictureOf<T, divides>& of, const Digits& element) const {
    const int down = of.down.read_at(row, element.high),
              across = of.across.read_at(column, element.middle);
    if (!of.down.has(down) || !of.across.has(across)) return nullptr;
    return sample + (static_cast<std::int64_t>(down) * of.across.size + across) * of.elements.low +
           element.low;
  }
};

/// Rows are places, sums run along a patch.
template <class T, bool divides>
struct PatchRows : PictureOf<T, divides> {
  static constexpr Contiguous contiguous = Contiguous::inner;
  std::int64_t count, depth;

  PatchRows(const T* data, const Patches& patches, std::int64_t number)
      : PictureOf<T, divides>(data, patches), count(number), depth(patches.elements()) {}

  class Tiles {
    using Packs = TilePacks<T, contiguous>;
    using Place = PlaceInPicture<T, divides>;

   public:
    __device__ Tiles(const PatchRows& of, std::int64_t first, std::int64_t inner)
        : of_(of),
          tile_(of.elements.digits(product_depth<T>)),
          element_(
              of.elements.sum(of.elements.digits(inner), of.elements.digits(Packs::element()))),
          places_{place(of, first, 0), place(of, first, 1)},
          is_row_{first + Packs::line(0) < of.count, first + Packs::line(1) < of.count} {
      find();
    }
    __device__ void step() {
      element_ = of_.elements.sum(element_, tile_);
      if (element_.low < tile_.low || tile_.middle + tile_.high > 0)
        find();
      else
        for (int i = 0; i < Packs::count; ++i) at_[i] += product_depth<T>;
    }
    __device__ bool is_there(int i) const { return is_there_[i]; }
    __device__ const T* at(int i) const { return at_[i]; }
    __device__ Pack<T> gather(int i) const {
      return of_.gather(element_, [&](const Digits& element) { return find(i, element); });
    }

   private:
    __device__ static Place place(const PatchRows& of, std::int64_t first, int i) {
      return Place(of, of.places.sum(of.places.digits(first), of.places.digits(Packs::line(i))));
    }
    __device__ const T* find(int i, const Digits& element) const {
      if (!is_row_[i] || element.high >= of_.down.taps) return nullptr;
      return places_[i].find(of_, element);
    }
    __device__ void find() {
#pragma unroll
      for (int i = 0; i < Packs::count; ++i) {
        at_[i] = find(i, element_);
        is_there_[i] = at_[i] != nullptr;
      }
    }

    const PatchRows& of_;
    Digits tile_, element_;
    Place places_[2];
    bool is_row_[2], is_there_[2] = {};
    const T* at_[2] = {};
  };
};

/// Columns are elements of a patch, sums run over places.
template <class T>
struct PatchColumns : PictureOf<T, false> {
  static constexpr Contiguous contiguous = Contiguous::index;
  std::int64_t count, depth;

  PatchColumns(const T* data, const Patches& patches, std::int64_t number)
      : PictureOf<T, false>(data, patches), count(patches.elements()), depth(number) {}

  class Tiles {
    using Packs = TilePacks<T, contiguous>;

   public:
    __device__ Tiles(const PatchColumns& of, std::int64_t first, std::int64_t inner)
        : of_(of),
          element_(
              of.elements.sum(of.elements.digits(first), of.elements.digits(Packs::element()))),
          tile_(of.places.digits(product_depth<T>)),
          places_{place(of, inner, 0), place(of, inner, 1)},
          left_(of.depth - inner - Packs::line(0)) {}
    __device__ void step() {
#pragma unroll
      for (int i = 0; i < Packs::count; ++i) places_[i] = of_.places.sum(places_[i], tile_);
      left_ -= product_depth<T>;
    }
    __device__ bool is_there(int i) const { return at(i) != nullptr; }
    __device__ const T* at(int i) const { return find(i, element_); }
    __device__ Pack<T> gather(int i) const {
      return of_.gather(element_, [&](const Digits& element) { return find(i, element); });
    }

   private:
    __device__ static Digits place(const PatchColumns& of, std::int64_t inner, int i) {
      return of.places.sum(of.places.digits(inner), of.places.digits(Packs::line(i)));
    }
    __device__ const T* find(int i, const Digits& element) const {
      if (element.high >= of_.down.taps || left_ <= i * Packs::line_step) return nullptr;
      return PlaceInPicture<T, false>(of_, places_[i]).find(of_, element);
    }

    const PatchColumns& of_;
    Digits element_, tile_, places_[2];
    std::int64_t left_;
  };
};

/// Columns are the channels of x, sums run over (tap, o) of weight (O, taps, C).
template <class T>
struct WeightOfTaps {
  static constexpr Contiguous contiguous = Contiguous::index;
  const T* weight;
  int taps, outputs;
  std::int64_t count, depth;

  bool has_whole_packs() const { return are_aligned(weight) && count % pack_size<T> == 0; }

  class Tiles {
    using Packs = TilePacks<T, contiguous>;

   public:
    __device__ Tiles(const WeightOfTaps& of, std::int64_t first, std::int64_t inner)
        : of_(of), channels_left_(of.count - first - Packs::element()) {
      const int first_tap = static_cast<int>(inner / of.outputs);
      const int first_output = static_cast<int>(inner - std::int64_t{first_tap} * of.outputs);
#pragma unroll
      for (int i = 0; i < Packs::count; ++i) {
        taps_[i] = first_tap;
        outputs_[i] = first_output;
        move(i, Packs::line(i) / of.outputs, Packs::line(i) % of.outputs);
      }
      tile_taps_ = product_depth<T> / of.outputs;
      tile_outputs_ = product_depth<T> % of.outputs;
      channels_ = of.weight + first + Packs::element();
    }
    __device__ void step() {
#pragma unroll
      for (int i = 0; i < Packs::count; ++i) move(i, tile_taps_, tile_outputs_);
    }
    __device__ bool is_there(int i) const { return channels_left_ > 0 && taps_[i] < of_.taps; }
    __device__ const T* at(int i) const {
      return channels_ + (static_cast<std::int64_t>(outputs_[i]) * of_.taps + taps_[i]) * of_.count;
    }
    __device__ Pack<T> gather(int i) const {
      return is_there(i) ? first_of_pack(at(i), channels_left_) : Pack<T>();
    }

   private:
    __device__ void move(int i, int taps, int outputs) {
      taps_[i] += taps;
      outputs_[i] += outputs;
      if (outputs_[i] >= of_.outputs) outputs_[i] -= of_.outputs, ++taps_[i];
    }

    const WeightOfTaps& of_;
    const T* channels_;
    std::int64_t channels_left_;
    int taps_[2], outputs_[2], tile_taps_, tile_outputs_;
  };
};

}  // namespace fourfold::kernels::cuda
