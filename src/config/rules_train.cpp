// Relations between the keys of a run: its name, precision, learning rate, samples.
#include <algorithm>
#include <utility>

#include "config/rules_words.h"
#include "config/schema.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

Verdict residual_fits_compute(const Config& c) {
  const bool is_wider = c.residual == DType::f32 && c.plan.compute == DType::bf16;
  if (c.residual == c.plan.compute || is_wider) return std::nullopt;
  Config copy = c;  // places hand out references
  const std::string residual = value_text(*find_key("precision.residual"), copy),
                    compute = value_text(*find_key("precision.compute"), copy);
  return Finding{
      format("precision.residual = {} does not go with precision.compute = {}", residual, compute),
      format("leave precision.residual out, or set it to {}; beside bf16 it may also be fp32",
             compute)};
}

Verdict reduce_fits_compute(const Config& c) {
  if (!c.plan.rounds_gradients || c.plan.compute == DType::bf16) return std::nullopt;
  Config copy = c;  // places hand out references
  return Finding{format("precision.reduce = bf16 does not go with precision.compute = {}",
                        value_text(*find_key("precision.compute"), copy)),
                 "leave precision.reduce out, or set precision.compute = bf16"};
}

Verdict warmup_fits_steps(const Config& c) {
  return at_most("lr_schedule.warmup_steps", c.train.schedule.warmup_steps, "train.steps",
                 c.train.steps);
}

Verdict warmup_fits_decay(const Config& c) {
  const auto& schedule = c.train.schedule;
  if (schedule.kind == schedule::LearningRateKind::linear ||
      schedule.kind == schedule::LearningRateKind::cosine)
    return at_most("lr_schedule.warmup_steps", schedule.warmup_steps, "lr_schedule.decay_steps",
                   schedule.decay_steps);
  const std::int64_t both = schedule.warmup_steps + schedule.decay_steps;
  if (schedule.kind == schedule::LearningRateKind::constant || both <= c.train.steps)
    return std::nullopt;
  return Finding{
      format(
          "lr_schedule.warmup_steps = {} and lr_schedule.decay_steps = {} are together longer than "
          "train.steps = {}",
          schedule.warmup_steps, schedule.decay_steps, c.train.steps),
      format("make lr_schedule.decay_steps smaller, or set train.steps to at least {}", both)};
}

Verdict least_rate_below_largest(const Config& c) {
  return at_most("lr_schedule.min_lr", c.train.schedule.min_lr, "optimizer.lr",
                 c.train.schedule.lr);
}

Verdict intervals_have_samples(const Config& c) {
  if (c.sample.interval == 0 || c.sample.tokens > 0) return std::nullopt;
  return Finding{format("sample.interval = {} asks for texts, but sample.tokens = 0 writes none",
                        c.sample.interval),
                 data::row_of(c.data.format).has_words
                     ? "leave sample.interval out, or sample.tokens"
                     : "leave sample.interval out, or set sample.tokens, for example 200"};
}

Verdict name_is_a_folder_name(const Config& c) {
  const bool clean = !c.name.empty() && c.name != "." && c.name != ".." &&
                     std::all_of(c.name.begin(), c.name.end(), [](char letter) {
                       return letter != '/' && static_cast<unsigned char>(letter) >= 0x20;
                     });
  if (clean) return std::nullopt;
  return Finding{format("run.name = '{}' cannot name a folder", c.name),
                 "use letters, digits, '-', '_' and '.'"};
}

Verdict folder_is_named(const Config& c) {
  if (!c.dir.empty()) return std::nullopt;
  return Finding{"run.dir is empty", "name a folder, or leave it out for runs/ and run.name"};
}

}  // namespace

std::vector<Rule> train_rules() {
  return {
      {{"run.name"}, name_is_a_folder_name},
      {{"run.dir"}, folder_is_named},
      {{"precision.residual", "precision.compute"}, residual_fits_compute},
      {{"precision.reduce", "precision.compute"}, reduce_fits_compute},
      {{"lr_schedule.warmup_steps", "train.steps"}, warmup_fits_steps},
      {{"lr_schedule.warmup_steps", "lr_schedule.decay_steps", "lr_schedule.kind", "train.steps"},
       warmup_fits_decay},
      {{"lr_schedule.min_lr", "optimizer.lr"}, least_rate_below_largest},
      {{"sample.interval", "sample.tokens"}, intervals_have_samples},
  };
}

}  // namespace fourfold::config
