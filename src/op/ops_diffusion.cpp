// Rules of diffusion models, in the order of diffusion.h. Factors: b samples, h and the letters
// after it the pixels of one, c channels of a picture, o what the model gives, s and k the rows and
// columns of a schedule.
#include "op/diffusion.h"
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

constexpr std::string_view of_schedule = "sk";

/// The letters of a picture but for its channels.
std::string sample_letters(const Shape& x) {
  return "b" + pixel_letters(x);
}

bool is_schedule(const Shape& shape) {
  return shape.rank() == 2 && shape[1] == DiffusionSchedule::columns;
}

/// Says what is wrong with the operands that all rows have which compute with a time: pictures
/// (B, ..., C), t (B), a schedule.
std::optional<Mistake> mistake_in(std::string_view row, const Shape& picture, const Shape& t,
                                  const Shape& schedule) {
  if (picture.rank() < 2 || t != Shape{picture[0]})
    return Mistake{std::string(row) + ": pictures are (B, ..., C), and t is (B)"};
  if (!is_schedule(schedule)) return Mistake{std::string(row) + ": a schedule is (S, 7)"};
  return std::nullopt;
}

/// True if `output` is what a model gives for `picture`: a noise, and where `learned` as many
/// numbers again.
bool is_output_for(const Shape& output, const Shape& picture, bool learned) {
  return output.rank() == picture.rank() && output.rank() >= 2 &&
         without_last(output) == without_last(picture) &&
         output.back() == (learned ? 2 : 1) * picture.back();
}

/// True if `shape` is that of the losses that op::KeepLosses enters.
bool is_losses(const Shape& shape) {
  return shape.rank() == 2 && shape[0] > 0 && shape[1] > 2;
}

/// What op::DiffusionLoss and its gradient read.
Operands loss_operands() {
  return {{"output"},
          {"x_0"},
          {"x_t"},
          {"e"},
          {"t", Role::read, Element::i32},
          {"labels", Role::read, Element::i32},
          {"schedule", Role::read, Element::f64}};
}

std::optional<Mistake> mistake_in_loss(std::string_view row, Shapes reads, bool learned) {
  const Shape& picture = reads[1];
  if (auto mistake = mistake_in(row, picture, reads[4], reads[6])) return mistake;
  if (!is_output_for(reads[0], picture, learned) || reads[2] != picture || reads[3] != picture ||
      reads[5] != reads[4])
    return Mistake{std::string(row) +
                   ": x_t and e are as x_0, output too (where learned with twice the channels), "
                   "and each sample has a label"};
  return std::nullopt;
}

FactorRule loss_factors(Shapes reads, std::vector<std::string> more) {
  const std::string pixels = sample_letters(reads[1]);
  const std::string picture = pixels + "c", output = pixels + "o";
  FactorRule rule{{output, picture, picture, picture, "b", "b", std::string(of_schedule)},
                  pixels.substr(1) + "cosk",
                  Linear::no};
  for (std::string& operand : more) rule.operands.push_back(std::move(operand));
  return rule;
}

std::vector<Example> loss_examples(const Op& plain, const Op& learned) {
  const Shape small_picture{2, 3, 2, 3}, of_model{2, 3, 2, 6};
  const auto reads = [&](const Shape& output) {
    return std::vector<Shape>{output,
                              small_picture,
                              small_picture,
                              small_picture,
                              {2},
                              {2},
                              {5, DiffusionSchedule::columns}};
  };
  const std::vector<Range> ranges = {any, any, any, any, any, any, positive};
  return {{plain, reads(small_picture), ranges}, {learned, reads(of_model), ranges}};
}

}  // namespace

Operands DiffusionSchedule::operands() const {
  return {{"schedule", Role::write, Element::f64}};
}
Outputs DiffusionSchedule::outputs(Shapes) const {
  if (used < 1 || used > steps)
    return Mistake{"diffusion_schedule: at least one time is used, and at most all are"};
  return {{used, columns}};
}
FactorRule DiffusionSchedule::factors(Shapes) const {
  return {{std::string(of_schedule)}, std::string(of_schedule), Linear::no};
}
double DiffusionSchedule::flops(Shapes) const {
  return 40 * static_cast<double>(steps);
}
std::vector<Example> examples_of(const DiffusionSchedule&) {
  return {{DiffusionSchedule{9, 9, false}, {}}, {DiffusionSchedule{12, 5, true}, {}}};
}

Operands DrawTimes::operands() const {
  return {{"seed", Role::read, Element::u64},
          {"step", Role::read, Element::i64},
          {"first_sample", Role::read, Element::i64},
          {"t", Role::write, Element::i32}};
}
Outputs DrawTimes::outputs(Shapes) const {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (steps < 1 || steps > most) return Mistake{"draw_times: there is a time, and 32 bits hold it"};
  if (shape.rank() != 1) return Mistake{"draw_times: t is (B)"};
  return {shape};
}
FactorRule DrawTimes::factors(Shapes) const {
  return {{"", "", "", "b"}, "", Linear::no};
}
double DrawTimes::flops(Shapes all) const {
  return elements(all[3]);
}
std::vector<Example> examples_of(const DrawTimes&) {
  const RandomStream stream = random_stream("times");
  return {{DrawTimes{stream, 1000, some_samples, {5}}, {scalar, scalar, scalar}},
          {DrawTimes{stream, 7, some_samples, {3}}, {scalar, scalar, scalar}}};
}

Operands DrawTimesByLoss::operands() const {
  return {
      {"seed", Role::read, Element::u64},         {"step", Role::read, Element::i64},
      {"first_sample", Role::read, Element::i64}, {"losses", Role::read, Element::accumulate},
      {"t", Role::write, Element::i32},           {"weights", Role::write, Element::accumulate}};
}
Outputs DrawTimesByLoss::outputs(Shapes reads) const {
  if (!is_losses(reads[3]) || reads[3][0] > std::numeric_limits<std::int32_t>::max())
    return Mistake{"draw_times_by_loss: losses are (T, 2 + n), n at least 1"};
  if (shape.rank() != 1) return Mistake{"draw_times_by_loss: t is (B)"};
  return {shape, shape};
}
FactorRule DrawTimesByLoss::factors(Shapes) const {
  return {{"", "", "", "tk", "b", "b"}, "tk", Linear::no};
}
double DrawTimesByLoss::flops(Shapes all) const {
  return 2 * elements(all[4]) * static_cast<double>(all[3][0]);
}
std::int64_t DrawTimesByLoss::integer_bound(Shapes all) const {
  return all[3][0];
}
std::vector<Example> examples_of(const DrawTimesByLoss&) {
  const RandomStream stream = random_stream("times");
  const std::vector<Range> early = {any, any, any, positive}, full = {any, any, any, {1, 2}};
  return {{DrawTimesByLoss{stream, some_samples, {5}}, {scalar, scalar, scalar, {7, 12}}, early},
          {DrawTimesByLoss{stream, some_samples, {5}}, {scalar, scalar, scalar, {300, 3}}, full}};
}

Operands TimesOfStep::operands() const {
  return {{"schedule", Role::read, Element::f64},
          {"index", Role::read, Element::i32},
          {"t", Role::write, Element::i32}};
}
Outputs TimesOfStep::outputs(Shapes reads) const {
  if (!is_schedule(reads[0])) return Mistake{"times_of_step: a schedule is (S, 7)"};
  if (shape.rank() != 1) return Mistake{"times_of_step: t is (B)"};
  return {shape};
}
FactorRule TimesOfStep::factors(Shapes) const {
  return {{std::string(of_schedule), "", "b"}, std::string(of_schedule), Linear::no};
}
double TimesOfStep::flops(Shapes) const {
  return 0;
}
std::int64_t TimesOfStep::integer_bound(Shapes all) const {
  return all[0][0];
}
std::vector<Example> examples_of(const TimesOfStep&) {
  return {{TimesOfStep{{3}}, {{4, DiffusionSchedule::columns}, scalar}}};
}

Operands AddNoise::operands() const {
  return {{"x_0"},
          {"t", Role::read, Element::i32},
          {"schedule", Role::read, Element::f64},
          {"seed", Role::read, Element::u64},
          {"step", Role::read, Element::i64},
          {"first_sample", Role::read, Element::i64},
          {"x_t", Role::write, Element::compute, 0},
          {"e", Role::write}};
}
Outputs AddNoise::outputs(Shapes reads) const {
  if (const auto mistake = mistake_in(name, reads[0], reads[1], reads[2])) return *mistake;
  if (part != TensorWindow{} && !is_window_of(part, join(reads[0], 1, reads[0].rank(), {}, 0, 0)))
    return Mistake{"add_noise: the window of x_0 has its dims after the first"};
  return {reads[0], reads[0]};
}
FactorRule AddNoise::factors(Shapes reads) const {
  const std::string picture = picture_letters(reads[0]);
  return {{picture, "b", std::string(of_schedule), "", "", "", picture, picture},
          std::string(of_schedule),
          Linear::no};
}
double AddNoise::flops(Shapes all) const {
  return 60 * elements(all[0]);
}
std::int64_t AddNoise::integer_bound(Shapes all) const {
  return all[2][0];
}
std::vector<Example> examples_of(const AddNoise&) {
  const RandomStream stream = random_stream("noise");
  const std::vector<Range> ranges = {any, any, positive};
  const std::vector<Shape> reads = {usual_picture, {2},    {6, DiffusionSchedule::columns},
                                    scalar,        scalar, scalar};
  return {{AddNoise{stream, some_samples}, reads, ranges},
          {AddNoise{stream, some_samples, {{5, 8, 9}, {0, 0, 3}}}, reads, ranges}};
}

Operands DiffusionLoss::operands() const {
  Operands list = loss_operands();
  list.push_back({"sample_loss", Role::write, Element::accumulate});
  return list;
}
Outputs DiffusionLoss::outputs(Shapes reads) const {
  if (const auto mistake = mistake_in_loss(name, reads, learned)) return *mistake;
  return {reads[4]};
}
FactorRule DiffusionLoss::factors(Shapes reads) const {
  return loss_factors(reads, {"b"});
}
double DiffusionLoss::flops(Shapes all) const {
  return (bound == 0 ? 3 : 60) * elements(all[1]);
}
std::int64_t DiffusionLoss::integer_bound(Shapes all) const {
  return all[6][0];
}
std::vector<Example> examples_of(const DiffusionLoss&) {
  auto list = loss_examples(DiffusionLoss{}, DiffusionLoss{true, false, 0.75, 0.5});
  list.push_back({DiffusionLoss{false, true, 0, 1}, list[0].reads, list[0].ranges});
  list.push_back({DiffusionLoss{true, true, 0, 1}, list[1].reads, list[1].ranges});
  return list;
}

Operands DiffusionLossGradient::operands() const {
  Operands list = loss_operands();
  if (weighted) list.push_back({"weights", Role::read, Element::accumulate});
  list.push_back({"output_grad", Role::write, Element::compute, 0});
  return list;
}
Outputs DiffusionLossGradient::outputs(Shapes reads) const {
  if (const auto mistake = mistake_in_loss(name, reads, learned)) return *mistake;
  if (weighted && reads[7] != reads[4])
    return Mistake{"diffusion_loss_gradient: each sample has a weight"};
  return {reads[0]};
}
FactorRule DiffusionLossGradient::factors(Shapes reads) const {
  std::vector<std::string> more = {sample_letters(reads[1]) + "o"};
  if (weighted) more.insert(more.begin(), "b");
  return loss_factors(reads, std::move(more));
}
double DiffusionLossGradient::flops(Shapes all) const {
  return (bound == 0 ? 3 : 60) * elements(all[1]);
}
std::int64_t DiffusionLossGradient::integer_bound(Shapes all) const {
  return all[6][0];
}
std::vector<Example> examples_of(const DiffusionLossGradient&) {
  auto list = loss_examples(DiffusionLossGradient{.scale = 0.5},
                            DiffusionLossGradient{true, false, 0.75, 0.5, 0.25});
  Example weighted = list[1];
  weighted.op = DiffusionLossGradient{true, true, 0.75, 0.5, 0.25};
  weighted.reads.push_back({2});
  weighted.ranges.push_back(positive);
  list.push_back(weighted);
  return list;
}

Operands WeighLosses::operands() const {
  return {{"sample_loss", Role::read, Element::accumulate},
          {"labels", Role::read, Element::i32},
          {"weights", Role::read, Element::accumulate},
          {"weighted", Role::write, Element::accumulate, 0},
          {"terms", Role::write, Element::accumulate}};
}
Outputs WeighLosses::outputs(Shapes reads) const {
  if (reads[0].rank() != 1 || reads[1] != reads[0] || reads[2] != reads[0])
    return Mistake{"weigh_losses: each sample has a loss, a label and a weight"};
  return {reads[0], {reads[0][0], 2}};
}
FactorRule WeighLosses::factors(Shapes) const {
  return {{"b", "b", "b", "b", "bp"}, "p", Linear::no};
}
double WeighLosses::flops(Shapes all) const {
  return 2 * elements(all[0]);
}
std::vector<Example> examples_of(const WeighLosses&) {
  return {{WeighLosses{}, {{4}, {4}, {4}}}};
}

Operands KeepLosses::operands() const {
  return {{"sums", Role::read, Element::accumulate},
          {"applied", Role::read, Element::i64},
          kept("losses", State::average, Element::accumulate)};
}
Outputs KeepLosses::outputs(Shapes reads) const {
  if (reads[0].rank() != 2 || reads[0][1] != 2)
    return Mistake{"keep_losses: a time has the sum of its squared losses and their number"};
  return {{reads[0][0], 2 + entries}};
}
FactorRule KeepLosses::factors(Shapes) const {
  return {{"tp", "", "tk"}, "pk", Linear::no};
}
double KeepLosses::flops(Shapes all) const {
  return elements(all[2]);
}
std::vector<Example> examples_of(const KeepLosses&) {
  return {{KeepLosses{}, {{5, 2}, scalar}, {positive, any, positive}}};
}

Operands Denoise::operands() const {
  return {{"output"},
          {"schedule", Role::read, Element::f64},
          {"index", Role::read, Element::i32},
          {"seed", Role::read, Element::u64},
          {"first_sample", Role::read, Element::i64},
          {"x", Role::update}};
}
Outputs Denoise::outputs(Shapes reads) const {
  const Shape& output = reads[0];
  if (!is_schedule(reads[1])) return Mistake{"denoise_step: a schedule is (S, 7)"};
  if (output.rank() < 2 || (learned && output.back() % 2 != 0))
    return Mistake{"denoise_step: output is (B, ..., C), or where learned (B, ..., 2 C)"};
  Shape x = output;
  x[x.rank() - 1] = learned ? output.back() / 2 : output.back();
  if (part != TensorWindow{} && !is_window_of(part, join(x, 1, x.rank(), {}, 0, 0)))
    return Mistake{"denoise_step: the window of x has its dims after the first"};
  return {x};
}
FactorRule Denoise::factors(Shapes reads) const {
  const std::string pixels = sample_letters(reads[0]);
  // Where the model gives the noise alone, its channels are those of x.
  const std::string output = learned ? "o" : "c";
  return {{pixels + output, std::string(of_schedule), "", "", "", pixels + "c"},
          std::string(of_schedule) + (learned ? "oc" : ""),
          Linear::no};
}
double Denoise::flops(Shapes all) const {
  return 80 * elements(all[5]);
}
std::int64_t Denoise::integer_bound(Shapes all) const {
  return all[1][0];
}
std::vector<Example> examples_of(const Denoise&) {
  const RandomStream stream = random_stream("sampling");
  const std::vector<Range> ranges = {any, positive};
  const std::vector<Shape> reads = {
      {2, 3, 4}, {5, DiffusionSchedule::columns}, scalar, scalar, scalar};
  return {{Denoise{stream, true, false, 0, some_samples}, reads, ranges},
          {Denoise{stream, false, true, 0.5, some_samples, {{3, 9}, {0, 4}}}, reads, ranges}};
}

}  // namespace fourfold::op
