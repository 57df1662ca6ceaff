// Rules of group normalisation, in the order of group_norm.h. Factors: b samples, h and the letters
// after it the pixels of one, c channels (of several parts r, s ...), g groups, q the two numbers
// of a channel or a group.
#include <algorithm>

#include "base/format.h"
#include "op/examples.h"
#include "op/group_norm.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

namespace {

constexpr std::int64_t most_parts = 4;

/// The number of parts, within what a norm can have: a text may claim anything.
std::size_t count_of(std::int64_t parts) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(parts, 1, most_parts));
}

bool is_picture(const Shape& x) {
  return x.rank() >= 2;
}
/// Two numbers for each channel of each sample of x, or for each of its groups.
Shape of_channels(const Shape& x) {
  return {x.back(), x[0], 2};
}
Shape of_groups(std::int64_t samples, std::int64_t groups) {
  return {samples, groups, 2};
}
bool is_of_channels(const Shape& numbers) {
  return numbers.rank() == 3 && numbers[2] == 2;
}

/// What is wrong with the channels that a row's attributes name, `channels` of which are here.
template <class Row>
std::optional<Mistake> mistake_of_part(const Row& row, std::int64_t channels) {
  if (row.groups < 1 || row.width < 1 || row.width % row.groups != 0)
    return Mistake{format("{}: the groups divide the width", Row::name)};
  if (!lie_within(row.before, 0, row.width) ||
      !lie_within(row.first, channels, row.width - row.before))
    return Mistake{format("{}: the channels of a part lie within the width", Row::name)};
  return std::nullopt;
}

Operand in_type_of_sums(std::string_view name, Role role = Role::read) {
  return {name, role, Element::accumulate};
}

}  // namespace

// --- moments

Operands GroupNormMoments::operands() const {
  return {{"x"}, in_type_of_sums("moments", Role::write)};
}
Outputs GroupNormMoments::outputs(Shapes reads) const {
  if (!is_picture(reads[0])) return Mistake{"group_norm_moments: x is (B, ..., C)"};
  return {of_channels(reads[0])};
}
FactorRule GroupNormMoments::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), "cbq"}, pixel_letters(reads[0]) + "q", Linear::no};
}
double GroupNormMoments::flops(Shapes all) const {
  return 5 * elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormMoments&) {
  return {{GroupNormMoments{}, {usual_picture}}, {GroupNormMoments{}, {{2, 9, 37}}}};
}

Operands GroupNormMomentsGradient::operands() const {
  return {{"x"},
          in_type_of_sums("moments"),
          in_type_of_sums("moments_grad"),
          {"x_grad", write_or_update(accumulate)}};
}
Outputs GroupNormMomentsGradient::outputs(Shapes reads) const {
  if (!is_picture(reads[0]) || reads[1] != of_channels(reads[0]) || reads[2] != reads[1])
    return Mistake{
        "group_norm_moments_gradient: x is (B, ..., C), moments and moments_grad (C, B, 2)"};
  return {reads[0]};
}
FactorRule GroupNormMomentsGradient::factors(Shapes reads) const {
  const std::string x = picture_letters(reads[0]);
  return {{x, "cbq", "cbq", x}, pixel_letters(reads[0]) + "q", Linear::no};
}
double GroupNormMomentsGradient::flops(Shapes all) const {
  return 4 * elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormMomentsGradient&) {
  return {
      {GroupNormMomentsGradient{true}, {usual_picture, {3, 2, 2}, {3, 2, 2}}},
      {GroupNormMomentsGradient{}, {{2, 9, 37}, {37, 2, 2}, {37, 2, 2}}},
  };
}

// --- statistics

Operands GroupNormStatistics::operands() const {
  Operands list(count_of(parts), in_type_of_sums("moments"));
  list.push_back(in_type_of_sums("statistics", Role::write));
  return list;
}
Outputs GroupNormStatistics::outputs(Shapes reads) const {
  if (parts < 1 || parts > most_parts)
    return Mistake{format("group_norm_statistics: there are 1 to {} parts", most_parts)};
  std::int64_t width = 0;
  for (const Shape& moments : reads)
    if (!is_of_channels(moments) || moments[1] != reads[0][1] ||
        __builtin_add_overflow(width, moments[0], &width))
      return Mistake{"group_norm_statistics: moments are (C, B, 2), B the same of all parts"};
  if (groups < 1 || width % groups != 0 || pixels < 1)
    return Mistake{
        "group_norm_statistics: the groups divide the channels of all parts, which have a pixel"};
  return {of_groups(reads[0][1], groups)};
}
FactorRule GroupNormStatistics::factors(Shapes) const {
  FactorRule rule;
  rule.whole = "gq";
  for (const char part : letters(count_of(parts), 'r')) {
    rule.operands.push_back(format("{}bq", part));
    rule.whole += part;
  }
  rule.operands.emplace_back("bgq");
  return rule;
}
double GroupNormStatistics::flops(Shapes all) const {
  double channels = 0;
  for (const Shape& moments : all.first(all.size() - 1)) channels += elements(moments) / 2;
  return 8 * channels;
}
std::vector<Example> examples_of(const GroupNormStatistics&) {
  // The second of three groups reaches from the first part into the second.
  return {{GroupNormStatistics{3, 2, 6, 1e-6}, {{4, 2, 2}, {5, 2, 2}}, {positive, positive}},
          {GroupNormStatistics{2, 1, 5}, {{8, 3, 2}}, {positive}}};
}

Operands GroupNormStatisticsGradient::operands() const {
  return {in_type_of_sums("statistics"), in_type_of_sums("statistics_grad"),
          in_type_of_sums("moments"), in_type_of_sums("moments_grad", Role::write)};
}
Outputs GroupNormStatisticsGradient::outputs(Shapes reads) const {
  const Shape& moments = reads[2];
  if (!is_of_channels(moments) || reads[0] != of_groups(moments[1], groups) || reads[1] != reads[0])
    return Mistake{
        "group_norm_statistics_gradient: moments are (C, B, 2), statistics and their gradient (B, "
        "groups, 2)"};
  if (auto mistake = mistake_of_part(*this, moments[0])) return *mistake;
  if (pixels < 1) return Mistake{"group_norm_statistics_gradient: a channel has a pixel"};
  return {moments};
}
FactorRule GroupNormStatisticsGradient::factors(Shapes) const {
  return {{"bgq", "bgq", "cbq", "cbq"}, "gq", Linear::no};
}
double GroupNormStatisticsGradient::flops(Shapes all) const {
  return 5 * elements(all[2]);
}
std::vector<Example> examples_of(const GroupNormStatisticsGradient&) {
  return {
      {GroupNormStatisticsGradient{2, 12, 6, 4, 2}, {{3, 2, 2}, {3, 2, 2}, {5, 3, 2}}, {positive}},
      {GroupNormStatisticsGradient{3, 36, 4}, {{1, 3, 2}, {1, 3, 2}, {36, 1, 2}}, {positive}}};
}

// --- what statistics make of a part

Operands GroupNormApply::operands() const {
  return {{"x"},
          in_type_of_sums("statistics"),
          {"gain"},
          {"bias"},
          {"y", Role::write, Element::compute, 0}};
}
Outputs GroupNormApply::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (!is_picture(x) || reads[1] != of_groups(x[0], groups) || reads[2] != Shape{x.back()} ||
      reads[3] != reads[2])
    return Mistake{
        "group_norm_apply: x is (B, ..., C), statistics (B, groups, 2), gain and bias (C)"};
  if (auto mistake = mistake_of_part(*this, x.back())) return *mistake;
  return {x};
}
FactorRule GroupNormApply::factors(Shapes reads) const {
  return {
      {picture_letters(reads[0]), "bgq", "c", "c", picture_letters(reads[0])}, "gq", Linear::no};
}
double GroupNormApply::flops(Shapes all) const {
  return 4 * elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormApply&) {
  return {{GroupNormApply{2, 12, 4, 2}, {usual_picture, {2, 2, 2}, {3}, {3}}},
          {GroupNormApply{3, 36}, {{1, 9, 36}, {1, 3, 2}, {36}, {36}}}};
}

Operands GroupNormSums::operands() const {
  return {{"x"}, in_type_of_sums("statistics"), {"y_grad"}, in_type_of_sums("sums", Role::write)};
}
Outputs GroupNormSums::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (!is_picture(x) || reads[1] != of_groups(x[0], groups) || reads[2] != x)
    return Mistake{"group_norm_sums: x and y_grad are (B, ..., C), statistics (B, groups, 2)"};
  if (auto mistake = mistake_of_part(*this, x.back())) return *mistake;
  return {of_channels(x)};
}
FactorRule GroupNormSums::factors(Shapes reads) const {
  return {{picture_letters(reads[0]), "bgq", picture_letters(reads[0]), "cbq"}, "gq", Linear::no};
}
double GroupNormSums::flops(Shapes all) const {
  return 5 * elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormSums&) {
  return {{GroupNormSums{2, 12, 4, 2}, {usual_picture, {2, 2, 2}, usual_picture}},
          {GroupNormSums{3, 36}, {{1, 9, 36}, {1, 3, 2}, {1, 9, 36}}}};
}

Operands GroupNormWeightGradient::operands() const {
  return {in_type_of_sums("sums"), in_type_of_sums("gain_grad", write_or_update(accumulate)),
          in_type_of_sums("bias_grad", write_or_update(accumulate))};
}
Outputs GroupNormWeightGradient::outputs(Shapes reads) const {
  if (!is_of_channels(reads[0])) return Mistake{"group_norm_weight_gradient: sums are (C, B, 2)"};
  return {{reads[0][0]}, {reads[0][0]}};
}
FactorRule GroupNormWeightGradient::factors(Shapes) const {
  return {{"cbq", "c", "c"}, "q", Linear::first};
}
double GroupNormWeightGradient::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormWeightGradient&) {
  return {{GroupNormWeightGradient{true}, {{5, 3, 2}}}, {GroupNormWeightGradient{}, {{17, 2, 2}}}};
}

Operands GroupNormGroupSums::operands() const {
  return {in_type_of_sums("sums"),
          in_type_of_sums("statistics"),
          {"gain"},
          in_type_of_sums("statistics_grad", Role::write)};
}
Outputs GroupNormGroupSums::outputs(Shapes reads) const {
  const Shape& sums = reads[0];
  if (!is_of_channels(sums) || reads[1] != of_groups(sums[1], groups) || reads[2] != Shape{sums[0]})
    return Mistake{
        "group_norm_group_sums: sums are (C, B, 2), statistics (B, groups, 2), gain (C)"};
  if (auto mistake = mistake_of_part(*this, sums[0])) return *mistake;
  return {reads[1]};
}
FactorRule GroupNormGroupSums::factors(Shapes) const {
  return {{"cbq", "bgq", "c", "bgq"}, "gq", Linear::first};
}
double GroupNormGroupSums::flops(Shapes all) const {
  return 2 * elements(all[0]);
}
std::vector<Example> examples_of(const GroupNormGroupSums&) {
  return {{GroupNormGroupSums{2, 12, 4, 2}, {{5, 3, 2}, {3, 2, 2}, {5}}, {any, positive}},
          {GroupNormGroupSums{3, 36}, {{36, 1, 2}, {1, 3, 2}, {36}}, {any, positive}}};
}

Operands GroupNormApplyGradient::operands() const {
  return {in_type_of_sums("statistics"),
          {"gain"},
          {"y_grad"},
          {"x_grad", Role::write, Element::compute, 2}};
}
Outputs GroupNormApplyGradient::outputs(Shapes reads) const {
  const Shape& y_grad = reads[2];
  if (!is_picture(y_grad) || reads[0] != of_groups(y_grad[0], groups) ||
      reads[1] != Shape{y_grad.back()})
    return Mistake{
        "group_norm_apply_gradient: y_grad is (B, ..., C), statistics (B, groups, 2), gain (C)"};
  if (auto mistake = mistake_of_part(*this, y_grad.back())) return *mistake;
  return {y_grad};
}
FactorRule GroupNormApplyGradient::factors(Shapes reads) const {
  return {{"bgq", "c", picture_letters(reads[2]), picture_letters(reads[2])}, "gq", Linear::no};
}
double GroupNormApplyGradient::flops(Shapes all) const {
  return 2 * elements(all[2]);
}
std::vector<Example> examples_of(const GroupNormApplyGradient&) {
  return {{GroupNormApplyGradient{2, 12, 4, 2}, {{2, 2, 2}, {3}, usual_picture}},
          {GroupNormApplyGradient{3, 36}, {{1, 3, 2}, {36}, {1, 9, 36}}}};
}

}  // namespace fourfold::op
