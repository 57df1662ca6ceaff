// Residue forms of the update and of state, in the order of ops.h.
#include "op/blocks.h"
#include "op/ops.h"
#include "op/residue_loops.h"

namespace fourfold::op {

// --- update

void SquaredNorm::residue_form(const Residues&, ResidueTensors all) const {
  Residue& sum = all.back().elements[0];
  if (!accumulate) sum = 0;
  for (const ResidueTensor& x : all.first(all.size() - 1))
    sum = add(sum, dot(x.elements, x.elements));
}

void Vote::residue_form(const Residues&, ResidueTensors all) const {
  const auto scalar = [&](std::size_t operand) { return all[operand].elements[0]; };
  const Residue squared_norm = scalar(1), loss_sum = scalar(2), lr = scalar(5);
  const std::int64_t valid_count = integer_at(all[3]), non_finite = integer_at(all[4]);
  const bool is_fit = is_finite(squared_norm) && is_finite(loss_sum) && is_finite(lr) &&
                      valid_count > 0 && non_finite == 0;
  all[6].elements[0] = scalar(0) + static_cast<Residue>(Votes{.against = is_fit ? 0 : 1}.packed());
}

void UpdateControl::residue_form(const Residues& residues, ResidueTensors all) const {
  const Residue squared_norm = all[0].elements[0];
  const std::int64_t valid_count = integer_at(all[1]);
  const Votes votes = Votes::of(integer_at(all[2]));
  const Residue factor =
      valid_count > 0 ? divide(residue_of_integer(nominal_count), residue_of_integer(valid_count))
                      : 0;
  const Residue grad_norm = multiply(factor, residues.hash(function_name("sqrt"), {squared_norm}));
  const Residue clipping =
      clip == 0 ? 1 : residues.hash(function_name("clip"), {grad_norm, residue_of(clip)});
  all[3].elements[0] = grad_norm;
  all[4].elements[0] = multiply(factor, clipping);
  all[5].elements[0] = votes.against == 0 ? 1 : 0;
}

void MovingAverage::residue_form(const Residues&, ResidueTensors all) const {
  if (all[1].elements[0] == 0) return;
  const Residue share = residue_of(decay);
  for (std::size_t i = 0; i < all[0].elements.size(); ++i) {
    Residue& average = all[2].elements[i];
    average = average_of(share, average, all[0].elements[i]);
  }
}

void CountUpdate::residue_form(const Residues&, ResidueTensors all) const {
  all[1].elements[0] += all[0].elements[0];
}
void CountNonFinite::residue_form(const Residues&, ResidueTensors all) const {
  all[1].elements[0] += all[0].elements[0];
}

// --- state

namespace {

/// Writes value(random number) to each element of x, 0 to padding. `op` has a stream and a part.
template <class Init, class Value>
void draw_elements(const Init& op, const Residues& residues, ResidueTensors all, Value&& value) {
  const Residue seed = all[0].elements[0];
  const std::vector<std::uint64_t> indices = indices_in_whole(op.part, all[1].shape);
  for (std::size_t i = 0; i < indices.size(); ++i)
    all[1].elements[i] =
        indices[i] == padding_index ? 0 : value(residues.random(op.stream, seed, 0, indices[i]));
}

}  // namespace

void InitNormal::residue_form(const Residues& residues, ResidueTensors all) const {
  draw_elements(*this, residues, all,
                [factor = residue_of(stddev)](Residue normal) { return multiply(factor, normal); });
}

void InitUniform::residue_form(const Residues& residues, ResidueTensors all) const {
  draw_elements(*this, residues, all, [factor = residue_of(bound)](Residue u) {
    return multiply(factor, subtract(add(u, u), 1));
  });
}

void Fill::residue_form(const Residues&, ResidueTensors all) const {
  const bool fits = value >= -0x1p63 && value < 0x1p63;
  const Residue integer = fits ? static_cast<Residue>(static_cast<std::int64_t>(value)) : 0;
  std::ranges::fill(all[0].elements, all[0].is_integer ? integer : residue_of(value));
}

void Digest::residue_form(const Residues& residues, ResidueTensors all) const {
  const std::vector<std::uint64_t> indices = indices_in_whole(part, all[0].shape);
  // Halves, as any 64 bits of an element or a stream may look like a tag.
  constexpr int half = 32;
  constexpr Residue lower = 0xFFFFFFFFU;
  Residue& digest = all[1].elements[0];
  digest = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Residue x = all[0].elements[i];
    if (indices[i] != padding_index)
      digest += residues.hash(function_name("digest"), {stream.id >> half, stream.id & lower,
                                                        indices[i], x >> half, x & lower});
  }
}

}  // namespace fourfold::op
