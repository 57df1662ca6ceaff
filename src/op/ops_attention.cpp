// Rules of attention and of what stands before it, in the order of attention.h.
#include "op/attention.h"

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

namespace {
Mistake not_qkv(bool grouped) {
  return {grouped ? "attention: qkv is (B, T, G, R + 2, D), a group having R >= 1 heads"
                  : "attention: qkv is (B, T, 3, H, D)"};
}
bool is_qkv(const Shape& qkv, bool grouped) {
  constexpr std::int64_t least = 3;  // a query, a key and a value
  if (qkv.rank() < 5) return false;
  return grouped ? qkv[qkv.rank() - 2] >= least : qkv[qkv.rank() - 3] == least;
}
/// The dims of T.
std::size_t time_dims(const Shape& qkv) {
  return qkv.rank() - 4;
}
/// Letters of qkv, of y, of lse and of a cache; t and those after it are the dims of T.
struct AttentionLetters {
  std::string time, qkv, y, lse, cache;
  AttentionLetters(const Shape& shape, bool grouped)
      : time(letters(time_dims(shape), 't')),
        qkv("b" + time + (grouped ? "hsd" : "shd")),
        y("b" + time + (grouped ? "hrd" : "hd")),
        lse((grouped ? "bhr" : "bh") + time),
        cache("bcphd") {}
  std::string whole() const { return time + "srd"; }
};
Shape attention_output(const Shape& qkv, bool grouped) {
  const std::size_t rank = qkv.rank();
  if (!grouped) return join(qkv, 0, rank - 3, qkv, rank - 2, rank);
  return join(leading(qkv, rank - 2), 0, rank - 2, {qkv[rank - 2] - 2, qkv.back()}, 0, 2);
}
Shape lse_shape(const Shape& qkv, bool grouped) {
  const std::size_t rank = qkv.rank();
  const Shape heads =
      grouped ? Shape{qkv[0], qkv[rank - 3], qkv[rank - 2] - 2} : Shape{qkv[0], qkv[rank - 2]};
  return join(heads, 0, heads.rank(), qkv, 1, 1 + time_dims(qkv));
}
/// Multiply-adds of one T x T x D product of every head, of its lower triangle where it is causal,
/// as flops.
double product_flops(const Shape& qkv, bool grouped, bool causal) {
  const auto time = static_cast<double>(qkv.elements(1, 1 + time_dims(qkv)));
  return elements(attention_output(qkv, grouped)) * (causal ? time + 1 : 2 * time);
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
const Shape grouped_qkv{2, 3, 2, 5, 5}, grouped_y{2, 3, 2, 3, 5}, grouped_lse{2, 2, 3, 3};

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
  if (!is_qkv(reads[0], grouped)) return not_qkv(grouped);
  if (!fit_documents(*this, reads, 1)) return not_documents();
  return {attention_output(reads[0], grouped), lse_shape(reads[0], grouped)};
}
FactorRule Attention::factors(Shapes reads) const {
  const AttentionLetters of(reads[0], grouped);
  FactorRule rule{{of.qkv}, of.whole(), Linear::no};
  append_options(rule, *this);
  rule.operands.insert(rule.operands.end(), {of.y, of.lse});
  return rule;
}
double Attention::flops(Shapes all) const {
  return 2 * product_flops(all[0], grouped, causal);
}
std::int64_t Attention::integer_bound(Shapes) const {
  return documents ? 1 : 2;
}
std::vector<Example> examples_of(const Attention&) {
  const Shape qkv{2, 3, 3, 4, 5};
  return {{Attention{{~0ULL}, 0.25, some_samples, 1, 4}, {qkv, scalar, scalar}},
          {Attention{{~0ULL}, 0.25, some_samples, 1, 4, true}, {qkv, {2, 3}, scalar, scalar}},
          {Attention{{~0ULL}, 0.25, some_samples, 1, 4, false, false},
           {{1, 2, 3, 3, 2, 5}, scalar, scalar}},
          {Attention{{~0ULL}, 0.25, some_samples, 1, 4, true, true, true},
           {grouped_qkv, {2, 3}, scalar, scalar}},
          {Attention{.stream = {}, .window = some_samples, .grouped = true}, {grouped_qkv}}};
}

Operands AttentionGradient::operands() const {
  Operands list = {{"qkv"}, {"y"}, {"lse", Role::read, Element::accumulate}, {"y_grad"}};
  append_options(list, *this);
  list.push_back({"qkv_grad", Role::write});
  return list;
}
Outputs AttentionGradient::outputs(Shapes reads) const {
  if (!is_qkv(reads[0], grouped)) return not_qkv(grouped);
  if (attention_output(reads[0], grouped) != reads[1] || reads[1] != reads[3] ||
      lse_shape(reads[0], grouped) != reads[2])
    return Mistake{"attention_gradient: qkv, y, lse and y_grad agree"};
  if (!fit_documents(*this, reads, 4)) return not_documents();
  return {reads[0]};
}
FactorRule AttentionGradient::factors(Shapes reads) const {
  const AttentionLetters of(reads[0], grouped);
  FactorRule rule{{of.qkv, of.y, of.lse, of.y}, of.whole(), Linear::no};
  append_options(rule, *this);
  rule.operands.push_back(of.qkv);
  return rule;
}
double AttentionGradient::flops(Shapes all) const {
  return 5 * product_flops(all[0], grouped, causal);
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
           {{1, 2, 3, 3, 2, 5}, {1, 2, 3, 2, 5}, {1, 2, 2, 3}, {1, 2, 3, 2, 5}, scalar, scalar}},
          {AttentionGradient{{1}, 0.25, some_samples, 1, 4, true, true, true},
           {grouped_qkv, grouped_y, grouped_lse, grouped_y, {2, 3}, scalar, scalar}},
          {AttentionGradient{.stream = {}, .window = some_samples, .grouped = true},
           {grouped_qkv, grouped_y, grouped_lse, grouped_y}}};
}

Operands AttentionCached::operands() const {
  return {
      {"qkv"}, {"position", Role::read, Element::i32}, {"cache", Role::update}, {"y", Role::write}};
}
Outputs AttentionCached::outputs(Shapes reads) const {
  if (!is_qkv(reads[0], grouped) || reads[0].rank() != 5) return not_qkv(grouped);
  const Shape y = attention_output(reads[0], grouped);
  if (y[1] > positions) return Mistake{"attention_cached: the cache has room for the new tokens"};
  return {{y[0], 2, positions, y[2], y.back()}, y};
}
FactorRule AttentionCached::factors(Shapes reads) const {
  const AttentionLetters of(reads[0], grouped);
  return {{of.qkv, "", of.cache, of.y}, of.whole() + "cp", Linear::no};
}
double AttentionCached::flops(Shapes all) const {
  return 4 * elements(attention_output(all[0], grouped)) * static_cast<double>(positions);
}
std::int64_t AttentionCached::integer_bound(Shapes all) const {
  return positions - all[0][1] + 1;
}
std::vector<Example> examples_of(const AttentionCached&) {
  return {{AttentionCached{9}, {{2, 3, 3, 4, 5}, scalar}},
          {AttentionCached{9, true}, {grouped_qkv, scalar}}};
}

// --- queries, keys and values before attention: s a query, the key or the value of group g

namespace {
bool is_grouped_qkv(const Shape& qkv) {
  return qkv.rank() == 5 && is_qkv(qkv, true);
}
/// The shape of the rstd of queries and keys: one number for each but the value.
Shape head_norm_rows(const Shape& qkv) {
  return {qkv[0], qkv[1], qkv[2], qkv[3] - 1};
}
const std::string qkv_letters = "btgsd", head_norm_letters = "btgr", head_norm_whole = "srd";
}  // namespace

Operands Rotary::operands() const {
  Operands list = {{"qkv"}};
  if (positions != 0) list.push_back({"position", Role::read, Element::i32});
  if (documents) list.push_back({"document_starts", Role::read, Element::i32});
  list.push_back({"y", Role::write, Element::compute, 0});
  return list;
}
Outputs Rotary::outputs(Shapes reads) const {
  constexpr std::int64_t most_positions = std::int64_t{1} << 31;
  const Shape& qkv = reads[0];
  if (!is_grouped_qkv(qkv)) return Mistake{"rotary: qkv is (B, T, G, R + 2, D) with R >= 1"};
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  if (pairs < 1 || pairs > qkv.back() / 2)
    return Mistake{"rotary: there is a frequency for each pair of elements, at most D / 2 of them"};
  if (positions < 0 || positions > most_positions ||
      !lie_within(first, qkv[1], positions == 0 ? most_positions : positions))
    return Mistake{"rotary: positions are from 0 to 2^31, and those of a cached text in its cache"};
  if (documents && (positions != 0 || reads[1] != leading(qkv, 2)))
    return Mistake{"rotary: document_starts is (B, T), and a cached text is one document"};
  return {qkv};
}
FactorRule Rotary::factors(Shapes) const {
  FactorRule rule{{qkv_letters}, "sd", Linear::first};
  if (positions != 0) rule.operands.emplace_back("");
  if (documents) rule.operands.emplace_back("bt");
  rule.operands.emplace_back(qkv_letters);
  return rule;
}
double Rotary::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::int64_t Rotary::integer_bound(Shapes all) const {
  return positions == 0 ? 1 : positions - all[0][1] - first + 1;
}
std::vector<Example> examples_of(const Rotary&) {
  const Shape qkv{2, 3, 2, 4, 6}, odd{2, 3, 2, 3, 5};
  const Numbers waves = {1, 0.5, 0.125}, fewer = {0.75, 0.25};
  return {{Rotary{waves}, {qkv}},
          {Rotary{waves, 1.25, true, 0, 5}, {qkv}},
          {Rotary{fewer, 1, false, 6, 2}, {{2, 3, 1, 4, 6}, scalar}},
          {Rotary{fewer, 1.25, true, 0, 5, true}, {odd, {2, 3}}}};
}

Operands HeadNorm::operands() const {
  return {{"qkv"},
          {"q_gain"},
          {"k_gain"},
          {"y", Role::write},
          {"rstd", Role::write, Element::accumulate}};
}
Outputs HeadNorm::outputs(Shapes reads) const {
  const Shape& qkv = reads[0];
  if (!is_grouped_qkv(qkv) || reads[1] != Shape{qkv.back()} || reads[2] != reads[1])
    return Mistake{"head_norm: qkv is (B, T, G, R + 2, D) with R >= 1, and gains are (D)"};
  return {qkv, head_norm_rows(qkv)};
}
FactorRule HeadNorm::factors(Shapes) const {
  return {{qkv_letters, "d", "d", qkv_letters, head_norm_letters}, head_norm_whole, Linear::no};
}
double HeadNorm::flops(Shapes all) const {
  return 4 * elements(all[0]);
}
std::vector<Example> examples_of(const HeadNorm&) {
  return {{HeadNorm{1e-6}, {{2, 3, 2, 4, 6}, {6}, {6}}}, {HeadNorm{}, {grouped_qkv, {5}, {5}}}};
}

Operands HeadNormGradient::operands() const {
  return {{"qkv"},    {"q_gain"},
          {"k_gain"}, {"rstd", Role::read, Element::accumulate},
          {"y_grad"}, {"qkv_grad", Role::write, Element::compute, 4}};
}
Outputs HeadNormGradient::outputs(Shapes reads) const {
  const Shape& qkv = reads[0];
  if (!is_grouped_qkv(qkv) || reads[1] != Shape{qkv.back()} || reads[2] != reads[1] ||
      reads[3] != head_norm_rows(qkv) || reads[4] != qkv)
    return Mistake{"head_norm_gradient: qkv, gains, rstd and y_grad agree"};
  return {qkv};
}
FactorRule HeadNormGradient::factors(Shapes) const {
  return {{qkv_letters, "d", "d", head_norm_letters, qkv_letters, qkv_letters},
          head_norm_whole,
          Linear::no};
}
double HeadNormGradient::flops(Shapes all) const {
  return 9 * elements(all[0]);
}
std::vector<Example> examples_of(const HeadNormGradient&) {
  return {{HeadNormGradient{},
           {{2, 3, 2, 4, 6}, {6}, {6}, {2, 3, 2, 3}, {2, 3, 2, 4, 6}},
           {any, any, any, positive}}};
}

Operands HeadNormWeightGradient::operands() const {
  const Role role = write_or_update(accumulate);
  return {{"qkv"},
          {"rstd", Role::read, Element::accumulate},
          {"y_grad"},
          {"q_gain_grad", role, Element::accumulate},
          {"k_gain_grad", role, Element::accumulate}};
}
Outputs HeadNormWeightGradient::outputs(Shapes reads) const {
  const Shape& qkv = reads[0];
  if (!is_grouped_qkv(qkv) || reads[1] != head_norm_rows(qkv) || reads[2] != qkv)
    return Mistake{"head_norm_weight_gradient: qkv, rstd and y_grad agree"};
  return std::vector<Shape>(2, Shape{qkv.back()});
}
FactorRule HeadNormWeightGradient::factors(Shapes) const {
  return {{qkv_letters, head_norm_letters, qkv_letters, "d", "d"}, head_norm_whole, Linear::no};
}
double HeadNormWeightGradient::flops(Shapes all) const {
  return 3 * elements(all[0]);
}
std::vector<Example> examples_of(const HeadNormWeightGradient&) {
  const std::vector<Shape> reads = {{2, 3, 2, 4, 6}, {2, 3, 2, 3}, {2, 3, 2, 4, 6}};
  return {{HeadNormWeightGradient{}, reads, {any, positive}},
          {HeadNormWeightGradient{true}, reads, {any, positive}}};
}

// --- a product of two halves: s the half, z a column

namespace {
bool has_halves(const Shape& x) {
  return x.rank() >= 2 && x[x.rank() - 2] == 2;
}
Shape half_of(const Shape& x) {
  return join(x, 0, x.rank() - 2, x, x.rank() - 1, x.rank());
}
}  // namespace

Operands Gated::operands() const {
  return {{"x"}, {"y", Role::write}};
}
Outputs Gated::outputs(Shapes reads) const {
  if (!has_halves(reads[0])) return Mistake{"gated: x is (..., 2, F)"};
  return {half_of(reads[0])};
}
FactorRule Gated::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank() - 2);
  return {{rows + "sz", rows + "z"}, "s", Linear::no};
}
double Gated::flops(Shapes all) const {
  return 5 * elements(all[1]);
}
std::vector<Example> examples_of(const Gated&) {
  return {{Gated{}, {{2, 3, 2, 5}}}, {Gated{}, {{2, 7}}}};
}

Operands GatedGradient::operands() const {
  return {{"x"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 0}};
}
Outputs GatedGradient::outputs(Shapes reads) const {
  if (!has_halves(reads[0]) || reads[1] != half_of(reads[0]))
    return Mistake{"gated_gradient: x is (..., 2, F), y_grad (..., F)"};
  return {reads[0]};
}
FactorRule GatedGradient::factors(Shapes reads) const {
  const std::string rows = letters(reads[1].rank() - 1);
  return {{rows + "sz", rows + "z", rows + "sz"}, "s", Linear::no};
}
double GatedGradient::flops(Shapes all) const {
  return 12 * elements(all[1]);
}
std::vector<Example> examples_of(const GatedGradient&) {
  return {{GatedGradient{}, {{2, 3, 2, 5}, {2, 3, 5}}}, {GatedGradient{}, {{2, 7}, {7}}}};
}

}  // namespace fourfold::op
