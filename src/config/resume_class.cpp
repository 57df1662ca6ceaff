#include "config/resume_class.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::config {
namespace {

using enum ResumeClass;

/// By key, or by section where it ends with a dot; the longest that fits counts.
constexpr std::pair<std::string_view, ResumeClass> classes[] = {
    {"model.", fixed},
    {"model.dropout", overridable},
    {"vgg.", fixed},
    {"vgg.dropout", overridable},
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

}  // namespace

ResumeClass resume_class(std::string_view key) {
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

}  // namespace fourfold::config
