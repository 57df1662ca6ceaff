// Residue forms: rows that compute the same, or one row in several ways, give the same residues.
#include <gtest/gtest.h>

#include "op/examples.h"
#include "support/chains.h"
#include "support/residue_shares.h"

namespace fourfold::op {
namespace {

std::string text_of(const Op& op) {
  return std::string(name(op)) + " " + attributes_text(op, std::nullopt);
}

OwnTensors computed(const Op& op, const Residues& residues, OwnTensors all) {
  compute_whole(op, residues, all);
  return all;
}

/// Calls body(op, operands, residues, draw) for each example of a row that stands for itself, so
/// many times. In half of them the operands are whole, and in a quarter an element is not finite.
template <class Body>
void for_each_example(int times, Body body) {
  std::uint64_t seed = 0;
  for (int time = 0; time < times; ++time)
    for (const Example& example : examples()) {
      if (!stands_for_itself(example.op)) continue;
      Draw draw(++seed);
      OwnTensors operands = draw_operands(example.op, example.reads, draw);
      if (draw.below(4) == 0) plant_not_finite(example.op, operands, draw);
      const Op op = draw.coin() ? told_whole(example.op, shapes_of(operands)) : example.op;
      SCOPED_TRACE(text_of(op) + ", seed " + std::to_string(seed));
      body(op, operands, Residues(seed), draw);
    }
}

TEST(ResiduePairs, ranks_that_share_factors_join_to_the_whole) {
  int cuts = 0;
  for_each_example(
      6, [&](const Op& op, const OwnTensors& operands, const Residues& residues, Draw& draw) {
        const OwnTensors whole = computed(op, residues, operands);
        for (const char factor : factors_to_cut(op, shapes_of(operands))) {
          SCOPED_TRACE(std::string("factor ") + factor);
          OwnTensors joined = operands;
          Sharing(residues, draw).by_ranks(op, joined, factor, static_cast<int>(draw.below(3)));
          EXPECT_EQ(joined, whole);
          ++cuts;
        }
      });
  EXPECT_GE(cuts, 1000);
}

/// True if shares of the factor are terms of all outputs to which the op can add.
bool adds_up(const Op& op, const std::vector<Shape>& shapes, char factor) {
  const Operands list = operands(with_accumulate(op, false));
  const FactorCut cut(op, shapes, factor);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].role == Role::write && !cut.is_reduced(i)) return false;
  return true;
}

TEST(ResiduePairs, shares_one_after_another_add_up_to_the_whole) {
  int cuts = 0;
  for_each_example(
      6, [&](const Op& op, const OwnTensors& operands, const Residues& residues, Draw& draw) {
        if (!can_accumulate(op)) return;
        const OwnTensors whole = computed(with_accumulate(op, false), residues, operands);
        for (const char factor : factors_to_cut(op, shapes_of(operands))) {
          if (!adds_up(op, shapes_of(operands), factor)) continue;
          SCOPED_TRACE(std::string("factor ") + factor);
          OwnTensors added = operands;
          Sharing(residues, draw).by_turns(op, added, factor);
          EXPECT_EQ(added, whole);
          ++cuts;
        }
      });
  EXPECT_GE(cuts, 100);
}

// --- cut forms

/// Computes the rows of a cut form, each by ranks that share the last dim of its first operand, or
/// whole. `all` has the operands of the op itself.
void compute_cut_form(const Op& op, std::int64_t chunks, bool is_cut, const Residues& residues,
                      Draw& draw, OwnTensors& all) {
  const std::size_t own = all.size();
  const std::vector<Shape> shapes = shapes_of(all);
  const CutForm form = *cut_form(op, std::span(shapes).first(number_of_reads(op)), chunks);
  all.resize(own + form.between.size());
  for (const Piece& row : form.rows) {
    OwnTensors operands_of_row;
    std::vector<Shape> reads;
    for (std::size_t i = 0; i < number_of_reads(row.op); ++i) {
      operands_of_row.push_back(all[row.operands[i]]);
      reads.push_back(all[row.operands[i]].shape);
    }
    for (const Shape& shape : outputs(row.op, reads)) operands_of_row.push_back(draw.tensor(shape));
    const FactorRule rule = factors(row.op, reads);
    const char factor = rule.operands[0][reads[0].rank() - 1].front();
    if (is_cut && FactorCut(row.op, shapes_of(operands_of_row), factor).size() > 1)
      Sharing(residues, draw).by_ranks(row.op, operands_of_row, factor, 1);
    else
      compute_whole(row.op, residues, operands_of_row);
    for (std::size_t i = 0; i < row.operands.size(); ++i)
      all[row.operands[i]] = std::move(operands_of_row[i]);
  }
  all.resize(own);
}

TEST(ResiduePairs, cut_forms_give_what_their_rows_do) {
  int cuts = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Draw draw(seed);
    const Residues residues(seed);
    const std::int64_t chunks = 1 + draw.below(4), columns = chunks * (1 + draw.below(3));
    const Shape rows{2, 1 + draw.below(3)}, gain{columns}, x{rows[0], rows[1], columns};
    const std::pair<Op, std::vector<Shape>> trials[] = {
        {LayerNorm{1e-6, false}, {x, gain}},
        {LayerNorm{}, {x, gain, gain}},
        {LayerNormGradient{}, {x, gain, rows, rows, x}},
        {LayerNorm{1e-6, false, false, false}, {x, gain}},
        {LayerNormGradient{false, false}, {x, gain, rows, x}},
        {CrossEntropy{}, {x, rows}}};
    for (const auto& [op, reads] : trials) {
      SCOPED_TRACE(text_of(op) + ", seed " + std::to_string(seed));
      OwnTensors operands = draw_operands(op, reads, draw);
      if (draw.below(4) == 0) plant_not_finite(op, operands, draw);
      const OwnTensors whole = computed(op, residues, operands);
      for (const bool is_cut : {false, true}) {
        OwnTensors made = operands;
        compute_cut_form(op, chunks, is_cut, residues, draw, made);
        EXPECT_EQ(made, whole);
        ++cuts;
      }
    }
  }
  EXPECT_GE(cuts, 700);
}

// --- rows that stand for several

TEST(ResiduePairs, a_list_of_casts_is_each_of_them) {
  Draw draw(1);
  const Residues residues(1);
  const OwnTensors x = {draw.tensor({2, 3}), draw.tensor({4}), draw.tensor({})};
  EXPECT_EQ(outputs_for(CastList{3}, residues, x), x);
  EXPECT_EQ(outputs_for(Cast{}, residues, {x[0]}), (OwnTensors{x[0]}));
}

TEST(ResiduePairs, a_squared_norm_of_several_is_the_sum_of_those_of_each) {
  Draw draw(1);
  const Residues residues(1);
  OwnTensors all = {draw.tensor({2, 3}), draw.tensor({4}), draw.tensor({5}), draw.tensor({})};
  for (const bool accumulate : {false, true}) {
    Residue sum = accumulate ? all[3].elements[0] : 0;
    for (const std::size_t i : {0U, 1U, 2U})
      sum = add(sum, outputs_for(SquaredNorm{}, residues, {all[i]})[0].elements[0]);
    compute_pieces(SquaredNorm{accumulate, 3}, residues, all);
    EXPECT_EQ(all[3].elements[0], sum);
  }
}

TEST(ResiduePairs, a_list_of_moving_averages_is_each_of_them) {
  Draw draw(1);
  const Residues residues(1);
  for (const Residue applied : {0U, 1U}) {
    OwnTensors all = {{{}, {applied}, true}};
    for (int i = 0; i < 2; ++i)
      for (const Shape& shape : {Shape{2, 3}, Shape{4}}) all.push_back(draw.tensor(shape));
    OwnTensors averages;
    for (const std::size_t i : {1U, 2U}) {
      OwnTensors one = {all[i], all[0], all[2 + i]};
      compute_whole(MovingAverage{0.75}, residues, one);
      averages.push_back(one[2]);
    }
    EXPECT_EQ(averages == OwnTensors(all.end() - 2, all.end()), applied == 0);
    compute_pieces(MovingAverageList{0.75, 2}, residues, all);
    EXPECT_EQ(OwnTensors(all.end() - 2, all.end()), averages);
  }
}

/// Computes a list of three updates of which two decay, and each of them by itself.
template <class One>
void expect_list_of_updates(const One& settings, const One& without_decay, std::uint64_t seed) {
  Draw draw(seed);
  const Residues residues(seed);
  const std::vector<Shape> tensors = {{2, 3}, {4}, {1, 5}};
  const Operands own = settings.operands();
  // Operands of the list: scalars, gradients, what each update changes, the count.
  OwnTensors scalars, gradients, all;
  for (const Operand& operand : own)
    if (operand.role == Role::read && operand.state != State::gradient)
      scalars.push_back(holds_integers(operand.element) ? draw_integers(operand, {}, 1000, draw)
                                                        : draw.tensor({}));
  for (const Shape& shape : tensors) gradients.push_back(draw.tensor(shape));
  if (draw.coin()) gradients[1].elements[2] = not_finite;
  all = scalars;
  all.insert(all.end(), gradients.begin(), gradients.end());
  OwnTensors changed;
  OwnTensor count = draw.tensor({}, true);
  Residue found = settings.accumulate ? count.elements[0] : 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    OwnTensors one = {gradients[i]};
    one.insert(one.end(), scalars.begin(), scalars.end());
    while (one.size() + 1 < own.size()) one.push_back(draw.tensor(tensors[i]));
    all.insert(all.end(), one.begin() + static_cast<std::ptrdiff_t>(1 + scalars.size()), one.end());
    one.push_back(draw.tensor({}, true));
    compute_whole(with_accumulate(i < 2 ? settings : without_decay, false), residues, one);
    changed.insert(changed.end(), one.begin() + static_cast<std::ptrdiff_t>(1 + scalars.size()),
                   one.end() - 1);
    found += one.back().elements[0];
  }
  all.push_back(count);
  compute_pieces(UpdateList<One>::of(settings, 3, 2), residues, all);
  const auto end = all.end() - 1;
  EXPECT_EQ(OwnTensors(end - std::ssize(changed), end), changed);
  EXPECT_EQ(all.back().elements[0], found);
}

TEST(ResiduePairs, a_list_of_updates_is_each_of_them) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const bool accumulate = seed % 2 == 0, rounds = seed % 3 == 0;
    expect_list_of_updates<AdamW>({0.8, 0.99, 1e-9, 0.1, accumulate, rounds},
                                  {0.8, 0.99, 1e-9, 0, accumulate, rounds}, seed);
    expect_list_of_updates<Sgd>({0.8, 0.1, seed % 5 == 0, accumulate, rounds},
                                {0.8, 0, seed % 5 == 0, accumulate, rounds}, seed);
    expect_list_of_updates<Lion>({0.8, 0.95, 0.1, accumulate, rounds},
                                 {0.8, 0.95, 0, accumulate, rounds}, seed);
  }
}

TEST(ResiduePairs, a_chain_is_its_rows_one_after_another) {
  Draw draw(1);
  const Residues residues(1);
  const auto made = [&](const Op& op, const OwnTensors& reads) {
    return outputs_for(op, residues, reads);
  };
  const OwnTensor x = draw.tensor({2, 3, 4}), other = draw.tensor({2, 3, 4}),
                  gain = draw.tensor({4}), bias = draw.tensor({4}), weight = draw.tensor({4, 5}),
                  wide_bias = draw.tensor({5}), seed = draw.tensor({}, true),
                  step = draw.tensor({}, true);

  const OwnTensor sum = made(AddBias{}, {x, bias})[0];
  EXPECT_EQ(made(bias_gelu(), {x, bias}), (OwnTensors{sum, made(Gelu{}, {sum})[0]}));

  const OwnTensor product = made(Contract{2, 1}, {x, weight})[0],
                  raised = made(AddBias{}, {product, wide_bias})[0];
  EXPECT_EQ(made(product_and_bias({2, 1}), {x, weight, wide_bias}), OwnTensors{raised});
  EXPECT_EQ(made(product_bias_gelu({2, 1}), {x, weight, wide_bias}),
            (OwnTensors{raised, made(Gelu{}, {raised})[0]}));

  const Dropout dropout{{7}, 0.5, {1, 4, 2}, {}};
  const OwnTensor dropped = made(dropout, {sum, seed, step})[0],
                  stream = made(Add{}, {dropped, other})[0];
  OwnTensors expected = made(LayerNorm{}, {stream, gain, bias});
  const OwnTensors norm = expected;
  expected.insert(expected.begin(), stream);
  EXPECT_EQ(made(residual_norm({}, true, dropout), {x, bias, seed, step, other, gain, bias}),
            expected);
  EXPECT_EQ(made(wide_residual_norm({}), {dropped, other, gain, bias}), expected);

  const OwnTensor y_grad = draw.tensor({2, 3, 4});
  const OwnTensors reads = {stream, gain, norm[1], norm[2], y_grad};
  const OwnTensor grad = made(Add{}, {made(LayerNormGradient{}, reads)[0], other})[0],
                  branch = made(dropout, {grad, seed, step})[0];
  OwnTensors more = reads;
  more.insert(more.end(), {other, seed, step});
  EXPECT_EQ(made(residual_norm_gradient(true, dropout), more), (OwnTensors{grad, branch}));
  EXPECT_EQ(made(wide_residual_norm_gradient(true, dropout), more), (OwnTensors{grad, branch}));
  OwnTensors sums = made(LayerNormWeightGradient{}, {stream, norm[1], norm[2], y_grad});
  sums.insert(sums.end(), {grad, branch, made(BiasGradient{2}, {branch})[0]});
  for (const bool wide : {false, true})
    EXPECT_EQ(made(norm_gradients({true, true}, wide, true, dropout, 2), more), sums);

  const OwnTensor labels{{2, 3}, {0, 3, ~Residue{0}, 1, 2, 2}, true};
  OwnTensors loss = made(CrossEntropy{}, {x, labels});
  loss.push_back(made(CrossEntropyGradient{0.25}, {x, labels, loss[1]})[0]);
  EXPECT_EQ(made(loss_and_gradient(0.25), {x, labels}), loss);
}

}  // namespace
}  // namespace fourfold::op
