// What residue forms of attention, losses and updates must give by what these functions are:
// identities that hold whatever E and L are.
#include <gtest/gtest.h>

#include "op/residue_loops.h"
#include "support/residue_trial.h"

namespace fourfold::op {
namespace {

/// What attention gave, and the gradients of its query, key and value for some gradient of y.
struct Differentiated {
  std::vector<Residue> qkv, y, y_grad, qkv_grad;
  std::size_t time, heads, width;
  /// Element d of a vector of part 0, 1 or 2 of the first sample.
  std::size_t at(std::size_t t, std::size_t part, std::size_t h, std::size_t d) const {
    return ((t * 3 + part) * heads + h) * width + d;
  }
  /// The sum over a head of a part times its gradient.
  Residue product_of(std::size_t part, std::size_t h) const {
    ProductSum sum;
    for (std::size_t t = 0; t < time; ++t)
      for (std::size_t d = 0; d < width; ++d)
        sum.add_product(qkv[at(t, part, h, d)], qkv_grad[at(t, part, h, d)]);
    return sum.value();
  }
};

Differentiated differentiate(const Attention& op, const Shape& qkv) {
  std::vector<Shape> reads = {qkv};
  if (op.documents) reads.push_back({qkv[0], qkv[1]});
  if (op.rate != 0) reads.insert(reads.end(), 2, Shape{});
  const ResidueTrial made = ResidueTrial(op, reads).computed(some_keys());
  reads.insert(reads.begin() + 1,
               {outputs(op, reads)[0], outputs(op, reads)[1], made.shapes[made.find("y")]});
  ResidueTrial gradient(AttentionGradient{op.stream, op.rate, op.window, op.first_head, op.heads,
                                          op.documents, op.causal},
                        reads);
  for (const std::string_view name : {"qkv", "y", "lse", "document_starts", "seed", "step"})
    if (made.find(name) < made.operands.size()) gradient[name] = made[name];
  gradient = gradient.computed(some_keys());
  return {made["qkv"],
          made["y"],
          gradient["y_grad"],
          gradient["qkv_grad"],
          static_cast<std::size_t>(qkv.elements(1, qkv.rank() - 3)),
          static_cast<std::size_t>(qkv[qkv.rank() - 2]),
          static_cast<std::size_t>(qkv.back())};
}

TEST(ResidueAttention, its_gradient_is_that_of_a_softmax_of_products) {
  const std::pair<Attention, Shape> cases[] = {
      {Attention{}, {1, 4, 3, 2, 3}},
      {Attention{{5}, 0.25, {1, 4, 2}, 1, 4}, {1, 4, 3, 2, 3}},
      {Attention{{5}, 0.25, {}, 0, 0, true}, {1, 5, 3, 2, 3}},
      {Attention{{5}, 0.25, {}, 0, 0, false, false}, {1, 2, 2, 3, 2, 3}}};
  for (const auto& [op, qkv] : cases) {
    const Differentiated made = differentiate(op, qkv);
    for (std::size_t h = 0; h < made.heads; ++h) {
      ProductSum of_y;
      for (std::size_t t = 0; t < made.time; ++t)
        for (std::size_t d = 0; d < made.width; ++d) {
          const std::size_t i = (t * made.heads + h) * made.width + d;
          of_y.add_product(made.y[i], made.y_grad[i]);
        }
      EXPECT_EQ(made.product_of(2, h), of_y.value()) << "y is linear in the values";
      EXPECT_EQ(made.product_of(0, h), made.product_of(1, h))
          << "scores are products of queries and keys";
      EXPECT_NE(made.product_of(0, h), 0U);
      for (std::size_t d = 0; d < made.width; ++d) {
        Residue sum = 0;
        for (std::size_t t = 0; t < made.time; ++t)
          sum = add(sum, made.qkv_grad[made.at(t, 1, h, d)]);
        EXPECT_EQ(sum, 0U) << "what is added to all keys changes no probability";
      }
    }
  }
}

/// The elements of rows [first, last) of a tensor whose first dim counts samples of one, and whose
/// second one is T.
std::vector<Residue> rows_between(const std::vector<Residue>& x, std::size_t time,
                                  std::size_t first, std::size_t last) {
  const std::size_t size = x.size() / time;
  return {x.begin() + static_cast<std::ptrdiff_t>(first * size),
          x.begin() + static_cast<std::ptrdiff_t>(last * size)};
}

TEST(ResidueAttention, of_two_documents_is_that_of_each) {
  ResidueTrial both(Attention{{}, 0, {}, 0, 0, true}, {{1, 5, 3, 2, 3}, {1, 5}});
  both["document_starts"] = {0, 0, 2, 2, 2};
  const std::vector<Residue> y = both.computed(some_keys())["y"];
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 2}, {2, 5}}) {
    ResidueTrial one(Attention{}, {{1, static_cast<std::int64_t>(last - first), 3, 2, 3}});
    one["qkv"] = rows_between(both["qkv"], 5, first, last);
    EXPECT_EQ(one.computed(some_keys())["y"], rows_between(y, 5, first, last));
  }
}

TEST(ResidueAttention, over_a_cache_continues_a_text) {
  const ResidueTrial whole(Attention{}, {{1, 5, 3, 2, 3}});
  const std::vector<Residue> y = whole.computed(some_keys())["y"];
  std::vector<Residue> cache(2 * 6 * 2 * 3, 77);
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 4}, {4, 5}}) {
    ResidueTrial next(AttentionCached{6},
                      {{1, static_cast<std::int64_t>(last - first), 3, 2, 3}, {}});
    next["qkv"] = rows_between(whole["qkv"], 5, first, last);
    next["position"] = {first};
    next["cache"] = cache;
    next = next.computed(some_keys());
    EXPECT_EQ(next["y"], rows_between(y, 5, first, last));
    cache = next["cache"];
  }
  EXPECT_EQ(std::ranges::count(cache, 77), 2 * 2 * 3) << "the last position is untouched";
}

TEST(ResidueAttention, of_an_illegal_place_is_not_finite) {
  ResidueTrial beyond(Attention{{}, 0, {}, 0, 0, true}, {{1, 2, 3, 1, 1}, {1, 2}});
  beyond["document_starts"] = {0, 2};
  EXPECT_EQ(beyond.computed(some_keys())["y"][1], not_finite);
  beyond["document_starts"] = {0, ~Residue{0}};
  EXPECT_EQ(beyond.computed(some_keys())["y"][1], not_finite);
  ResidueTrial late(AttentionCached{4}, {{1, 2, 3, 1, 1}, {}});
  for (const Residue position : {Residue{3}, ~Residue{0}, ~Residue{0} - 1}) {
    late["position"] = {position};
    EXPECT_EQ(late.computed(some_keys())["y"], std::vector<Residue>(2, not_finite));
  }
}

// --- losses

TEST(ResidueLoss, is_the_logarithm_of_a_probability_and_has_its_gradient) {
  const ResidueTrial loss = ResidueTrial(CrossEntropy{}, {{6, 5}, {6}}).computed(some_keys());
  ResidueTrial gradient(CrossEntropyGradient{0.25}, {{6, 5}, {6}, {6}});
  for (const std::string_view name : {"logits", "labels", "lse"}) gradient[name] = loss[name];
  gradient = gradient.computed(some_keys());
  for (std::size_t row = 0; row < 6; ++row) {
    const std::span logits = std::span(loss["logits"]).subspan(row * 5, 5);
    const std::span grads = std::span(gradient["logits_grad"]).subspan(row * 5, 5);
    Residue sum = 0, sum_of_grads = 0;
    for (std::size_t v = 0; v < 5; ++v) {
      sum = add(sum, some_keys().exponential(logits[v]));
      sum_of_grads = add(sum_of_grads, grads[v]);
    }
    EXPECT_EQ(some_keys().exponential(loss["lse"][row]), sum);
    EXPECT_EQ(sum_of_grads, 0U) << "probabilities add up to 1, and so does the label's";
    const Residue label = loss["labels"][row];
    if (label == ~Residue{0}) {
      EXPECT_EQ(loss["token_loss"][row], 0U);
      EXPECT_EQ(std::ranges::count(grads, 0), 5);
      continue;
    }
    EXPECT_EQ(add(loss["token_loss"][row], logits[label]), loss["lse"][row]);
    const Residue p = divide(some_keys().exponential(logits[label]), sum);
    EXPECT_EQ(multiply(4, grads[label]), subtract(p, 1));
  }
}

TEST(ResidueLoss, of_shares_of_the_vocabulary_is_that_of_the_whole) {
  // Seven columns, and a share of padding alone.
  const ResidueTrial whole = ResidueTrial(CrossEntropy{}, {{6, 7}, {6}}).computed(some_keys());
  constexpr std::size_t shares = 3, share = 4;
  const auto cut = [&](ResidueTrial& trial, std::size_t rank) {
    for (std::size_t row = 0; row < 6; ++row)
      for (std::size_t v = 0; v < share; ++v) {
        const std::size_t column = rank * share + v;
        trial["logits"][row * share + v] = column < 7 ? whole["logits"][row * 7 + column] : 5;
      }
  };
  const auto first = [](std::size_t rank) { return static_cast<std::int64_t>(rank * share); };
  std::vector<Residue> max(6, minus_infinity), sum_exp(6, 0), label_logit(6, 0);
  for (std::size_t rank = 0; rank < shares; ++rank) {
    ResidueTrial part(LogitMax{first(rank), 7}, {{6, share}});
    cut(part, rank);
    part = part.computed(some_keys());
    for (std::size_t row = 0; row < 6; ++row)
      max[row] = some_keys().larger(max[row], part["max"][row]);
    EXPECT_EQ(std::ranges::count(part["max"], minus_infinity), rank == 2 ? 6 : 0);
  }
  for (std::size_t rank = 0; rank < shares; ++rank) {
    ResidueTrial part(LogitSums{first(rank), 7}, {{6, share}, {6}, {6}});
    cut(part, rank);
    part["labels"] = whole["labels"], part["max"] = max;
    part = part.computed(some_keys());
    for (std::size_t row = 0; row < 6; ++row) {
      sum_exp[row] = add(sum_exp[row], part["sum_exp"][row]);
      label_logit[row] = add(label_logit[row], part["label_logit"][row]);
    }
  }
  ResidueTrial merge(CrossEntropyMerge{}, {{6}, {6}, {6}, {6}});
  merge["max"] = max, merge["sum_exp"] = sum_exp, merge["label_logit"] = label_logit;
  merge["labels"] = whole["labels"];
  merge = merge.computed(some_keys());
  EXPECT_EQ(merge["token_loss"], whole["token_loss"]);
  EXPECT_EQ(merge["lse"], whole["lse"]);
}

TEST(ResidueLoss, of_a_label_that_the_vocabulary_lacks_is_not_finite) {
  ResidueTrial loss(CrossEntropy{}, {{2, 3}, {2}});
  loss["labels"] = {3, 2};
  loss = loss.computed(some_keys());
  EXPECT_EQ(loss["token_loss"][0], not_finite);
  EXPECT_NE(loss["token_loss"][1], not_finite);
}

// --- updates

TEST(ResidueUpdate, computes_moments_and_sgd_as_numbers_have_them) {
  const auto given = [](ResidueTrial trial) {
    const std::pair<std::string_view, double> values[] = {
        {"grad", 3},     {"lr", 0.5}, {"scale", 0.25}, {"weight", 10},
        {"momentum", 2}, {"m", 2},    {"v", 4}};
    for (const auto& [name, value] : values)
      if (trial.find(name) < trial.operands.size()) trial[name][0] = residue_of(value);
    return trial.computed(some_keys());
  };
  const std::vector<Shape> reads = {{1}, {}, {}, {}};
  // g = 0.25 3 + 0.125 10 = 2, momentum = 0.5 2 + 2 = 3.
  const ResidueTrial plain = given({Sgd{0.5, 0.125}, reads});
  EXPECT_EQ(plain["momentum"][0], residue_of(3));
  EXPECT_EQ(plain["weight"][0], residue_of(10 - 0.5 * 3));
  const ResidueTrial nesterov = given({Sgd{0.5, 0.125, true}, reads});
  EXPECT_EQ(nesterov["weight"][0], residue_of(10 - 0.5 * (2 + 0.5 * 3)));
  const ResidueTrial adamw = given({AdamW{0.5, 0.75}, {{1}, {}, {}, {}, {}}});
  EXPECT_EQ(adamw["m"][0], residue_of(0.5 * 2 + 0.5 * 0.75));
  EXPECT_EQ(adamw["v"][0], residue_of(0.75 * 4 + 0.25 * 0.75 * 0.75));
}

TEST(ResidueUpdate, is_voted_on_by_what_is_finite_and_counted) {
  const ResidueTrial fit(Vote{}, std::vector<Shape>(6));
  const auto vote = static_cast<std::int64_t>(fit["vote"][0]);
  const auto votes = [&](std::string_view name, Residue value) {
    ResidueTrial trial = fit;
    trial[name] = {value};
    return static_cast<std::int64_t>(trial.computed(some_keys())["votes"][0]) - vote;
  };
  const std::int64_t against = Votes{.against = 1}.packed();
  for (const std::string_view name : {"squared_norm", "loss_sum", "lr"}) {
    EXPECT_EQ(votes(name, 0), 0);
    EXPECT_EQ(votes(name, not_finite), against);
  }
  EXPECT_EQ(votes("valid_count", 0), against);
  EXPECT_EQ(votes("valid_count", ~Residue{0}), against) << "less than none";
  EXPECT_EQ(votes("non_finite", 1), against);

  ResidueTrial control(UpdateControl{6}, std::vector<Shape>(3));
  control["valid_count"] = {3};
  EXPECT_EQ(control.computed(some_keys())["scale"][0], 2U) << "without clipping";
  EXPECT_EQ(control.computed(some_keys())["applied"][0], 1U);
  control["votes"][0] += static_cast<Residue>(against);
  EXPECT_EQ(control.computed(some_keys())["applied"][0], 0U);
  control["valid_count"] = {0};
  EXPECT_EQ(control.computed(some_keys())["scale"][0], 0U);
  EXPECT_EQ(control.computed(some_keys())["grad_norm"][0], 0U);
}

}  // namespace
}  // namespace fourfold::op
