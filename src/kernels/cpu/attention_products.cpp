#include "kernels/cpu/attention_products.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/softmax_row.h"

namespace fourfold::kernels::cpu::attention_products {
namespace {

using onednn::MatrixForm;
using onednn::ThreadProduct;

/// Queries worked on at once; keys come in as many.
constexpr std::int64_t at_once = 64;

/// Rows [first, first + rows) of queries of one sample, and the keys [first_key, end_key), among
/// which are all that they see.
struct Block {
  std::int64_t first, rows, first_key, end_key;
  std::int64_t keys() const { return end_key - first_key; }
};

/// How samples are cut into blocks. Few shapes occur, so that there is a product for each.
struct Cut {
  std::int64_t time;
  bool causal, documents;

  std::int64_t blocks() const { return (time + at_once - 1) / at_once; }
  /// The block of that number, whose first query sees keys from `first_seen` on.
  Block block(std::int64_t index, std::int64_t first_seen) const {
    const std::int64_t first = index * at_once, rows = std::min(at_once, time - first);
    return {first, rows, first_seen / at_once * at_once, causal ? first + rows : time};
  }
  std::size_t num_shapes() const { return 2 * static_cast<std::size_t>(blocks() + 1); }
  /// Blocks of one number have one shape.
  std::size_t shape_of(const Block& block) const {
    const std::int64_t of_keys = (block.keys() + at_once - 1) / at_once;
    return static_cast<std::size_t>(of_keys + (block.rows < at_once ? blocks() + 1 : 0));
  }
  /// visit(block) for all blocks that may occur.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::int64_t index = 0; index < blocks(); ++index)
      for (std::int64_t start = 0; start <= (documents ? index : 0); ++start)
        visit(block(index, start * at_once));
  }
};

/// Products of each shape of blocks, for one thread.
template <class Products>
std::vector<Products> products_of(const Cut& cut, const AttentionSizes& sizes) {
  std::vector<Products> made(cut.num_shapes());
  cut.for_each([&](const Block& block) {
    Products& of = made[cut.shape_of(block)];
    if (of.scratch_bytes() == 0) of = Products(block, sizes);
  });
  return made;
}

/// Elements from a row of scores to the next.
std::int64_t row_stride(const AttentionSizes& sizes) {
  return padded_columns<float>(sizes.time);
}

/// Rows of the queries, keys or values of a head.
MatrixForm rows_of_head(const AttentionSizes& sizes, std::int64_t rows) {
  return {rows, sizes.width, sizes.qkv_stride(), 1, DType::bf16};
}
MatrixForm rows_of_y(const AttentionSizes& sizes, std::int64_t rows) {
  return {rows, sizes.width, sizes.y_stride(), 1, DType::bf16};
}
MatrixForm scores_form(const AttentionSizes& sizes, const Block& block, DType dtype) {
  return {block.rows, block.keys(), row_stride(sizes), 1, dtype};
}

/// What the calls of both rows have.
template <class Row>
struct Call {
  const Row& op;
  AttentionSizes sizes;
  Cut cut;
  AttentionElements elements;
  DocumentStarts documents;
  std::optional<DropoutMask> mask = {};

  Call(const Row& row, const AttentionSizes& of, Tensors operands, std::size_t first)
      : op(row),
        sizes(of),
        cut{of.time, row.causal, row.documents},
        elements(attention_elements(row, operands[0].shape)),
        documents(document_starts(row, operands, AttentionOperands(row, first).starts)) {
    if (row.rate == 0) return;
    const std::size_t seed = AttentionOperands(row, first).seed;
    mask.emplace(row.stream, row.rate, *operands[seed].template as<std::uint64_t>(),
                 *operands[seed + 1].template as<std::int64_t>());
  }

  std::int64_t sample(std::int64_t unit) const { return unit / sizes.heads; }
  Block block(std::int64_t unit, std::int64_t index) const {
    return cut.block(index, documents.first_key(sample(unit), index * at_once));
  }
  /// The keys [begin, end) that a row of the block sees, counted from the block's first one.
  Range seen(std::int64_t unit, const Block& block, std::int64_t row) const {
    const std::int64_t t = block.first + row;
    return {documents.first_key(sample(unit), t) - block.first_key,
            (op.causal ? t + 1 : sizes.time) - block.first_key};
  }
  /// keep[s] for the keys [0, count) of the block.
  void keep_row(std::int64_t unit, const Block& block, std::int64_t row, std::int64_t count,
                float* keep) const {
    const std::uint64_t element =
        elements.row(global_sample(op.window, sample(unit)), unit % sizes.heads, block.first + row);
    keep_factors(*mask, element + static_cast<std::uint64_t>(block.first_key), count,
                 static_cast<float>(1 / (1 - op.rate)), keep);
  }
};

/// What both rows prepare: products of each thread, and scratch.
template <class Row, class Products, class HeadScratch>
struct Prepared {
  Row op;
  AttentionSizes sizes;
  int threads;
  std::vector<std::vector<Products>> products;  // by thread and shape
  std::int64_t product_bytes = 0;

  Prepared(const Row& row, const Problem& problem)
      : op(row), sizes(attention_sizes(problem)), threads(problem.threads) {
    const Cut cut{sizes.time, op.causal, op.documents};
    for (int thread = 0; thread < threads; ++thread)
      products.push_back(products_of<Products>(cut, sizes));
    for (const Products& of : products[0])
      product_bytes = std::max(product_bytes, of.scratch_bytes());
  }
  std::int64_t thread_bytes() const {
    Scratch count(nullptr);
    HeadScratch(count, sizes, product_bytes);
    return count.used_bytes();
  }
  /// body(heads, products, scratch) for every group of every sample, shared among threads.
  template <class Body>
  void for_groups(std::byte* workspace, Body&& body) const {
    const int parts = team_size(threads, sizes.work());
    for_parts(parts, [&](int part) {
      Scratch scratch(workspace + part * thread_bytes());
      const HeadScratch own(scratch, sizes, product_bytes);
      const Range groups = range_of(part, parts, sizes.unit_groups(), 1);
      for (std::int64_t group = groups.first; group < groups.last; ++group)
        body(Range{group * sizes.of_group, (group + 1) * sizes.of_group},
             products[static_cast<std::size_t>(part)], own);
    });
  }
};

// --- forward

struct ForwardProducts {
  ThreadProduct scores, weighted;  // Q K^T, P V

  ForwardProducts() = default;
  ForwardProducts(const Block& block, const AttentionSizes& sizes)
      : scores(rows_of_head(sizes, block.rows), rows_of_head(sizes, block.keys()).transposed(),
               scores_form(sizes, block, DType::f32), false),
        weighted(scores_form(sizes, block, DType::bf16), rows_of_head(sizes, block.keys()),
                 rows_of_y(sizes, block.rows), false) {}
  std::int64_t scratch_bytes() const {
    return std::max(scores.scratch_bytes(), weighted.scratch_bytes());
  }
};

struct ForwardScratch {
  float *scores, *keep;
  BFloat16* probabilities;
  std::byte* products;
  ForwardScratch(Scratch& scratch, const AttentionSizes& sizes, std::int64_t product_bytes)
      : scores(scratch.take<float>(at_once * row_stride(sizes))),
        keep(scratch.take<float>(row_stride(sizes))),
        probabilities(scratch.take<BFloat16>(at_once * row_stride(sizes))),
        products(scratch.take<std::byte>(product_bytes)) {}
};

/// As exponentials() of scale * scores, in one pass less over them.
RowSoftmax<float> scaled_exponentials(float* scores, std::int64_t begin, std::int64_t count,
                                      float scale) {
  const std::int64_t padded = padded_columns<float>(count);
  std::fill(scores, scores + begin, -std::numeric_limits<float>::infinity());
  std::fill(scores + count, scores + padded, -std::numeric_limits<float>::infinity());
  const float largest = largest_of(scores, padded);
  const float factor = scale * std::numbers::log2e_v<float>, reference = largest * factor;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t s = 0; s < padded; ++s) {
    scores[s] = exp2_flushed(scores[s] * factor - reference);
    sum += scores[s];
  }
  return {scale * largest, sum};
}

/// Scores of a row to probabilities after dropout, zero where the row sees no key. Gives lse.
float probabilities_of_row(const Call<op::Attention>& call, std::int64_t unit, const Block& block,
                           std::int64_t row, const ForwardScratch& own) {
  const auto [begin, count] = call.seen(unit, block, row);
  float* scores = own.scores + row * row_stride(call.sizes);
  BFloat16* to = own.probabilities + row * row_stride(call.sizes);
  const auto [largest, sum] =
      scaled_exponentials(scores, begin, count, static_cast<float>(call.sizes.scale()));
  const float inverse = 1 / sum;
  if (call.mask) {
    call.keep_row(unit, block, row, count, own.keep);
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) store(to[s], scores[s] * inverse * own.keep[s]);
  } else {
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) store(to[s], scores[s] * inverse);
  }
  std::fill(to + count, to + block.keys(), BFloat16{});
  return largest + log_of(sum);
}

void attend(const Call<op::Attention>& call, std::int64_t unit,
            const std::vector<ForwardProducts>& products, const ForwardScratch& own,
            Tensors operands) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t stride = sizes.qkv_stride();
  const AttentionOperands at(call.op, 1);
  const BFloat16* qkv = operands[0].as<BFloat16>();
  BFloat16* y = operands[at.outputs].as<BFloat16>() + sizes.y(unit);
  float* lse = operands[at.outputs + 1].as<float>() + unit * sizes.time;
  for (std::int64_t index = 0; index < call.cut.blocks(); ++index) {
    const Block block = call.block(unit, index);
    const ForwardProducts& of = products[call.cut.shape_of(block)];
    of.scores(qkv + sizes.qkv(unit, 0) + block.first * stride,
              qkv + sizes.qkv(unit, 1) + block.first_key * stride, own.scores, own.products);
    for (std::int64_t row = 0; row < block.rows; ++row)
      lse[block.first + row] = probabilities_of_row(call, unit, block, row, own);
    of.weighted(own.probabilities, qkv + sizes.qkv(unit, 2) + block.first_key * stride,
                y + block.first * sizes.y_stride(), own.products);
  }
}

// --- gradient: the formulas stand in attention_gradient.cpp

struct GradientProducts {
  ThreadProduct scores, kept_gradients;  // Q K^T, dY V^T
  ThreadProduct queries, keys, values;   // dS K, dS^T Q, P^T dY

  GradientProducts() = default;
  GradientProducts(const Block& block, const AttentionSizes& sizes)
      : scores(rows_of_head(sizes, block.rows), rows_of_head(sizes, block.keys()).transposed(),
               scores_form(sizes, block, DType::f32), false),
        kept_gradients(rows_of_y(sizes, block.rows), rows_of_head(sizes, block.keys()).transposed(),
                       scores_form(sizes, block, DType::f32), false),
        queries(scores_form(sizes, block, DType::bf16), rows_of_head(sizes, block.keys()),
                rows_of_head(sizes, block.rows), false),
        keys(scores_form(sizes, block, DType::bf16).transposed(), rows_of_head(sizes, block.rows),
             sums_form(block, sizes), true),
        values(scores_form(sizes, block, DType::bf16).transposed(), rows_of_y(sizes, block.rows),
               sums_form(block, sizes), true) {}
  std::int64_t scratch_bytes() const {
    return std::max({scores.scratch_bytes(), kept_gradients.scratch_bytes(),
                     queries.scratch_bytes(), keys.scratch_bytes(), values.scratch_bytes()});
  }

 private:
  static MatrixForm sums_form(const Block& block, const AttentionSizes& sizes) {
    return {block.keys(), sizes.width, sizes.width, 1, DType::f32};
  }
};

struct GradientScratch {
  float *scores, *kept_gradients, *keep, *key_sums, *value_sums;
  BFloat16 *probabilities, *score_gradients;
  std::byte* products;
  GradientScratch(Scratch& scratch, const AttentionSizes& sizes, std::int64_t product_bytes)
      : scores(scratch.take<float>(at_once * row_stride(sizes))),
        kept_gradients(scratch.take<float>(at_once * row_stride(sizes))),
        keep(scratch.take<float>(row_stride(sizes))),
        key_sums(scratch.take<float>(sizes.time * sizes.width)),
        value_sums(scratch.take<float>(sizes.time * sizes.width)),
        probabilities(scratch.take<BFloat16>(at_once * row_stride(sizes))),
        score_gradients(scratch.take<BFloat16>(at_once * row_stride(sizes))),
        products(scratch.take<std::byte>(product_bytes)) {}
};

/// The operands of a call, each from the head's first row on.
struct GradientRows {
  const BFloat16 *queries, *keys, *values, *y, *y_grad;
  const float* lse;
  BFloat16 *query_grads, *key_grads, *value_grads;
  GradientRows(const Call<op::AttentionGradient>& call, std::int64_t unit, Tensors operands)
      : y(operands[1].as<BFloat16>() + call.sizes.y(unit)),
        y_grad(operands[3].as<BFloat16>() + call.sizes.y(unit)),
        lse(operands[2].as<float>() + unit * call.sizes.time) {
    const BFloat16* qkv = operands[0].as<BFloat16>();
    BFloat16* grads = operands[AttentionOperands(call.op, 4).outputs].as<BFloat16>();
    queries = qkv + call.sizes.qkv(unit, 0), query_grads = grads + call.sizes.qkv(unit, 0);
    keys = qkv + call.sizes.qkv(unit, 1), key_grads = grads + call.sizes.qkv(unit, 1);
    values = qkv + call.sizes.qkv(unit, 2), value_grads = grads + call.sizes.qkv(unit, 2);
  }
};

/// From scores and dY V^T of a row: its probabilities after dropout, and the gradients of its
/// scores before they were scaled, zero where the row sees no key.
void gradients_of_row(const Call<op::AttentionGradient>& call, std::int64_t unit,
                      const Block& block, std::int64_t row, const GradientRows& rows,
                      const GradientScratch& own) {
  const auto [begin, count] = call.seen(unit, block, row);
  const std::int64_t at = row * row_stride(call.sizes), t = block.first + row;
  const float *scores = own.scores + at, *kept_gradients = own.kept_gradients + at;
  BFloat16 *probabilities = own.probabilities + at, *gradients = own.score_gradients + at;
  const auto scale = static_cast<float>(call.sizes.scale());
  const float lse = rows.lse[t];
  const BFloat16* y = rows.y + t * call.sizes.y_stride();
  const BFloat16* y_grad = rows.y_grad + t * call.sizes.y_stride();
  float mean = 0;
#pragma omp simd reduction(+ : mean)
  for (std::int64_t d = 0; d < call.sizes.width; ++d) mean += summed(y[d]) * summed(y_grad[d]);
  if (call.mask) {
    const float* keep = own.keep;
    call.keep_row(unit, block, row, count, own.keep);
#pragma omp simd
    for (std::int64_t s = begin; s < count; ++s) {
      const float p = exp_flushed(scale * scores[s] - lse);
      store(gradients[s], scale * (p * (keep[s] * kept_gradients[s] - mean)));
      store(probabilities[s], keep[s] * p);
    }
  } else {
#pragma omp simd
    for (std::int64_t s = begin; s < count; ++s) {
      const float p = exp_flushed(scale * scores[s] - lse);
      store(gradients[s], scale * (p * (kept_gradients[s] - mean)));
      store(probabilities[s], p);
    }
  }
  for (BFloat16* columns : {probabilities, gradients}) {
    std::fill(columns, columns + begin, BFloat16{});
    std::fill(columns + count, columns + block.keys(), BFloat16{});
  }
}

/// A head: adds to the sums of its keys and values.
void differentiate(const Call<op::AttentionGradient>& call, std::int64_t unit,
                   const GradientRows& rows, const std::vector<GradientProducts>& products,
                   const GradientScratch& own) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t stride = sizes.qkv_stride(), y_stride = sizes.y_stride();
  for (std::int64_t index = 0; index < call.cut.blocks(); ++index) {
    const Block block = call.block(unit, index);
    const GradientProducts& of = products[call.cut.shape_of(block)];
    const BFloat16* queries = rows.queries + block.first * stride;
    const BFloat16* keys = rows.keys + block.first_key * stride;
    const BFloat16* y_grad = rows.y_grad + block.first * y_stride;
    of.scores(queries, keys, own.scores, own.products);
    of.kept_gradients(y_grad, rows.values + block.first_key * stride, own.kept_gradients,
                      own.products);
    for (std::int64_t row = 0; row < block.rows; ++row)
      gradients_of_row(call, unit, block, row, rows, own);
    of.queries(own.score_gradients, keys, rows.query_grads + block.first * stride, own.products);
    of.keys(own.score_gradients, queries, own.key_sums + block.first_key * sizes.width,
            own.products);
    of.values(own.probabilities, y_grad, own.value_sums + block.first_key * sizes.width,
              own.products);
  }
}

/// All heads of a group.
void differentiate(const Call<op::AttentionGradient>& call, const Range& units,
                   const std::vector<GradientProducts>& products, const GradientScratch& own,
                   Tensors operands) {
  const AttentionSizes& sizes = call.sizes;
  std::fill_n(own.key_sums, sizes.time * sizes.width, 0.F);
  std::fill_n(own.value_sums, sizes.time * sizes.width, 0.F);
  for (std::int64_t unit = units.first; unit < units.last; ++unit)
    differentiate(call, unit, GradientRows(call, unit, operands), products, own);
  const GradientRows rows(call, units.first, operands);
  store_rounded(own.key_sums, sizes.time, sizes.width, rows.key_grads, sizes.qkv_stride());
  store_rounded(own.value_sums, sizes.time, sizes.width, rows.value_grads, sizes.qkv_stride());
}

// --- both

using Forward = Prepared<op::Attention, ForwardProducts, ForwardScratch>;
using Gradient = Prepared<op::AttentionGradient, GradientProducts, GradientScratch>;

Run prepare_row(const op::Attention& op, const Problem& problem) {
  auto made = std::make_shared<const Forward>(op, problem);
  return [made](Tensors operands, Workspace workspace) {
    const Call<op::Attention> call(made->op, made->sizes, operands, 1);
    made->for_groups(workspace.data(),
                     [&](const Range& units, const auto& products, const auto& own) {
                       for (std::int64_t unit = units.first; unit < units.last; ++unit)
                         attend(call, unit, products, own, operands);
                     });
  };
}

Run prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  auto made = std::make_shared<const Gradient>(op, problem);
  return [made](Tensors operands, Workspace workspace) {
    const Call<op::AttentionGradient> call(made->op, made->sizes, operands, 4);
    made->for_groups(workspace.data(),
                     [&](const Range& units, const auto& products, const auto& own) {
                       differentiate(call, units, products, own, operands);
                     });
  };
}

std::int64_t bytes_for(const op::Attention& op, const Problem& problem) {
  return problem.threads * Forward(op, problem).thread_bytes();
}
std::int64_t bytes_for(const op::AttentionGradient& op, const Problem& problem) {
  return problem.threads * Gradient(op, problem).thread_bytes();
}

}  // namespace

bool computes(const op::Op& op, DType dtype) {
  const bool is_attention = op.is<op::Attention>() || op.is<op::AttentionGradient>();
  return is_attention && dtype == DType::bf16 && onednn::has_bf16();
}

Run prepare(const Problem& problem) {
  require(computes(problem.op, problem.dtype), "products compute attention in bf16 alone");
  if (const auto* forward = problem.op.get_if<op::Attention>())
    return prepare_row(*forward, problem);
  return prepare_row(problem.op.get<op::AttentionGradient>(), problem);
}

std::int64_t workspace_bytes(const Problem& problem) {
  if (const auto* forward = problem.op.get_if<op::Attention>()) return bytes_for(*forward, problem);
  return bytes_for(problem.op.get<op::AttentionGradient>(), problem);
}

}  // namespace fourfold::kernels::cpu::attention_products
