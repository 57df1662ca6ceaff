// The files of a run directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/units.h"

namespace fourfold::cli {

struct RunFiles {
  static constexpr const char* config = "config.resolved.yaml";
  static constexpr const char* plan = "plan.txt";
  static constexpr const char* tokenizer = "tokenizer.json";
  static constexpr const char* metrics = "metrics.jsonl";
  static constexpr const char* log = "log.rank0.txt";
  static constexpr const char* weights = "model.safetensors";
  static constexpr const char* sample = "sample.txt";
};

inline std::string grouped(std::size_t number) {
  return format_grouped(static_cast<std::int64_t>(number));
}

}  // namespace fourfold::cli
