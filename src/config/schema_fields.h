// What the rows of the schema are written with: places, choices, bounds, largest sizes. Included by
// the schema_*.cpp files only.
#pragma once

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/schema.h"

namespace fourfold::config {

/// Places inside a spec of Config.
template <class T>
Place<T> at(T Config::* member) {
  return [member](Config& config) -> T& { return config.*member; };
}
template <class Spec, class T>
Place<T> at(Spec Config::* spec, T Spec::* member) {
  return [spec, member](Config& config) -> T& { return config.*spec.*member; };
}
template <class T>
Place<T> at_schedule(T schedule::LearningRateSpec::* member) {
  return [member](Config& config) -> T& { return config.train.schedule.*member; };
}
template <class T>
Place<T> at_checkpoint(T train::CheckpointSpec::* member) {
  return [member](Config& config) -> T& { return config.train.checkpoint.*member; };
}
template <class T>
Place<T> at_loss_spike(T train::LossSpikeSpec::* member) {
  return [member](Config& config) -> T& { return config.train.loss_spike.*member; };
}
template <class T>
Place<T> at_grid(T plan::Grid::* member) {
  return [member](Config& config) -> T& { return config.plan.grid.*member; };
}
/// An amount that is kept as a plain number, or as one that may be open.
template <class T>
Amount amount(T plan::PlanSpec::* member) {
  return {
      .get = [member](Config& config) { return std::optional<std::int64_t>(config.plan.*member); },
      .set =
          [member](Config& config, std::optional<std::int64_t> value) {
            if constexpr (std::is_same_v<T, std::int64_t>)
              config.plan.*member = value.value();
            else
              config.plan.*member = value;
          }};
}
inline Amount sized(Amount amount) {
  amount.is_size = true;
  return amount;
}
inline Amount with_words(Amount amount, std::string zero, std::string open) {
  amount.zero = std::move(zero);
  amount.open = std::move(open);
  return amount;
}
inline Place<bool> at_overlap(bool plan::Overlap::* member) {
  return [member](Config& config) -> bool& { return config.plan.overlap.*member; };
}

template <class T>
Place<T> at_pipeline(T plan::PipelineSpec::* member) {
  return [member](Config& config) -> T& { return config.plan.pipeline.*member; };
}
/// A size of the grid, or `auto` where the planner chooses it.
inline Amount at_axis(std::int64_t plan::Grid::* size, bool OpenAxes::* is_open) {
  return {.get = [size, is_open](Config& config) -> std::optional<std::int64_t> {
            if (config.open_axes.*is_open) return std::nullopt;
            return config.plan.grid.*size;
          },
          .set =
              [size, is_open](Config& config, std::optional<std::int64_t> value) {
                config.open_axes.*is_open = !value;
                config.plan.grid.*size = value.value_or(1);
              },
          .open = "auto"};
}

/// The number of stages, or `auto` likewise.
inline Amount at_stages() {
  return {.get = [](Config& config) -> std::optional<std::int64_t> {
            if (config.open_axes.stages) return std::nullopt;
            return config.plan.pipeline.stages;
          },
          .set =
              [](Config& config, std::optional<std::int64_t> value) {
                config.open_axes.stages = !value;
                config.plan.pipeline.stages = value.value_or(1);
              },
          .open = "auto"};
}

template <class Enum>
Choice choice(Place<Enum> place, std::vector<std::string> names, std::vector<Enum> values) {
  return {std::move(names),
          [place, values](Config& config) {
            const auto found = std::find(values.begin(), values.end(), place(config));
            require(found != values.end(), "a stored choice is one of the schema's");
            return static_cast<std::size_t>(found - values.begin());
          },
          [place, values](Config& config, std::size_t index) { place(config) = values[index]; }};
}

inline Bounds between(double least, double most) {
  return {least, most};
}
inline Bounds at_least(double least) {
  return {least, std::numeric_limits<double>::infinity()};
}
inline Bounds above(double least) {
  return {least, std::numeric_limits<double>::infinity(), true, false};
}
/// Fractions.
inline Bounds from_zero_below_one() {
  return {0, 1, false, true};
}
inline Bounds inside_zero_one() {
  return {0, 1, true, true};
}

// Largest sizes: far above any model, low enough that products of a few of them stay inside 64
// bits.
inline constexpr double most_layers = 1'000, most_width = 1'000'000, most_tokens = 1'000'000;
inline constexpr double most_side = 16'384;            // of a picture
inline constexpr double most_vocabulary = 10'000'000;  // token ids are stored in 32 bits
inline constexpr double most_steps = 4'294'967'295;    // random numbers count steps in 32 bits

/// The sections but those of the families (family.h), each in a schema_*.cpp file of its own or
/// with its neighbours.
std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> train_keys();
std::vector<Key> optimizer_keys();
std::vector<Key> schedule_keys();
std::vector<Key> loss_spike_keys();
std::vector<Key> checkpoint_keys();
std::vector<Key> grid_keys();
std::vector<Key> pipeline_keys();
std::vector<Key> cut_keys();
std::vector<Key> overlap_keys();
std::vector<Key> memory_keys();
std::vector<Key> precision_keys();

}  // namespace fourfold::config
