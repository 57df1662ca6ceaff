// Residue forms of the selection of a position and of the loss, in the order of ops.h. What an
// index points at outside of an operand is not finite. exp(a - b) is E(a) / E(b), and lse is L(sum
// of E).
#include "op/ops.h"
#include "op/residue_loops.h"

namespace fourfold::op {

void TakePosition::residue_form(const Residues&, ResidueTensors all) const {
  const auto &x = all[0], &y = all[2];
  const auto time = static_cast<std::size_t>(x.shape[1]),
             channels = static_cast<std::size_t>(x.shape[2]);
  const std::size_t t = local_place(all[1].elements[0], 0, time);
  for (std::size_t i = 0; i < y.elements.size(); ++i)
    y.elements[i] =
        t < time ? x.elements[(i / channels * time + t) * channels + i % channels] : not_finite;
}

// --- loss

namespace {

/// Which columns of the vocabulary the local logits hold: columns [0, valid) are no padding.
struct LocalColumns {
  std::size_t local, valid;
  std::int64_t first;

  /// For rows with the attributes first_column and columns.
  template <class Row>
  LocalColumns(const Row& row, const Shape& logits)
      : local(static_cast<std::size_t>(logits.back())), valid(local), first(row.first_column) {
    if (row.columns == 0) return;
    valid = row.columns <= first ? 0
                                 : std::min(local, static_cast<std::size_t>(row.columns) -
                                                       static_cast<std::size_t>(first));
  }
  /// The local column of a label; `valid` where it is not here.
  std::size_t of(const ResidueTensor& labels, std::size_t row) const {
    return is_valid_label(labels, row) ? local_place(labels.elements[row], first, valid) : valid;
  }
};

}  // namespace

void CrossEntropy::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &token_loss = all[2], &lse = all[3];
  const auto columns = static_cast<std::size_t>(logits.shape.back());
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const auto of_row = logits.elements.subspan(row * columns, columns);
    Residue sum = 0;
    for (const Residue logit : of_row) sum = add(sum, residues.exponential(logit));
    lse.elements[row] = residues.logarithm(sum);
    const std::size_t column = local_place(labels.elements[row], 0, columns);
    const Residue loss =
        column < columns ? subtract(lse.elements[row], of_row[column]) : not_finite;
    token_loss.elements[row] = is_valid_label(labels, row) ? loss : 0;
  }
}

void LogitMax::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &max = all[1];
  const LocalColumns held(*this, logits.shape);
  for (std::size_t row = 0; row < max.elements.size(); ++row) {
    max.elements[row] = minus_infinity;
    for (const Residue logit : logits.elements.subspan(row * held.local, held.valid))
      max.elements[row] = residues.larger(max.elements[row], logit);
  }
}

void LogitSums::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &max = all[2];
  const auto &sum_exp = all[3], &label_logit = all[4];
  const LocalColumns held(*this, logits.shape);
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const auto of_row = logits.elements.subspan(row * held.local, held.valid);
    Residue sum = 0;
    for (const Residue logit : of_row) sum = add(sum, residues.exponential(logit));
    sum_exp.elements[row] =
        held.valid == 0 ? 0 : multiply(sum, inverse_of_exponential(residues, max.elements[row]));
    const std::size_t column = held.of(labels, row);
    label_logit.elements[row] =
        column < held.valid ? subtract(of_row[column], max.elements[row]) : 0;
  }
}

void CrossEntropyMerge::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &max = all[0], &sum_exp = all[1], &label_logit = all[2], &labels = all[3];
  const auto &token_loss = all[4], &lse = all[5];
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const Residue largest = max.elements[row];
    const Residue of_row =
        residues.logarithm(multiply(sum_exp.elements[row], residues.exponential(largest)));
    const Residue loss = subtract(of_row, add(label_logit.elements[row], largest));
    lse.elements[row] = of_row;
    token_loss.elements[row] = is_valid_label(labels, row) ? loss : 0;
  }
}

void CrossEntropyGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &lse = all[2], &logits_grad = all[3];
  const LocalColumns held(*this, logits.shape);
  const Residue factor = residue_of(scale);
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const std::size_t label = held.of(labels, row);
    const Residue inverse_sum = inverse_of_exponential(residues, lse.elements[row]);
    for (std::size_t v = 0; v < held.local; ++v) {
      const std::size_t i = row * held.local + v;
      const Residue p = multiply(residues.exponential(logits.elements[i]), inverse_sum);
      const Residue hit = v == label ? 1 : 0;
      const bool counts = is_valid_label(labels, row) && v < held.valid;
      logits_grad.elements[i] = counts ? multiply(factor, subtract(p, hit)) : 0;
    }
  }
}

void LossSum::residue_form(const Residues&, ResidueTensors all) const {
  const auto &token_loss = all[0], &labels = all[1], &loss_sum = all[2], &valid_count = all[3];
  Residue& sum = loss_sum.elements[0];
  Residue& valid = valid_count.elements[0];
  if (!accumulate) sum = valid = 0;
  for (const Residue loss : token_loss.elements) sum = add(sum, loss);
  for (std::size_t i = 0; i < labels.elements.size(); ++i)
    valid += is_valid_label(labels, i) ? 1 : 0;
}

void CountCorrect::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &max = all[2], &correct = all[3];
  const LocalColumns held(*this, logits.shape);
  Residue& sum = correct.elements[0];
  if (!accumulate) sum = 0;
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const std::size_t column = held.of(labels, row);
    if (column < held.valid)
      sum += residues.hash(function_name("hit"),
                           {logits.elements[row * held.local + column], max.elements[row]});
  }
}

}  // namespace fourfold::op
