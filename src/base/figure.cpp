#include "base/figure.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {

double finite_figure(double value, std::string_view what, std::string_view what_to_do) {
  if (std::isfinite(value)) return value;
  throw UserError(ExitCode::numeric_stop,
                  format("{} is {}, expected a finite number; {}", what, value, what_to_do));
}

}  // namespace fourfold
