// Figures that a command is about to show.
#pragma once

#include <string_view>

namespace fourfold {

/// Returns `value`. Errors: UserError(numeric_stop) for NaN and infinities, which name `what` and
/// say what to do: a command that shows such a figure has not done what it was asked for.
double finite_figure(double value, std::string_view what, std::string_view what_to_do);

/// This tells what to do where a trained model gives a figure that is no number.
inline constexpr std::string_view use_other_weights =
    "the weights are damaged or the training has diverged: choose an earlier checkpoint with "
    "--step, or train again";

}  // namespace fourfold
