// Norms, the decision about an update, the optimizers and what they find not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/format.h"
#include "numerics/harness.h"
#include "op/blocks.h"

namespace fourfold::numerics {
namespace {

Arrays adamw_reads(const Array& grad, double lr, double scale, bool applied, double updates) {
  return {grad, scalar(lr), scalar(scale), scalar(applied ? 1 : 0), scalar(updates)};
}

Arrays adamw_magnitude(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::AdamW>();
  const double lr = sample.reads[1].data[0], scale = sample.reads[2].data[0],
               t = sample.reads[4].data[0] + 1;
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const double g = std::abs(scale * sample.reads[0].data[i]);
    const double m = op.beta1 * std::abs(sample.updates[1].data[i]) + (1 - op.beta1) * g;
    const double root = std::sqrt(outputs[2].data[i] / (1 - std::pow(op.beta2, t)));
    magnitude[0].data[i] = std::abs(sample.updates[0].data[i]) * (1 + lr * op.weight_decay) +
                           lr * m / (1 - std::pow(op.beta1, t)) / (root + op.epsilon);
    magnitude[1].data[i] = m;
  }
  return magnitude;
}

/// Each term of the update by its size; a momentum that cancels leaves the rounding of its terms.
Arrays sgd_magnitude(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::Sgd>();
  const double lr = sample.reads[1].data[0], scale = sample.reads[2].data[0];
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const double weight = std::abs(sample.updates[0].data[i]);
    const double g = std::abs(scale * sample.reads[0].data[i]) + op.weight_decay * weight;
    const double momentum = op.mu * std::abs(sample.updates[1].data[i]) + g;
    magnitude[0].data[i] = weight + lr * (op.nesterov ? g + op.mu * momentum : momentum);
    magnitude[1].data[i] = momentum;
  }
  return magnitude;
}

/// A step has the size of the rate whatever the average is.
Arrays lion_magnitude(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::Lion>();
  const double lr = sample.reads[1].data[0], scale = sample.reads[2].data[0];
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const double g = std::abs(scale * sample.reads[0].data[i]);
    magnitude[0].data[i] = std::abs(sample.updates[0].data[i]) * (1 + lr * op.weight_decay) + lr;
    magnitude[1].data[i] = op.beta2 * std::abs(sample.updates[1].data[i]) + (1 - op.beta2) * g;
  }
  return magnitude;
}

/// The magnitudes of a list are those of its tensors; an update's first `reads` operands are read.
Case with_magnitude_of_parts(Case sample, std::size_t reads_of_one,
                             Arrays (*magnitude_of_one)(const Case&, const Arrays&)) {
  sample.magnitude = [=](const Case& all, const Arrays& outputs) {
    Arrays magnitude;
    for (const op::Piece& part : op::pieces(all.op)) {
      Case one{all.name, part.op, {}};
      Arrays own;
      for (std::size_t i = 0; i < part.operands.size(); ++i) {
        const std::size_t operand = part.operands[i], reads = all.reads.size();
        if (i < reads_of_one) {
          one.reads.push_back(all.reads[operand]);
          continue;
        }
        if (operand - reads >= all.updates.size()) continue;  // the count, which all parts have
        one.updates.push_back(all.updates[operand - reads]);
        own.push_back(outputs[operand - reads]);
      }
      for (Array& array : magnitude_of_one(one, own)) magnitude.push_back(std::move(array));
    }
    magnitude.push_back(outputs.back());
    return magnitude;
  };
  return sample;
}

/// A list of updates by the optimizer of `settings`, the first `decayed` of its tensors with weight
/// decay.
template <class Row>
Case list_case(std::string name, const Row& settings, const std::vector<std::int64_t>& counts,
               std::int64_t decayed, bool applied,
               Arrays (*magnitude_of_one)(const Case&, const Arrays&)) {
  const auto tensors = static_cast<std::int64_t>(counts.size());
  Case sample{std::move(name),
              op::UpdateList<Row>::of(settings, tensors, decayed),
              {scalar(0.01), scalar(0.5), scalar(applied ? 1 : 0)}};
  if (Row::update.counts_updates) sample.reads.push_back(scalar(6));
  const std::size_t reads_of_one = sample.reads.size() + 1;
  for (const std::int64_t count : counts)
    sample.reads.push_back(uniform({count}, "grad" + std::to_string(count)));
  for (const std::int64_t count : counts) {
    sample.updates.push_back(uniform({count}, "weight" + std::to_string(count)));
    for (const op::Moment& moment : Row::update.moments) {
      const double low = moment.domain.low > 0 ? 0.1 : -1;
      sample.updates.push_back(
          uniform({count}, std::string(moment.name) + std::to_string(count), low, 1));
    }
  }
  return with_magnitude_of_parts(std::move(sample), reads_of_one, magnitude_of_one);
}

constexpr op::AdamW usual_adamw{0.9, 0.95, 1e-8, 0.1};
constexpr op::Sgd usual_sgd{0.9, 0.1, true};
// Betas of few bits: the sign of an average that cancels does not depend on how it is rounded.
constexpr op::Lion usual_lion{0.875, 0.984375, 0.1};

/// Moving averages of tensors of these sizes.
Case averages_case(const std::vector<std::int64_t>& counts, bool applied) {
  Case sample{applied ? "applied" : "not applied",
              op::MovingAverageList{0.75, static_cast<std::int64_t>(counts.size())},
              {scalar(applied ? 1 : 0)}};
  for (const std::int64_t count : counts) {
    sample.reads.push_back(uniform({count}, "weight" + std::to_string(count)));
    sample.updates.push_back(uniform({count}, "average" + std::to_string(count)));
  }
  return sample;
}

/// Tensors of these sizes.
Arrays addends(const std::vector<std::int64_t>& counts) {
  Arrays list;
  for (const std::int64_t count : counts)
    list.push_back(uniform({count}, "x" + std::to_string(count)));
  return list;
}

Arrays vote_reads(const op::Votes& vote, double squared_norm, double loss, double tokens,
                  double non_finite, double lr) {
  return {scalar(static_cast<double>(vote.packed())),
          scalar(squared_norm),
          scalar(loss),
          scalar(tokens),
          scalar(non_finite),
          scalar(lr)};
}

Arrays control_reads(double squared_norm, double tokens, const op::Votes& votes) {
  return {scalar(squared_norm), scalar(tokens), scalar(static_cast<double>(votes.packed()))};
}

}  // namespace

std::vector<Case> update_cases() {
  std::vector<Case> cases;
  for (const std::int64_t count : {1, 77, 70001}) {
    const Array x = uniform({count}, "x"), grad = uniform({count}, "grad");
    const auto length = static_cast<double>(count);
    cases.push_back({"overwriting", op::SquaredNorm{false}, {x}, {}, length});
    cases.push_back({"adding", op::SquaredNorm{true}, {x}, {scalar(2.5)}, length});
    const Arrays state = {uniform({count}, "weight"), uniform({count}, "m"),
                          uniform({count}, "v", 0.1, 1)};
    for (const bool applied : {true, false})
      cases.push_back({applied ? "applied" : "not applied", usual_adamw,
                       adamw_reads(grad, 0.01, 0.5, applied, 6), state, 1, adamw_magnitude});
    for (const bool nesterov : {false, true})
      for (const bool applied : {true, false})
        cases.push_back(
            {format("{}, {}", nesterov ? "nesterov" : "plain", applied ? "applied" : "not applied"),
             op::Sgd{0.9, 0.1, nesterov},
             {grad, scalar(0.01), scalar(0.5), scalar(applied ? 1 : 0)},
             {state[0], state[1]},
             1,
             sgd_magnitude});
    for (const bool applied : {true, false})
      cases.push_back({applied ? "applied" : "not applied",
                       usual_lion,
                       {grad, scalar(0.01), scalar(0.5), scalar(applied ? 1 : 0)},
                       {state[0], state[1]},
                       1,
                       lion_magnitude});
  }
  // Many: more than one launch of a GPU takes.
  const std::vector<std::int64_t> odd = {70001, 1, 77, 16384, 20000}, many(1300, 3);
  for (const auto& counts : {odd, many}) {
    const auto tensors = static_cast<std::int64_t>(counts.size());
    const double length = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0));
    cases.push_back({"of tensors", op::SquaredNorm{false, tensors}, addends(counts), {}, length});
    cases.push_back({"of tensors, adding",
                     op::SquaredNorm{true, tensors},
                     addends(counts),
                     {scalar(2.5)},
                     length});
  }
  for (const bool applied : {true, false}) {
    const std::string name = applied ? "tensors of odd sizes" : "not applied";
    const std::vector<std::int64_t> counts = {70001, 1, 77, 20000};
    cases.push_back(list_case("one tensor", usual_adamw, {33}, 1, applied, adamw_magnitude));
    cases.push_back(list_case(name, usual_adamw, counts, 2, applied, adamw_magnitude));
    cases.push_back(list_case(name, usual_sgd, counts, 2, applied, sgd_magnitude));
    cases.push_back(list_case(name, usual_lion, counts, 2, applied, lion_magnitude));
    for (const auto& averaged : {std::vector<std::int64_t>{33}, odd, many})
      cases.push_back(averages_case(averaged, applied));
  }
  cases.push_back({"clipping", op::UpdateControl{96, 1.0}, control_reads(25, 90, {})});
  cases.push_back(
      {"not clipping", op::UpdateControl{96, 0}, control_reads(25, 96, {.against = 2})});
  cases.push_back({"fit", op::Vote{}, vote_reads({.stop = 1}, 25, 100, 90, 0, 0.1)});
  cases.push_back({"not fit", op::Vote{}, vote_reads({.save = 1}, 25, 100, 90, 7, 0.1)});
  cases.push_back({"applied", op::CountUpdate{}, {scalar(1)}, {scalar(41)}});
  cases.push_back({"not applied", op::CountUpdate{}, {scalar(0)}, {scalar(41)}});
  cases.push_back({"some", op::CountNonFinite{}, {scalar(3)}, {scalar(4)}});
  // What a fault of memory may leave: the sum has no meaning, but it is defined.
  cases.push_back({"beyond all counts", op::CountNonFinite{}, {scalar(9e18)}, {scalar(9e18)}});
  return cases;
}

namespace {

TEST(SquaredNorm, of_several_tensors_has_the_bits_of_one_after_another) {
  const Arrays tensors = addends({70001, 1, 77, 40000});
  for (const char* backend : {"reference", "vector"}) {
    double one_by_one = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      one_by_one = apply(op::SquaredNorm{i > 0}, {backend}, {tensors[i]},
                         i > 0 ? Arrays{scalar(one_by_one)} : Arrays{})
                       .values[0]
                       .data[0];
    EXPECT_EQ(apply(op::SquaredNorm{false, 4}, {backend}, tensors).values[0].data[0], one_by_one)
        << backend;
  }
}

/// The state of an optimizer of 40 elements, `moments` of them beside the weight, that faults of
/// memory have hit in every seventh element.
Arrays faulty_state(std::size_t moments) {
  Arrays state = {uniform({40}, "weight")};
  while (state.size() <= moments)
    state.push_back(uniform({40}, "moment" + std::to_string(state.size()), 0.1, 1));
  state.back().data[7] = NAN;
  state.back().data[14] = INFINITY;
  state.back().data[21] = -INFINITY;
  state[1].data[28] = NAN;
  state[0].data[35] = INFINITY;
  return state;
}
constexpr double faults = 5;

/// Checks that an update keeps and counts the faulty elements, and writes the others as one without
/// faults does.
void expect_kept_and_counted(const op::Op& op, const Arrays& reads, std::size_t moments) {
  Arrays sound, faulty = faulty_state(moments);
  sound = faulty;
  for (Array& tensor : sound)
    for (double& value : tensor.data)
      if (!std::isfinite(value)) value = 0.5;
  for (const Backend& backend : backends_of(op)) {
    SCOPED_TRACE(to_string(backend));
    const Arrays expected = apply(op, backend, reads, sound).values,
                 found = apply(op, backend, reads, faulty).values;
    const Array before = rounded(op, reads.size(), backend.dtype, faulty[0]);
    EXPECT_EQ(expected.back().data[0], 0);
    EXPECT_EQ(found.back().data[0], faults);
    for (std::size_t i = 0; i < 40; ++i)
      EXPECT_EQ(found[0].data[i], i > 0 && i % 7 == 0 ? before.data[i] : expected[0].data[i]) << i;
    const op::Op more = op::with_accumulate(op, true);
    Arrays state = faulty;
    state.push_back(scalar(4));
    EXPECT_EQ(apply(more, backend, reads, state).values.back().data[0], 4 + faults);
  }
}

TEST(AdamW, keeps_and_counts_what_would_not_be_finite) {
  expect_kept_and_counted(op::AdamW{}, adamw_reads(uniform({40}, "grad"), 0.1, 1, true, 3), 2);
}

TEST(AdamW, counts_a_negative_average_of_squares) {
  Arrays state = {uniform({40}, "weight"), uniform({40}, "m"), uniform({40}, "v", 0.1, 1)};
  state[2].data[3] = -1;
  for (const Backend& backend : backends_of(op::AdamW{})) {
    const Arrays found =
        apply(op::AdamW{}, backend, adamw_reads(uniform({40}, "grad"), 0.1, 1, true, 3), state)
            .values;
    EXPECT_EQ(found.back().data[0], 1) << to_string(backend);
    EXPECT_EQ(found[0].data[3], rounded(op::AdamW{}, 5, backend.dtype, state[0]).data[3]);
  }
}

TEST(Sgd, keeps_and_counts_what_would_not_be_finite) {
  for (const bool nesterov : {false, true})
    expect_kept_and_counted(op::Sgd{0.9, 0.1, nesterov},
                            {uniform({40}, "grad"), scalar(0.1), scalar(1), scalar(1)}, 1);
}

TEST(Lion, keeps_and_counts_what_would_not_be_finite) {
  expect_kept_and_counted(usual_lion, {uniform({40}, "grad"), scalar(0.1), scalar(1), scalar(1)},
                          1);
}

TEST(AdamWList, counts_in_all_of_its_tensors) {
  const auto list = op::AdamWList::of({}, 2, 1);
  const Array grad = uniform({40}, "grad");
  const Arrays reads = {scalar(0.1), scalar(1), scalar(1), scalar(3), grad, grad};
  Arrays state = faulty_state(2);
  for (const Array& tensor : faulty_state(2)) state.push_back(tensor);
  for (const Backend& backend : backends_of(op::Op(list)))
    EXPECT_EQ(apply(list, backend, reads, state).values.back().data[0], 2 * faults)
        << to_string(backend);
}

TEST(Vote, is_against_what_is_not_finite_or_empty_and_keeps_what_the_host_says) {
  const op::Votes host{.stop = 3, .written = 2};  // a double holds what it packs
  const auto against = [&](double squared_norm, double loss, double tokens, double non_finite,
                           double lr) {
    const Arrays reads = vote_reads(host, squared_norm, loss, tokens, non_finite, lr);
    const op::Votes votes = op::Votes::of(
        static_cast<std::int64_t>(apply(op::Vote{}, {"vector"}, reads).values[0].data[0]));
    EXPECT_EQ(votes, (op::Votes{.stop = 3, .written = 2, .against = votes.against}));
    return votes.against;
  };
  EXPECT_EQ(against(1, 1, 1, 0, 0.1), 0);
  EXPECT_EQ(against(NAN, 1, 1, 0, 0.1), 1);
  EXPECT_EQ(against(INFINITY, 1, 1, 0, 0.1), 1);
  EXPECT_EQ(against(1, INFINITY, 1, 0, 0.1), 1);
  EXPECT_EQ(against(1, 1, 0, 0, 0.1), 1);
  EXPECT_EQ(against(1, 1, 1, 3, 0.1), 1);
  EXPECT_EQ(against(1, 1, 1, 0, NAN), 1);
}

TEST(UpdateControl, clips_as_pytorch_does_and_scales_by_nominal_over_valid_tokens) {
  const Arrays out = apply(op::UpdateControl{100, 2}, {"vector"}, control_reads(36, 50, {})).values;
  EXPECT_DOUBLE_EQ(out[0].data[0], 12);
  EXPECT_DOUBLE_EQ(out[1].data[0], 2 * (2 / (12 + 1e-6)));
  EXPECT_EQ(out[2].data[0], 1);
}

TEST(UpdateControl, does_not_apply_what_a_rank_voted_against) {
  const auto applied = [](const op::Votes& votes) {
    return apply(op::UpdateControl{100, 2}, {"vector"}, control_reads(1, 1, votes))
        .values[2]
        .data[0];
  };
  EXPECT_EQ(applied({}), 1);
  EXPECT_EQ(applied({.stop = 3, .written = 1}), 1);
  EXPECT_EQ(applied({.against = 1}), 0);
  EXPECT_EQ(applied({.stop = 1, .written = 1, .against = 4}), 0);
}

TEST(AdamW, writes_nothing_when_the_update_is_not_applied) {
  const Arrays state = {uniform({33}, "weight"), uniform({33}, "m"), uniform({33}, "v", 0, 1)};
  Array grad = uniform({33}, "grad");
  grad.data[4] = NAN;
  for (const Backend& backend : backends_of(op::AdamW{})) {
    const Result result = apply(op::AdamW{}, backend, adamw_reads(grad, 0.1, NAN, false, 0), state);
    EXPECT_EQ(result.values[3].data[0], 0) << to_string(backend);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(result.values[i].data, rounded(op::AdamW{}, 5 + i, backend.dtype, state[i]).data)
          << to_string(backend);
  }
}

/// Whatever a step leaves in a weight is what its copy is rounded from: new weights, those that
/// were kept since they would not be finite, and, where nothing is applied, the copy is left alone.
void expect_rounded(const op::Op& op, const Arrays& reads, std::size_t moments, bool applied) {
  const op::Op rounding = op::with_rounded(op);
  Arrays state = faulty_state(moments);
  state.push_back(filled({40}, 3));  // the copy
  for (const Backend& backend : backends_of(rounding)) {
    SCOPED_TRACE(to_string(backend));
    const Arrays found = apply(rounding, backend, reads, state).values;
    const std::size_t copy = moments + 1;
    const Array wanted =
        applied ? rounded(rounding, reads.size() + copy, backend.dtype, found[0]) : filled({40}, 3);
    EXPECT_EQ(found[copy].data, wanted.data);
    if (backend.dtype == DType::bf16) continue;
    const Arrays plain =
        apply(op, backend, reads, {state.begin(), state.begin() + static_cast<int>(copy)}).values;
    EXPECT_EQ(found[0].data, plain[0].data) << "the weight does not depend on it";
  }
}

TEST(AdamW, rounds_the_weights_that_it_leaves) {
  for (const bool applied : {true, false})
    expect_rounded(op::AdamW{}, adamw_reads(uniform({40}, "grad"), 0.1, 1, applied, 3), 2, applied);
}

TEST(Sgd, rounds_the_weights_that_it_leaves) {
  for (const bool applied : {true, false})
    expect_rounded(op::Sgd{0.9, 0.1},
                   {uniform({40}, "grad"), scalar(0.1), scalar(1), scalar(applied ? 1 : 0)}, 1,
                   applied);
}

TEST(Lion, rounds_the_weights_that_it_leaves) {
  for (const bool applied : {true, false})
    expect_rounded(usual_lion,
                   {uniform({40}, "grad"), scalar(0.1), scalar(1), scalar(applied ? 1 : 0)}, 1,
                   applied);
}

TEST(AdamWList, has_the_bits_of_its_tensors_where_it_rounds) {
  const auto list = op::AdamWList::of({.rounds = true}, 2, 1);
  const Array grad = uniform({40}, "grad");
  const Arrays scalars = {scalar(0.1), scalar(1), scalar(1), scalar(3)};
  Arrays reads = scalars, state = faulty_state(2);
  reads.insert(reads.end(), 2, grad);
  state.push_back(filled({40}, 3));
  const Arrays one_state = state;
  state.insert(state.end(), one_state.begin(), one_state.end());
  for (const Backend& backend : backends_of(op::Op(list))) {
    const auto together = apply(list, backend, reads, state).bytes;
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto alone = apply(op::with_accumulate(list.one(i), false), backend,
                               {grad, scalars[0], scalars[1], scalars[2], scalars[3]}, one_state)
                             .bytes;
      for (std::size_t j = 0; j < 4; ++j)
        EXPECT_EQ(together[4 * static_cast<std::size_t>(i) + j], alone[j]) << to_string(backend);
    }
  }
}

/// Ten steps against the update written as in the paper, in long double.
TEST(AdamW, ten_steps_follow_the_paper) {
  const op::AdamW op{0.9, 0.999, 1e-8, 0.01};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Arrays state = {uniform({50}, "weight"), filled({50}, 0), filled({50}, 0)};
    state[0] = rounded(op, 5, dtype, state[0]);
    std::vector<long double> weight(state[0].data.begin(), state[0].data.end()), m(50), v(50);
    for (int t = 1; t <= 10; ++t) {
      const Array grad = rounded(op, 0, dtype, uniform({50}, "grad" + std::to_string(t)));
      state = apply(op, {"vector", dtype}, adamw_reads(grad, 0.01, 1, true, t - 1), state).values;
      state.pop_back();  // the count
      for (std::size_t i = 0; i < 50; ++i) {
        const long double g = grad.data[i];
        m[i] = 0.9L * m[i] + 0.1L * g;
        v[i] = 0.999L * v[i] + 0.001L * g * g;
        weight[i] -= 0.01L * 0.01L * weight[i];
        weight[i] -= 0.01L * (m[i] / (1 - std::pow(0.9L, t))) /
                     (std::sqrt(v[i] / (1 - std::pow(0.999L, t))) + 1e-8L);
      }
    }
    for (std::size_t i = 0; i < 50; ++i)
      EXPECT_NEAR(state[0].data[i], static_cast<double>(weight[i]),
                  dtype == DType::f32 ? 2e-5 : 1e-11);
  }
}

/// Four steps of one weight whose gradient turns, as algorithm 2 of the paper has them by hand; a
/// direction of zero moves nothing.
TEST(Lion, steps_by_the_sign_of_the_average_that_has_seen_more_of_the_gradient) {
  const op::Lion op{0.5, 0.75};
  Arrays state = {Array{{1}, {1}}, Array{{1}, {0}}};
  const std::vector<double> gradients = {2, -0.5, 1, -2}, weights = {0.875, 0.875, 0.75, 0.875},
                            averages = {0.5, 0.25, 0.4375, -0.171875};
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    state = apply(op, {"vector", DType::f64},
                  {Array{{1}, {gradients[t]}}, scalar(0.125), scalar(1), scalar(1)}, state)
                .values;
    state.pop_back();
    EXPECT_EQ(state[0].data[0], weights[t]) << t;
    EXPECT_EQ(state[1].data[0], averages[t]) << t;
  }
}

/// One list of tensors is as many updates, bit for bit, on any number of threads.
TEST(AdamWList, gives_the_bits_of_its_parts) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int threads : {1, 2, 3}) {
      const Case all = list_case("", usual_adamw, {50000, 3, 20000, 777}, 2, true, adamw_magnitude);
      const Result together = apply(all.op, {"vector", dtype, threads}, all.reads, all.updates);
      std::size_t output = 0;
      for (const op::Piece& part : op::pieces(all.op)) {
        Arrays reads, updates;
        for (std::size_t i = 0; i < part.operands.size(); ++i) {
          const std::size_t operand = part.operands[i];
          if (i < 5)
            reads.push_back(all.reads[operand]);
          else if (operand - all.reads.size() < all.updates.size())
            updates.push_back(all.updates[operand - all.reads.size()]);
        }
        const Result alone =
            apply(op::with_accumulate(part.op, false), {"vector", dtype, 1}, reads, updates);
        for (std::size_t i = 0; i < updates.size(); ++i)
          EXPECT_EQ(alone.bytes[i], together.bytes[output++]);
      }
      EXPECT_EQ(output + 1, together.bytes.size());  // the count
    }
}

TEST(MovingAverageList, gives_the_bits_of_its_parts) {
  for (const bool applied : {true, false}) {
    const Case all = averages_case({50000, 3, 0, 70001, 777}, applied);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const int threads : {1, 2, 3}) {
        const Backend backend{"vector", dtype, threads};
        const Result together = apply(all.op, backend, all.reads, all.updates);
        EXPECT_EQ(together.bytes, of_pieces(all, backend).bytes) << to_string(backend);
      }
  }
}

TEST(SquaredNorm, does_not_depend_on_the_number_of_threads) {
  const Array x = uniform({200003}, "x");
  const auto bytes = [&](int threads) {
    return apply(op::SquaredNorm{}, {"vector", DType::f32, threads}, {x}).bytes;
  };
  EXPECT_EQ(bytes(1), bytes(2));
  EXPECT_EQ(bytes(1), bytes(3));
}

}  // namespace
}  // namespace fourfold::numerics
