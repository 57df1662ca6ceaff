// Rules of attention and of the loss, in the order of ops.h.
#include "op/ops.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

// --- attention

namespace {
Shape attention_output(const Shape& qkv) {
  require(qkv.rank() == 5 && qkv[2] == 3, "attention: qkv is (B, T, 3, H, D)");
  return {qkv[0], qkv[1], qkv[3], qkv[4]};
}
/// Multiply-adds of one causal T x T x D product of every head, as flops.
double causal_product_flops(const Shape& qkv) {
  const auto time = static_cast<double>(qkv[1]);
  return elements(qkv) / 3 * (time + 1);
}
/// What attention and its gradient read beside tensors of the computation, in this order.
template <class AttentionOp>
void append_options(Operands& list, const AttentionOp& op) {
  if (op.documents) list.push_back({"document_starts", Role::read, Element::i32});
  if (op.rate == 0) return;
  list.push_back({"seed", Role::read, Element::u64});
  list.push_back({"step", Role::read, Element::i64});
}
template <class AttentionOp>
void append_options(FactorRule& rule, const AttentionOp& op) {
  if (op.documents) rule.operands.emplace_back("bt");
  if (op.rate != 0) rule.operands.insert(rule.operands.end(), 2, "");
}
/// `index` is the place of document_starts among what is read.
template <class AttentionOp>
void check_documents(const AttentionOp& op, Shapes reads, std::size_t index) {
  require(!op.documents || reads[index] == leading(reads[0], 2),
          "attention: document_starts has a place for every token of qkv, (B, T)");
}
}  // namespace

Operands Attention::operands() const {
  Operands list = {{"qkv"}};
  append_options(list, *this);
  list.push_back({"y", Role::write});
  list.push_back({"lse", Role::write, Element::accumulate});
  return list;
}
std::vector<Shape> Attention::outputs(Shapes reads) const {
  const Shape y = attention_output(reads[0]);
  check_documents(*this, reads, 1);
  return {y, {y[0], y[2], y[1]}};
}
FactorRule Attention::factors(Shapes) const {
  FactorRule rule{{"btshd"}, "tsd", Linear::no};
  append_options(rule, *this);
  rule.operands.insert(rule.operands.end(), {"bthd", "bht"});
  return rule;
}
double Attention::flops(Shapes all) const {
  return 2 * causal_product_flops(all[0]);
}

Operands AttentionGradient::operands() const {
  Operands list = {{"qkv"}, {"y"}, {"lse", Role::read, Element::accumulate}, {"y_grad"}};
  append_options(list, *this);
  list.push_back({"qkv_grad", Role::write});
  return list;
}
std::vector<Shape> AttentionGradient::outputs(Shapes reads) const {
  require(attention_output(reads[0]) == reads[1] && reads[1] == reads[3],
          "attention_gradient: qkv, y and y_grad agree");
  check_documents(*this, reads, 4);
  return {reads[0]};
}
FactorRule AttentionGradient::factors(Shapes) const {
  FactorRule rule{{"btshd", "bthd", "bht", "bthd"}, "tsd", Linear::no};
  append_options(rule, *this);
  rule.operands.emplace_back("btshd");
  return rule;
}
double AttentionGradient::flops(Shapes all) const {
  return 5 * causal_product_flops(all[0]);
}

Operands AttentionCached::operands() const {
  return {
      {"qkv"}, {"position", Role::read, Element::i32}, {"cache", Role::update}, {"y", Role::write}};
}
std::vector<Shape> AttentionCached::outputs(Shapes reads) const {
  const Shape y = attention_output(reads[0]);
  require(y[1] <= positions, "attention_cached: the cache has room for the new tokens");
  return {{y[0], 2, positions, y[2], y[3]}, y};
}
FactorRule AttentionCached::factors(Shapes) const {
  return {{"btshd", "", "bcphd", "bthd"}, "tscpd", Linear::no};
}
double AttentionCached::flops(Shapes all) const {
  return 4 * elements(all[0]) / 3 * static_cast<double>(positions);
}

Operands TakePosition::operands() const {
  return {{"x"}, {"index", Role::read, Element::i32}, {"y", Role::write}};
}
std::vector<Shape> TakePosition::outputs(Shapes reads) const {
  require(reads[0].rank() == 3, "take_position: x is (B, T, C)");
  return {{reads[0][0], 1, reads[0][2]}};
}
FactorRule TakePosition::factors(Shapes) const {
  return {{"btc", "", "boc"}, "to", Linear::first};
}
double TakePosition::flops(Shapes) const {
  return 0;
}

// --- loss

Operands CrossEntropy::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
std::vector<Shape> CrossEntropy::outputs(Shapes reads) const {
  require(without_last(reads[0]) == reads[1], "cross_entropy: a label for every row of logits");
  return {reads[1], reads[1]};
}
FactorRule CrossEntropy::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows}, "v", Linear::no};
}
double CrossEntropy::flops(Shapes all) const {
  return 8 * elements(all[0]);
}

Operands LogitMax::operands() const {
  return {{"logits"}, {"max", Role::write, Element::accumulate}};
}
std::vector<Shape> LogitMax::outputs(Shapes reads) const {
  return {without_last(reads[0])};
}
FactorRule LogitMax::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  return {{rows + "v", rows}, "", Linear::no, Reduction::max};
}
double LogitMax::flops(Shapes all) const {
  return elements(all[0]);
}

Operands LogitSums::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"max", Role::read, Element::accumulate},
          {"sum_exp", Role::write, Element::accumulate},
          {"label_logit", Role::write, Element::accumulate}};
}
std::vector<Shape> LogitSums::outputs(Shapes reads) const {
  require(without_last(reads[0]) == reads[1] && reads[1] == reads[2],
          "logit_sums: a label and a maximum for every row of logits");
  return {reads[1], reads[1]};
}
FactorRule LogitSums::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows, rows}, "", Linear::no};
}
double LogitSums::flops(Shapes all) const {
  return 7 * elements(all[0]);
}

Operands CrossEntropyMerge::operands() const {
  return {{"max", Role::read, Element::accumulate},
          {"sum_exp", Role::read, Element::accumulate},
          {"label_logit", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
std::vector<Shape> CrossEntropyMerge::outputs(Shapes reads) const {
  for (const Shape& shape : reads)
    require(shape == reads[0], "cross_entropy_merge: all operands have one shape");
  return {reads[0], reads[0]};
}
FactorRule CrossEntropyMerge::factors(Shapes reads) const {
  return {std::vector<std::string>(6, letters(reads[0].rank())), "", Linear::no};
}
double CrossEntropyMerge::flops(Shapes all) const {
  return 3 * elements(all[0]);
}

Operands CrossEntropyGradient::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"lse", Role::read, Element::accumulate},
          {"logits_grad", Role::write, Element::compute, 0}};
}
std::vector<Shape> CrossEntropyGradient::outputs(Shapes reads) const {
  return {reads[0]};
}
FactorRule CrossEntropyGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows + "v"}, "", Linear::no};
}
double CrossEntropyGradient::flops(Shapes all) const {
  return 8 * elements(all[0]);
}

Operands LossSum::operands() const {
  const Role role = write_or_update(accumulate);
  return {{"token_loss", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"loss_sum", role, Element::f64},
          {"count", role, Element::i64}};
}
std::vector<Shape> LossSum::outputs(Shapes reads) const {
  require(reads[0] == reads[1], "loss_sum: a label for every loss");
  return {Shape{}, Shape{}};
}
FactorRule LossSum::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank());
  return {{rows, rows, "", ""}, "", Linear::no};
}
double LossSum::flops(Shapes all) const {
  return elements(all[0]);
}

}  // namespace fourfold::op
