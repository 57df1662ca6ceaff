#include "job/settle.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "config/changes.h"
#include "config/family.h"
#include "config/infeasible_text.h"
#include "data/token_sets.h"
#include "job/given_layout.h"
#include "job/nearest_grids.h"
#include "model/model.h"
#include "plan/make_mesh.h"
#include "plan/plan.h"

namespace fourfold::job {
namespace {

/// One line a problem and the places of its keys; several are marked each.
std::string in_words(const plan::Infeasible& infeasible, const config::Config& config) {
  const bool is_alone = infeasible.problems.size() < 2;
  std::string text;
  for (const plan::Problem& problem : infeasible.problems) {
    const auto [keys, message] = config::in_words(problem, config.kind);
    text += (text.empty() ? "" : "\n") + std::string(is_alone ? "" : "error: ") + message +
            places_of(keys, config.origins);
  }
  return text;
}

/// What is wrong with a run, in the order in which it is found.
class Problems {
 public:
  /// The result, or nothing where it cannot be had.
  template <class F>
  auto attempt(F&& find) -> std::optional<decltype(find())> {
    try {
      return find();
    } catch (const UserError& error) {
      errors_.push_back(error);
      return std::nullopt;
    }
  }
  /// Several are marked each, and have the code of the first.
  void throw_any() const {
    if (errors_.empty()) return;
    if (errors_.size() == 1) throw UserError(errors_[0]);
    std::string text;
    for (const UserError& error : errors_)
      text += format("{}error: {}", text.empty() ? "" : "\n", error.what());
    throw UserError(errors_[0].code(), text);
  }

 private:
  std::vector<UserError> errors_;
};

/// As many labels as the data have, where that is left open; at least as many.
std::int64_t labels_of(std::int64_t labels, const config::Config& config,
                       const data::Source& source) {
  const std::int64_t in_data = source.num_labels();
  if (labels == 0) return in_data;
  const std::string& key = config::family_schema(config.kind).labels_key;
  if (labels < in_data)
    throw UserError(ExitCode::bad_config,
                    format("{} = {} is smaller than the {} {} of the data ({}); leave it out or "
                           "set {} = {}",
                           key, labels, in_data,
                           config.family().reads == model::Reads::text ? "tokens" : "classes",
                           source.name(), key, in_data));
  return labels;
}

std::vector<std::int64_t> picture_of(const std::vector<std::int64_t>& picture,
                                     const config::Config& config, const data::Source& source) {
  const std::vector<std::int64_t>& in_data = source.inputs()[0].sample_shape.dims();
  if (!picture.empty() && picture != in_data)
    throw UserError(ExitCode::bad_config,
                    format("{} = {} is not the size of the data's pictures, {} ({}); leave it out",
                           config::family_schema(config.kind).picture_key,
                           to_string(Shape(picture)), to_string(Shape(in_data)), source.name()));
  return in_data;
}

/// The model with what the data say of it.
model::Spec model_of_data(const config::Config& config, const data::Source& source) {
  model::DataFacts facts = model::data_facts(config.model());
  if (config.family().reads == model::Reads::pictures) {
    facts.picture = picture_of(facts.picture, config, source);
    const model::Spec of_size = model::settled(config.model(), facts);
    if (const auto fault = config::picture_fault(config::with_model(config, of_size)))
      throw UserError(ExitCode::bad_config, format("{} ({})", *fault, source.name()));
  }
  facts.num_labels = labels_of(facts.num_labels, config, source);
  return model::settled(config.model(), facts);
}

/// A grid that has the ranks and divides the batch.
plan::Grid grid_of(const config::Config& config, std::optional<std::int64_t> ranks) {
  using enum plan::DataRanks;
  plan::Grid grid =
      feasible(plan::solve_grid(config.plan_spec(), ranks, config.open_axes.data ? open : stated),
               config, ranks);
  feasible(plan::solve_batching(config::with_grid(config, grid).plan_spec()), config, ranks);
  return grid;
}

}  // namespace

std::unique_ptr<const data::Source> open_data(const config::Config& config, DataUse use) {
  try {
    data::DataSpec spec = config.data_spec();
    if (use == DataUse::validation) spec.samples_per_step = 1;
    return data::open_source(spec);
  } catch (const UserError& error) {
    std::vector<std::string> keys;
    for (const data::MissingFile& file : data::missing_files(config.data_spec()))
      keys.push_back(file.key);
    if (keys.empty()) throw;
    throw UserError(
        error.code(),
        format("{}{}\n      paths are seen from the current directory, {}", error.what(),
               places_of(keys, config.origins), std::filesystem::current_path().string()));
  }
}

bool needs_data(const config::Config& config) {
  return model::needs_data(config.model());
}

model::Spec model_of(const config::Config& config, const data::Source* data) {
  if (data != nullptr) return model_of_data(config, *data);
  return needs_data(config) ? model_of_data(config, *open_data(config)) : config.model();
}

config::Settled settle(const config::Config& config, const Known& known) {
  Problems problems;
  const auto model = problems.attempt([&] { return model_of(config, known.data); });
  const auto grid = problems.attempt([&] { return grid_of(config, known.ranks); });
  const auto layout = problems.attempt([&] { return given_layout(config); });
  problems.throw_any();
  const config::Config with_grid = config::with_grid(config::with_model(config, *model), *grid);
  return config::Settled(*layout ? config::with_layout(with_grid, **layout) : with_grid);
}

void refuse(const plan::Infeasible& infeasible, const config::Config& wanted,
            std::optional<std::int64_t> ranks) {
  if (std::ranges::any_of(infeasible.problems, plan::is_of_any_grid))
    throw UserError(ExitCode::bad_config, in_words(infeasible, wanted));
  throw UserError(ExitCode::does_not_fit,
                  in_words(infeasible, wanted) + nearest_grids(wanted, ranks));
}

std::string places_of(const std::vector<std::string>& keys, const config::Origins& origins) {
  std::string text;
  for (const std::string& key : keys) {
    const config::Origin* origin = origins.find(key);
    if (origin == nullptr || origin->place == "default" || origin->place == "derived") continue;
    const bool is_option = origin->place.starts_with("--");
    text += format("\n      {} is set {} {}", key, is_option ? "by" : "at", origin->place);
  }
  return text;
}

}  // namespace fourfold::job
