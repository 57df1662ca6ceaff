// Rules of attention and of the loss, in the order of ops.h.
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

// --- attention

namespace {
Mistake not_qkv() {
  return {"attention: qkv is (B, T, 3, H, D)"};
}
bool is_qkv(const Shape& qkv) {
  return qkv.rank() >= 5 && qkv[qkv.rank() - 3] == 3;
}
/// The dims of T.
std::size_t time_dims(const Shape& qkv) {
  return qkv.rank() - 4;
}
/// Letters of qkv, of y, and of lse; t and those after it are the dims of T.
struct AttentionLetters {
  std::string time, qkv, y, lse;
  explicit AttentionLetters(const Shape& shape)
      : time(letters(time_dims(shape), 't')),
        qkv("b" + time + "shd"),
        y("b" + time + "hd"),
        lse("bh" + time) {}
  std::string whole() const { return time + "sd"; }
};
Shape attention_output(const Shape& qkv) {
  return join(qkv, 0, qkv.rank() - 3, qkv, qkv.rank() - 2, qkv.rank());
}
Shape lse_shape(const Shape& qkv) {
  return join({qkv[0], qkv[qkv.rank() - 2]}, 0, 2, qkv, 1, 1 + time_dims(qkv));
}
/// Multiply-adds of one T x T x D product of every head, of its lower triangle where it is causal,
/// as flops.
double product_flops(const Shape& qkv, bool causal) {
  const auto time = static_cast<double>(qkv.elements(1, 1 + time_dims(qkv)));
  return elements(qkv) / 3 * (causal ? time + 1 : 2 * time);
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
bool fit_documents(const AttentionOp& op, Shapes reads, std::size_t index) {
  if (!op.documents) return true;
  return op.causal && reads[0].rank() == 5 && reads[index] == leading(reads[0], 2);
}
Mistake not_documents() {
  return {"attention: document_starts has a place for every token of qkv, (B, T), and is causal"};
}
}  // namespace

Operands Attention::operands() const {
  Operands list = {{"qkv"}};
  append_options(list, *this);
  list.push_back({"y", Role::write});
  list.push_back({"lse", Role::write, Element::accumulate});
  return list;
}
Outputs Attention::outputs(Shapes reads) const {
  if (!is_qkv(reads[0])) return not_qkv();
  if (!fit_documents(*this, reads, 1)) return not_documents();
  return {attention_output(reads[0]), lse_shape(reads[0])};
}
FactorRule Attention::factors(Shapes reads) const {
  const AttentionLetters of(reads[0]);
  FactorRule rule{{of.qkv}, of.whole(), Linear::no};
  append_options(rule, *this);
  rule.operands.insert(rule.operands.end(), {of.y, of.lse});
  return rule;
}
double Attention::flops(Shapes all) const {
  return 2 * product_flops(all[0], causal);
}
std::int64_t Attention::integer_bound(Shapes) const {
  return documents ? 1 : 2;
}
std::vector<Example> examples_of(const Attention&) {
  const Shape qkv{2, 3, 3, 4, 5};
  return {{Attention{{~0ULL}, 0.25, some_samples, 1, 4}, {qkv, scalar, scalar}},
          {Attention{{~0ULL}, 0.25, some_samples, 1, 4, true}, {qkv, {2, 3}, scalar, scalar}},
          {Attention{{~0ULL}, 0.25, some_samples, 1, 4, false, false},
           {{1, 2, 3, 3, 2, 5}, scalar, scalar}}};
}

Operands AttentionGradient::operands() const {
  Operands list = {{"qkv"}, {"y"}, {"lse", Role::read, Element::accumulate}, {"y_grad"}};
  append_options(list, *this);
  list.push_back({"qkv_grad", Role::write});
  return list;
}
Outputs AttentionGradient::outputs(Shapes reads) const {
  if (!is_qkv(reads[0])) return not_qkv();
  if (attention_output(reads[0]) != reads[1] || reads[1] != reads[3] ||
      lse_shape(reads[0]) != reads[2])
    return Mistake{"attention_gradient: qkv, y, lse and y_grad agree"};
  if (!fit_documents(*this, reads, 4)) return not_documents();
  return {reads[0]};
}
FactorRule AttentionGradient::factors(Shapes reads) const {
  const AttentionLetters of(reads[0]);
  FactorRule rule{{of.qkv, of.y, of.lse, of.y}, of.whole(), Linear::no};
  append_options(rule, *this);
  rule.operands.push_back(of.qkv);
  return rule;
}
double AttentionGradient::flops(Shapes all) const {
  return 5 * product_flops(all[0], causal);
}
std::int64_t AttentionGradient::integer_bound(Shapes) const {
  return documents ? 1 : 2;
}
std::vector<Example> examples_of(const AttentionGradient&) {
  const Shape qkv{2, 3, 3, 4, 5}, y{2, 3, 4, 5}, lse{2, 4, 3};
  return {{AttentionGradient{{1}, 0.25, some_samples, 1, 4}, {qkv, y, lse, y, scalar, scalar}},
          {AttentionGradient{{1}, 0.25, some_samples, 1, 4, true},
           {qkv, y, lse, y, {2, 3}, scalar, scalar}},
          {AttentionGradient{{1}, 0.25, some_samples, 1, 4, false, false},
           {{1, 2, 3, 3, 2, 5}, {1, 2, 3, 2, 5}, {1, 2, 2, 3}, {1, 2, 3, 2, 5}, scalar, scalar}}};
}

Operands AttentionCached::operands() const {
  return {
      {"qkv"}, {"position", Role::read, Element::i32}, {"cache", Role::update}, {"y", Role::write}};
}
Outputs AttentionCached::outputs(Shapes reads) const {
  if (!is_qkv(reads[0]) || reads[0].rank() != 5) return not_qkv();
  const Shape y = attention_output(reads[0]);
  if (y[1] > positions) return Mistake{"attention_cached: the cache has room for the new tokens"};
  return {{y[0], 2, positions, y[2], y[3]}, y};
}
FactorRule AttentionCached::factors(Shapes) const {
  return {{"btshd", "", "bcphd", "bthd"}, "tscpd", Linear::no};
}
double AttentionCached::flops(Shapes all) const {
  return 4 * elements(all[0]) / 3 * static_cast<double>(positions);
}
std::int64_t AttentionCached::integer_bound(Shapes all) const {
  return positions - all[0][1] + 1;
}
std::vector<Example> examples_of(const AttentionCached&) {
  return {{AttentionCached{9}, {{2, 3, 3, 4, 5}, scalar}}};
}

Operands TakePosition::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"index", Role::read, Element::i32},
          {"y", Role::write, wide_if(wide)}};
}
Outputs TakePosition::outputs(Shapes reads) const {
  if (reads[0].rank() != 3) return Mistake{"take_position: x is (B, T, C)"};
  return {{reads[0][0], 1, reads[0][2]}};
}
FactorRule TakePosition::factors(Shapes) const {
  return {{"btc", "", "boc"}, "to", Linear::first};
}
double TakePosition::flops(Shapes) const {
  return 0;
}
std::int64_t TakePosition::integer_bound(Shapes all) const {
  return all[0][1];
}
std::vector<Example> examples_of(const TakePosition&) {
  return {{TakePosition{}, {usual, scalar}}, {TakePosition{.wide = true}, {usual, scalar}}};
}

// --- loss

Operands CrossEntropy::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
Outputs CrossEntropy::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]))
    return Mistake{"cross_entropy: a label for every row of logits"};
  return {reads[1], reads[1]};
}
FactorRule CrossEntropy::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  FactorRule rule{{rows + "v", rows, rows, rows}, "v", Linear::no};
  rule.cut_form = "v";
  return rule;
}
CutForm CrossEntropy::cut_form(Shapes, std::int64_t) const {
  return {{{LogitMax{}, {0, 4}},
           {LogitSums{}, {0, 1, 4, 5, 6}},
           {CrossEntropyMerge{}, {4, 5, 6, 1, 2, 3}}},
          {"max", "sums", "sums.label_logit"}};
}
double CrossEntropy::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::int64_t CrossEntropy::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CrossEntropy&) {
  return {{CrossEntropy{}, {{2, 3, 10}, {2, 3}}}, {CrossEntropy{}, {{5, 7}, {5}}}};
}

Operands LogitMax::operands() const {
  return {{"logits"}, {"max", Role::write, Element::accumulate}};
}
Outputs LogitMax::outputs(Shapes reads) const {
  if (reads[0].rank() == 0) return Mistake{"logit_max: logits have rows"};
  return {without_last(reads[0])};
}
FactorRule LogitMax::factors(Shapes reads) const {
  const std::string rows = letters(without_last(reads[0]).rank());
  return {{rows + "v", rows}, "", Linear::no, Reduction::max};
}
double LogitMax::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const LogitMax&) {
  return {{LogitMax{10, 17}, {{2, 3, 10}}}, {LogitMax{7, 10}, {{5, 7}}}};
}

Operands LogitSums::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"max", Role::read, Element::accumulate},
          {"sum_exp", Role::write, Element::accumulate},
          {"label_logit", Role::write, Element::accumulate}};
}
Outputs LogitSums::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"logit_sums: a label and a maximum for every row of logits"};
  return {reads[1], reads[1]};
}
FactorRule LogitSums::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows, rows}, "", Linear::no};
}
double LogitSums::flops(Shapes all) const {
  return 7 * elements(all[0]);
}
std::int64_t LogitSums::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const LogitSums&) {
  return {{LogitSums{10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {LogitSums{2, 10}, {{5, 7}, {5}, {5}}}};
}

Operands CrossEntropyMerge::operands() const {
  return {{"max", Role::read, Element::accumulate},
          {"sum_exp", Role::read, Element::accumulate},
          {"label_logit", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"token_loss", Role::write, Element::accumulate},
          {"lse", Role::write, Element::accumulate}};
}
Outputs CrossEntropyMerge::outputs(Shapes reads) const {
  for (const Shape& shape : reads)
    if (shape != reads[0]) return Mistake{"cross_entropy_merge: all operands have one shape"};
  return {reads[0], reads[0]};
}
FactorRule CrossEntropyMerge::factors(Shapes reads) const {
  return {std::vector<OperandFactors>(6, letters(reads[0].rank())), "", Linear::no};
}
double CrossEntropyMerge::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const CrossEntropyMerge&) {
  return {{CrossEntropyMerge{}, std::vector<Shape>(4, {2, 3}), {any, positive}},
          {CrossEntropyMerge{}, std::vector<Shape>(4, {5}), {any, positive}}};
}

Operands CrossEntropyGradient::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"lse", Role::read, Element::accumulate},
          {"logits_grad", Role::write, Element::compute, 0}};
}
Outputs CrossEntropyGradient::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"cross_entropy_gradient: a label and an lse for every row of logits"};
  return {reads[0]};
}
FactorRule CrossEntropyGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, rows + "v"}, "", Linear::no};
}
double CrossEntropyGradient::flops(Shapes all) const {
  return 8 * elements(all[0]);
}
std::int64_t CrossEntropyGradient::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CrossEntropyGradient&) {
  return {{CrossEntropyGradient{1.0 / 3, 10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {CrossEntropyGradient{1.0 / 3, 2, 10}, {{5, 7}, {5}, {5}}}};
}

Operands LossSum::operands() const {
  const Role role = write_or_update(accumulate);
  return {{"token_loss", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"loss_sum", role, Element::f64},
          {"count", role, Element::i64}};
}
Outputs LossSum::outputs(Shapes reads) const {
  if (reads[0] != reads[1]) return Mistake{"loss_sum: a label for every loss"};
  return {Shape{}, Shape{}};
}
FactorRule LossSum::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank());
  return {{rows, rows, "", ""}, "", Linear::no};
}
double LossSum::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const LossSum&) {
  return {{LossSum{true}, {{2, 3}, {2, 3}}}, {LossSum{}, {{5}, {5}}}};
}

Operands CountCorrect::operands() const {
  return {{"logits"},
          {"labels", Role::read, Element::i32},
          {"max", Role::read, Element::accumulate},
          {"count", write_or_update(accumulate), Element::i64}};
}
Outputs CountCorrect::outputs(Shapes reads) const {
  if (!are_rows_of(reads[1], reads[0]) || reads[1] != reads[2])
    return Mistake{"count_correct: a label and a maximum for every row of logits"};
  return {Shape{}};
}
FactorRule CountCorrect::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank());
  return {{rows + "v", rows, rows, ""}, "", Linear::no};
}
double CountCorrect::flops(Shapes all) const {
  return elements(all[1]);
}
std::int64_t CountCorrect::integer_bound(Shapes all) const {
  return all[0].back();
}
std::vector<Example> examples_of(const CountCorrect&) {
  return {{CountCorrect{4, 9, true}, {{2, 3, 10}, {2, 3}, {2, 3}}},
          {CountCorrect{}, {{5, 7}, {5}, {5}}}};
}

}  // namespace fourfold::op
