#include "config/resume_class.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "schedule/learning_rate.h"

namespace fourfold::config {
namespace {

using enum ResumeClass;

/// By key, or by section where it ends with a dot; the longest that fits counts. Rows that say
/// their class themselves, as those of the families do, are not looked up here.
constexpr std::pair<std::string_view, ResumeClass> classes[] = {
    {"data.", overridable},
    {"data.tokenizer", fixed},
    {"data.tokenizer_path", free},  // its content is compared: cli/resume.cpp
    {"train.", free},
    {"train.global_batch_size", overridable},
    {"optimizer.", overridable},
    {"optimizer.name", fixed},
    {"optimizer.lr", free},
    {"optimizer.shard", free},
    {"lr_schedule.", free},
    {"loss_spike.", free},
    // fp32 and bf16 keep the same float32 state; that of fp64 is refused where it is loaded.
    {"precision.", overridable},
    {"parallel.", free},
    {"memory.", free},
    {"eval.", free},
    {"log.", free},
    {"checkpoint.", free},
    {"sample.", free},
    {"run.", free},
    {"kernels", free},
    {"run.seed", overridable},
};

/// Nobody gave the value: it follows from others.
bool follows(const Origin& origin) {
  return origin.place == "derived";
}

}  // namespace

ResumeClass resume_class(std::string_view key) {
  if (const Key* row = find_key(key); row != nullptr && row->on_resume) return *row->on_resume;
  const std::pair<std::string_view, ResumeClass>* best = nullptr;
  for (const auto& entry : classes) {
    const bool is_section = entry.first.ends_with('.');
    const bool fits = is_section ? key.starts_with(entry.first) : key == entry.first;
    if (fits && (best == nullptr || entry.first.size() > best->first.size())) best = &entry;
  }
  if (best == nullptr) fail_internal(format("no class is given to the key {}", key));
  return best->second;
}

std::string resume_conflicts(const std::vector<Difference>& differences,
                             const std::vector<std::string>& overrides) {
  std::string lines;
  for (const Difference& difference : differences) {
    if (follows(difference.left) && follows(difference.right)) continue;  // from another difference
    const ResumeClass kind = resume_class(difference.key);
    const bool is_meant =
        std::find(overrides.begin(), overrides.end(), difference.key) != overrides.end();
    if (kind == free || (kind == overridable && is_meant)) continue;
    lines += format("\n  {}: {} in the checkpoint, {} now ({}); {}", difference.key,
                    difference.left.value, difference.right.value, difference.right.place,
                    kind == fixed ? "the checkpoint fits only the former"
                                  : format("if you mean it, pass --override {}", difference.key));
  }
  return lines;
}

std::string schedule_leap(std::int64_t step, const Config& before, const Config& now) {
  const train::TrainSpec &old = before.train, &fresh = now.train;
  if (old.schedule.kind != fresh.schedule.kind || step >= fresh.steps) return {};
  schedule::LearningRateSpec former = old.schedule;  // in shape
  former.lr = fresh.schedule.lr;
  former.min_lr = fresh.schedule.min_lr;
  const double expected = schedule::learning_rate(former, old.steps, step);
  const auto leaps = [&](const schedule::LearningRateSpec& schedule) {
    constexpr double rounding = 1e-9;
    const double rate = schedule::learning_rate(schedule, fresh.steps, step);
    return std::abs(rate - expected) > rounding * std::max(rate, expected);
  };
  if (!leaps(fresh.schedule)) return {};
  std::string keep;
  if (!leaps(former)) {
    const auto note = [&](const char* key, std::int64_t then, std::int64_t value) {
      if (then != value) keep += format(" --set lr_schedule.{}={}", key, then);
    };
    note("warmup_steps", former.warmup_steps, fresh.schedule.warmup_steps);
    note("decay_steps", former.decay_steps, fresh.schedule.decay_steps);
  }
  return format(
      "\n  lr_schedule: the learning rate of step {} would be {:.3g}, and {:.3g} on the schedule "
      "of "
      "the checkpoint (train.steps {} then, {} now); {}if you mean it, pass --override lr_schedule",
      step + 1, schedule::learning_rate(fresh.schedule, fresh.steps, step), expected, old.steps,
      fresh.steps, keep.empty() ? "" : format("to keep that, pass{}; ", keep));
}

}  // namespace fourfold::config
