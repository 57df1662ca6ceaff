// What attention and its gradient share: where a head lies in qkv, blocks of queries, packing,
// softmax. B batch, T time, H heads, D head width. A unit is a head of a sample, and a group of
// units shares its keys and values. A block of queries meets the keys that it sees:
// of causal attention those from the beginning of its first document up to its own last one, so
// that only the lower triangle of each document's scores, widened to blocks, is ever touched.
// Scores have a row for each key and a lane for each query of the block, so that a softmax needs no
// sum across the lanes of a register. What is packed has the type of sums, whatever it is stored
// as.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/fetch.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/document_starts.h"
#include "kernels/dropout_mask.h"
#include "kernels/kernel.h"
#include "kernels/qkv_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {

/// Queries worked on at once: eight register tiles with AVX2, four with AVX-512. Half as many are 2
/// % slower forward and 5 % backward at T = 256; more gain nothing and need more scratch.
inline constexpr std::int64_t query_block = 48;
static_assert(query_block % tile_rows == 0);

struct AttentionSizes : QkvSizes {
  using QkvSizes::QkvSizes;

  std::int64_t units() const { return batch * heads; }
  std::int64_t unit_groups() const { return batch * groups; }
  std::int64_t qkv_stride() const { return qkv_row(); }  // from t to t + 1
  std::int64_t y_stride() const { return heads * width; }
  /// Offset of row t = 0; part 0: query, 1: key, 2: value; unit = sample * heads + head.
  std::int64_t qkv(std::int64_t unit, std::int64_t part) const {
    return unit / heads * time * qkv_row() + in_token(part, unit % heads);
  }
  std::int64_t y(std::int64_t unit) const {
    return (unit / heads * time * heads + unit % heads) * width;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  /// Multiply-adds of a product over the whole square: what decides how many threads are worth
  /// using.
  std::int64_t work() const { return units() * time * time * width / 4; }
};

/// The sizes of a problem of attention, of its gradient, or of attention that continues a text.
inline AttentionSizes attention_sizes(const Problem& problem) {
  const bool grouped = op::visit_row(
      [](const auto& row) {
        if constexpr (requires { row.grouped; })
          return row.grouped;
        else
          return false;
      },
      problem.op);
  return AttentionSizes(problem.shapes[0], grouped);
}

/// Keys of one panel of queries: [begin, end) are seen by some of them, [all_begin, all_end) by
/// all.
struct PanelKeys {
  std::int64_t begin, end, all_begin, all_end;
};

/// Rows [first, first + rows) of queries of one sample and the keys [first_key, keys) that they
/// see, or those of them that a thread takes. The scores of key s lie from s * query_block on, one
/// for each query. Register tiles leave out what lies wholly above the diagonal or wholly before
/// the documents of their queries.
struct QueryBlock {
  std::int64_t first, rows, first_key, keys;
  DocumentStarts documents;
  std::int64_t sample;
  bool causal;

  /// The first key that the block's row sees, and one beyond the last.
  std::int64_t first_key_of(std::int64_t row) const {
    return documents.first_key(sample, first + row);
  }
  std::int64_t end_key_of(std::int64_t row) const { return causal ? first + row + 1 : keys; }
  /// The keys of the panel of queries that begins with row `row`.
  template <class T>
  PanelKeys keys_of_panel(std::int64_t row) const {
    const std::int64_t last = std::min(row + panel_columns<T>, rows) - 1;
    const auto own = [this](std::int64_t key) { return std::clamp(key, first_key, keys); };
    return {own(first_key_of(row)), own(end_key_of(last)), own(first_key_of(last)),
            own(end_key_of(row))};
  }
  /// For products (keys from first_key on, queries) over the head's width: tiles without a query
  /// that sees a key are not written.
  template <class T>
  auto seen_keys(std::int64_t width) const {
    std::array<Range, ceil_divide(query_block, panel_columns<T>)> seen;  // by a panel's queries
    for (std::int64_t row = 0; row < rows; row += panel_columns<T>) {
      const PanelKeys of = keys_of_panel<T>(row);
      seen[static_cast<std::size_t>(row / panel_columns<T>)] = {of.begin - first_key,
                                                                of.end - first_key};
    }
    return [=](std::int64_t key, std::int64_t end_key, std::int64_t row) {
      const Range& of = seen[static_cast<std::size_t>(row / panel_columns<T>)];
      return Inner{0, key < of.last && end_key > of.first ? width : 0};
    };
  }
  /// For products (queries, width) over keys.
  auto over_keys() const {
    return [*this](std::int64_t row, std::int64_t end_row, std::int64_t) {
      return Inner{first_key_of(row), end_key_of(end_row - 1)};
    };
  }
  /// For products (keys from `begin` on, width) over the block's queries: from the first one, which
  /// is the key's own of causal attention, to the last that sees a key of the tile.
  auto over_queries(std::int64_t begin) const {
    return [=, *this](std::int64_t key, std::int64_t end_key, std::int64_t) {
      std::int64_t end = rows;
      while (first_key_of(end - 1) >= begin + end_key) --end;
      return Inner{causal ? std::max<std::int64_t>(0, begin + key - first) : 0, end};
    };
  }
};
inline QueryBlock query_block_at(std::int64_t first, std::int64_t time,
                                 const DocumentStarts& documents, std::int64_t sample,
                                 bool causal) {
  const std::int64_t rows = std::min(query_block, time - first);
  const std::int64_t first_key = documents.first_key(sample, first);
  return {first, rows, first_key, causal ? first + rows : time, documents, sample, causal};
}

/// The scores of a panel of queries, `row` its first, become -infinity where a query does not see a
/// key that another one of the panel sees.
template <class T>
void hide_unseen(const QueryBlock& block, std::int64_t row, const PanelKeys& keys, T* scores) {
  constexpr std::int64_t queries = panel_columns<T>;
  std::int32_t begin[queries], end[queries];
  for (std::int64_t q = 0; q < queries; ++q) {
    const std::int64_t own = std::min(row + q, block.rows - 1);
    begin[q] = static_cast<std::int32_t>(block.first_key_of(own));
    end[q] = static_cast<std::int32_t>(block.end_key_of(own));
  }
  const auto hide = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t s = first; s < last; ++s) {
      T* of_key = scores + s * query_block + row;
      const auto key = static_cast<std::int32_t>(s);
#pragma omp simd
      for (std::int64_t q = 0; q < queries; ++q)
        of_key[q] =
            key < begin[q] || key >= end[q] ? -std::numeric_limits<T>::infinity() : of_key[q];
    }
  };
  hide(keys.begin, keys.all_begin);
  hide(keys.all_end, keys.end);
}

/// What no query of the panel sees becomes 0 for products over the keys of the whole block.
template <class T>
void clear_unseen(const QueryBlock& block, std::int64_t row, const PanelKeys& keys, T* values) {
  for (std::int64_t s = block.first_key; s < keys.begin; ++s)
    std::fill_n(values + s * query_block + row, panel_columns<T>, T{0});
  for (std::int64_t s = keys.end; s < block.keys; ++s)
    std::fill_n(values + s * query_block + row, panel_columns<T>, T{0});
}

/// Factors of dropout for the keys that a panel of queries of a head sees, as their scores lie:
/// `factors` (keys, panel), by way of `rows` (panel, keys).
template <class Call, class T>
void keep_factors_of_panel(const Call& call, std::int64_t unit, const QueryBlock& block,
                           std::int64_t row, const PanelKeys& keys, T* rows, T* factors) {
  const std::int64_t count = keys.end - keys.begin;
  const std::int64_t queries = std::min(panel_columns<T>, block.rows - row);
  const std::uint64_t sample = global_sample(call.op.window, unit / call.sizes.heads);
  for (std::int64_t q = 0; q < queries; ++q) {
    const std::uint64_t first =
        call.elements.row(sample, unit % call.sizes.heads, block.first + row + q);
    keep_factors(*call.mask, first + static_cast<std::uint64_t>(keys.begin), count,
                 static_cast<T>(1 / (1 - call.op.rate)), rows + q * count);
  }
  pack_panels(rows, 1, count, count, queries, T{1}, factors);
}

/// Asks for a block's rows of the thread's next head while this head's block is computed, but for
/// keys and values that both share. Pieces of rows of other heads lie between them, so the CPU does
/// not see what comes next; and it bears some 20 lines at a time, so each tile asks for a few: all
/// at once, a head of 64 rows of 32 takes a third longer.
template <class T>
class RowsAhead {
 public:
  /// Rows [first, first + rows) of head `unit`, which is sizes.units() if there is no next one,
  /// during so many tiles.
  RowsAhead(const AttentionSizes& sizes, std::int64_t unit, std::int64_t first, std::int64_t rows,
            std::int64_t tiles)
      : sizes_(&sizes),
        unit_(unit),
        first_(first),
        rows_(unit < sizes.units() ? rows : 0),
        tiles_(tiles) {}
  void of_qkv(const T* qkv, bool to_write) {
    const std::int64_t parts = unit_ % sizes_->of_group == 0 ? 3 : 1;
    for (std::int64_t part = 0; part < parts; ++part)
      add(qkv, sizes_->qkv(unit_, part), sizes_->qkv_stride(), to_write);
  }
  void of_y(const T* y, bool to_write) { add(y, sizes_->y(unit_), sizes_->y_stride(), to_write); }

  /// To be called before each tile. Asks for an even share of all pieces of rows.
  void operator()() {
    for (due_ += rows_ * num_places_; due_ >= tiles_ && place_ < num_places_; due_ -= tiles_) {
      const Place& place = places_[place_];
      const T* const piece = place.rows + row_ * place.stride;
      if (place.to_write)
        fetch_to_write(piece, sizes_->width);
      else
        fetch(piece, sizes_->width);
      if (++row_ < rows_) continue;
      row_ = 0;
      ++place_;
    }
  }

 private:
  struct Place {
    const T* rows;
    std::int64_t stride;
    bool to_write;
  };
  void add(const T* data, std::int64_t head, std::int64_t stride, bool to_write) {
    if (rows_ > 0) places_[num_places_++] = {data + head + first_ * stride, stride, to_write};
  }

  static constexpr int most_places = 8;  // of a gradient: qkv, y, y_grad, qkv_grad
  const AttentionSizes* sizes_;
  std::int64_t unit_, first_, rows_, tiles_;
  Place places_[most_places];
  int num_places_ = 0, place_ = 0;
  std::int64_t row_ = 0;
  std::int64_t due_ = 0;  // pieces, of `tiles_`
};

/// to (rows, width) = scale * from, dense.
template <class T>
void copy_scaled(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width,
                 Sum<T> scale, Sum<T>* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t d = 0; d < width; ++d)
      to[row * width + d] = scale * summed(from[row * stride + d]);
}

/// True if sums of elements that are stored as T are rounded when they are stored.
template <class T>
inline constexpr bool rounds_sums = !std::is_same_v<T, Sum<T>>;

/// to (rows, width) = from, which is dense, rounded.
template <class T>
void store_rounded(const Sum<T>* from, std::int64_t rows, std::int64_t width, T* to,
                   std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t d = 0; d < width; ++d) store(to[row * stride + d], from[row * width + d]);
}

/// write(out, its stride) writes sums (rows, width): to where they are stored, or to dense scratch
/// from which they are rounded.
template <class T, class Write>
void write_rows(std::int64_t rows, std::int64_t width, T* to, std::int64_t stride, Sum<T>* scratch,
                Write&& write) {
  if constexpr (rounds_sums<T>) {
    write(scratch, width);
    store_rounded(scratch, rows, width, to, stride);
  } else {
    write(to, stride);
  }
}

/// Turns the scores [begin, count) into exp(score - largest); returns largest and the sum. Rows are
/// worked on in whole panels, whose columns before `begin`, which is in the first one, and beyond
/// the row's own position are -infinity before and 0 afterwards: a remainder of single elements
/// would cost more than the row where T is small.
template <class T>
struct RowSoftmax {
  T largest, sum;
};
template <class T>
RowSoftmax<T> exponentials(T* scores, std::int64_t begin, std::int64_t count) {
  const std::int64_t padded = padded_columns<T>(count);
  std::fill(scores, scores + begin, -std::numeric_limits<T>::infinity());
  std::fill(scores + count, scores + padded, -std::numeric_limits<T>::infinity());
  T largest = scores[begin];
#pragma omp simd reduction(max : largest)
  for (std::int64_t s = 0; s < padded; ++s) largest = largest < scores[s] ? scores[s] : largest;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t s = 0; s < padded; ++s) {
    scores[s] = exp_flushed(scores[s] - largest);
    sum += scores[s];
  }
  return {largest, sum};
}

/// Scratch of one thread, laid out by the constructor of `HeadScratch`.
template <class HeadScratch>
std::int64_t thread_bytes(const AttentionSizes& sizes) {
  Scratch count(nullptr);
  HeadScratch(count, sizes);
  return count.used_bytes();
}
/// The same for the storage type of a problem. Each file's template has a name of its own: GCC
/// gives this function external linkage although the template is of an anonymous namespace.
template <template <class T> class HeadScratch>
std::int64_t thread_bytes(const Problem& problem) {
  const AttentionSizes sizes = attention_sizes(problem);
  if (problem.dtype == DType::bf16) return thread_bytes<HeadScratch<BFloat16>>(sizes);
  return problem.dtype == DType::f64 ? thread_bytes<HeadScratch<double>>(sizes)
                                     : thread_bytes<HeadScratch<float>>(sizes);
}

}  // namespace fourfold::kernels::cpu
