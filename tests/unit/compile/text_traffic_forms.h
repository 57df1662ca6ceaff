// What models that write text send in a training step alike, as formulas in whole numbers: the ways
// in which tensors are sent, the embedding of tokens, the head and the loss; and what attention
// computes. Header only.
//
// h hidden, f ffn width, L layers; t tokens of a micro-batch on one rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "unit/compile/grid_setup.h"
#include "unit/compile/traffic_forms.h"

namespace fourfold::compile {

/// The numbers that the formulas are made of.
struct Sizes {
  explicit Sizes(const GridSetup& setup)
      : h(setup.llama ? setup.llama->hidden_size : setup.gpt.hidden_size),
        f(setup.llama ? setup.llama->ffn_hidden_size : setup.gpt.ffn_hidden_size),
        layers(setup.llama ? setup.llama->num_layers : setup.gpt.num_layers),
        vocabulary(setup.llama ? setup.llama->vocab_size : setup.gpt.vocab_size),
        has_tied_head(setup.llama ? setup.llama->tied_head : setup.gpt.tied_head),
        t(setup.plan.micro_batch_size * setup.plan.seq_length),
        micros(setup.plan.global_batch_size /
               (setup.plan.micro_batch_size * setup.z() * setup.data())),
        element(size_bytes(setup.plan.compute)),
        accumulate(size_bytes(accumulation_type(setup.plan.compute))),
        reduce(setup.plan.rounds_gradients ? element : accumulate),
        ranks({{"x", setup.x()}, {"y", setup.y()}, {"z", setup.z()}, {"data", setup.data()}}) {}
  std::int64_t h, f, layers, vocabulary;
  bool has_tied_head;
  std::int64_t t, micros;
  std::int64_t element, accumulate, reduce;   // bytes; the last: of a gradient that moves
  std::map<std::string, std::int64_t> ranks;  // by axis
};

/// Layers, their norms and what an update sends are those of a model, which adds them.
class TextFormulas {
 public:
  explicit TextFormulas(const GridSetup& setup) : setup_(setup), s_(setup) {
    if (setup.plan.checkpointing.layers > 0) forward_ = 2;
    embedding();
    head();
    loss();
  }
  ByClass result;

 protected:
  static constexpr std::int64_t reduce_scatter = 1, all_gather = 1, all_reduce = 2;

  std::int64_t g(const std::string& axis) const { return s_.ranks.at(axis); }
  /// `elements` are those of the whole tensor, of which each rank holds one of `parts`.
  void add(const std::string& tensor, const std::string& axis, std::int64_t passes,
           std::int64_t times, std::int64_t elements, std::int64_t parts, std::int64_t bytes) {
    const Parts sent = times * ring(g(axis), passes, exact(elements, parts) * bytes);
    if (sent != 0) result[tensor][axis] += sent;
  }
  /// An all-reduce along all of these axes at once.
  void sum(const std::string& tensor, const std::vector<std::string>& axes, std::int64_t times,
           std::int64_t elements, std::int64_t parts, std::int64_t bytes) {
    const Together all = together(axes, [&](const std::string& axis) { return g(axis); });
    const Parts sent = times * ring(all.ranks, all_reduce, exact(elements, parts) * bytes);
    if (sent != 0) result[tensor][all.axes] += sent;
  }
  /// An activation of the width, in every micro-batch.
  void activation(const std::string& tensor, const std::string& axis, std::int64_t passes,
                  std::int64_t times, std::int64_t width, std::int64_t parts) {
    add(tensor, axis, passes, times * s_.micros, s_.t * width, parts, s_.element);
  }
  /// A weight of which ranks of one z use one of `parts`: gathered on z for use, in the type of the
  /// computation; its gradient, in that of sums unless it is rounded before it moves,
  /// reduce-scattered on z, and summed over data at the end.
  void weight(const std::string& tensor, std::int64_t elements, std::int64_t parts,
              std::int64_t gathers) {
    add(tensor, "z", all_gather, gathers * s_.micros, elements, parts, s_.element);
    add(tensor, "z", reduce_scatter, s_.micros, elements, parts, s_.reduce);
    add(tensor, "data", all_reduce, 1, elements, parts * g("z"), s_.reduce);
  }
  /// A bias or gain: its gradient, cut as what it is added to, is summed over data and z, and what
  /// else cuts samples there, and then gathered, once in a step.
  void small(const std::string& tensor, std::int64_t width, const std::vector<std::string>& cuts,
             const std::vector<std::string>& of_samples = {}) {
    std::int64_t parts = 1;
    for (const std::string& axis : cuts) parts *= g(axis);
    std::vector<std::string> summed = {"data", "z"};
    summed.insert(summed.end(), of_samples.begin(), of_samples.end());
    sum(tensor, summed, 1, width, parts, s_.reduce);
    for (std::size_t i = cuts.size(); i-- > 0;) {
      parts /= g(cuts[i]);
      add(tensor, cuts[i], all_gather, 1, width, parts, s_.reduce);
    }
  }

  /// With recomputation all of a block is done again but its last product, unless a later block of
  /// the segment reads that.
  std::int64_t down_products() const {
    const std::int64_t blocks = setup_.plan.checkpointing.layers;
    return blocks == 0 ? s_.layers : 2 * s_.layers - (s_.layers + blocks - 1) / blocks;
  }

  std::int64_t padded(std::int64_t parts) const {
    return (s_.vocabulary + parts - 1) / parts * parts;
  }

  const GridSetup& setup_;
  Sizes s_;
  std::int64_t forward_ = 1;  // how often the forward pass of a block is done

 private:
  /// The product with the one-hot tokens is partial on x and y: scattered to hidden on y, reduced
  /// on x. Its gradient is gathered on y, because the table is not cut there.
  void embedding() {
    const std::int64_t x = g("x"), y = g("y");
    // A tied table is wanted in the backward pass too; the embedding's gradient does not read it.
    const std::int64_t gathers = s_.has_tied_head ? forward_ : 1;
    weight("embedding", padded(x * y * g("z")) * s_.h, x * y, gathers);
    activation("embedding", "y", reduce_scatter, 1, s_.h, 1);
    activation("embedding", "x", all_reduce, 1, s_.h, y);
    activation("embedding", "y", all_gather, 1, s_.h, 1);
  }

  /// Vocabulary on x and y: the input is gathered on y; its gradient, partial on both, scattered to
  /// y and reduced on x.
  void head() {
    const std::int64_t x = g("x"), y = g("y");
    activation("head", "y", all_gather, 1, s_.h, 1);
    activation("head", "y", reduce_scatter, 1, s_.h, 1);
    activation("head", "x", all_reduce, 1, s_.h, y);
    if (!s_.has_tied_head) weight("head", s_.h * padded(x * y), x * y, forward_);
  }

  /// Three numbers a token over the parts of the vocabulary: maximum, sum of exponentials, logit of
  /// the label. Loss and token count over the parts of the batch, 8 bytes each, once.
  void loss() {
    sum("loss", {"y", "x"}, s_.micros, 3 * s_.t, 1, s_.accumulate);
    sum("loss", {"data", "z"}, 1, 2, 1, 8);
  }
};

inline double flops_of_attention(const program::Program& program) {
  double flops = 0;
  for (const program::Instruction& i : program.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&i.what))
      if (compute->op.is<op::Attention>() || compute->op.is<op::AttentionGradient>())
        flops += op::flops(compute->op, program.operand_shapes(*compute));
  return flops;
}

}  // namespace fourfold::compile
