#include "job/prove_pass.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "verify/verify.h"

namespace fourfold::job {

void prove(const compile::Pass& pass, const compile::Form& form,
           const compile::PassContext& context) {
  const auto* program = std::get_if<program::Program>(&form);
  const bool is_bound = context.plan.reshard.strategy == reshard::Strategy::signal;
  if (program == nullptr || is_bound) return;
  const auto faults = verify::verify(compile::plainly_finished(*program, context.rank));
  if (!faults.empty())
    fail_internal(format("after pass {}: {}: {}", pass.name, faults[0].rule, faults[0].message));
}

compile::PassOptions proved_in_debug(compile::PassOptions options) {
#ifndef NDEBUG
  options.observer = [own = std::move(options.observer)](const auto& pass, const auto& form,
                                                         const auto& context) {
    if (own) own(pass, form, context);
    prove(pass, form, context);
  };
#endif
  return options;
}

}  // namespace fourfold::job
