// The verifier as an observer of the compiler's passes.
#pragma once

#include "compile/passes.h"

namespace fourfold::job {

/// Proves what a pass has made, a program that is not done on a copy that is finished plainly.
/// Throws InternalError with the pass and the first fault. Not of stages that pass signals, whose
/// data do not arrive.
void prove(const compile::Pass& pass, const compile::Form& form,
           const compile::PassContext& context);

/// The options with `prove` after their own observer, in a debug build; else as they are.
compile::PassOptions proved_in_debug(compile::PassOptions options);

}  // namespace fourfold::job
