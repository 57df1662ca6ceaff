// A configuration is settled: the model by its data, the grid by the ranks. Not what the planner
// chooses (open_grid.h), and nothing is planned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/settled.h"
#include "data/source.h"
#include "plan/infeasible.h"

namespace fourfold::job {

/// What data are for. Where none is trained on, any number of samples will do.
enum class DataUse { training, validation };

/// The data of a configuration, which may leave the model open to them. Errors:
/// UserError(bad_data), which also says where the configuration names a file that is not there.
std::unique_ptr<const data::Source> open_data(const config::Config& config,
                                              DataUse use = DataUse::training);

/// True if the model is left open until the data are read.
bool needs_data(const config::Config& config);

/// The model with a vocabulary, the size of a picture and classes. Null `data`: they are read where
/// something of the model is open, else nothing is looked at. Errors: those of open_data;
/// UserError(bad_config) where model and data do not fit.
model::Spec model_of(const config::Config& config, const data::Source* data);

/// What is known beside a configuration when it is settled.
struct Known {
  const data::Source* data = nullptr;                // as model_of takes it
  std::optional<std::int64_t> ranks = std::nullopt;  // of the job; none: as many as its grid needs,
                                                     // one where parallel.data is auto
};

/// Settles a run, once a start. Requires that no axis of the grid is the planner's. Errors: those
/// of with_model_of and given_layout; UserError(does_not_fit) where the grid does not fit the
/// ranks or divide the batch. What is wrong with model and grid is told together.
config::Settled settle(const config::Config& config, const Known& known);

/// The errors of a plan that cannot be, with the places of its keys and grids that work near the
/// one that was `wanted`.
[[noreturn]] void refuse(const plan::Infeasible& infeasible, const config::Config& wanted,
                         std::optional<std::int64_t> ranks);
/// The same for a result that may be one.
template <class T>
T feasible(std::variant<T, plan::Infeasible> result, const config::Config& wanted,
           std::optional<std::int64_t> ranks) {
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&result))
    refuse(*infeasible, wanted, ranks);
  return std::get<T>(std::move(result));
}

/// "parallel.tensor.x is set at a.yaml:5", a line a key that the user has set.
std::string places_of(const std::vector<std::string>& keys, const config::Origins& origins);

}  // namespace fourfold::job
