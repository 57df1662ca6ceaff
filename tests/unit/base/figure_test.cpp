#include "base/figure.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"

namespace fourfold {
namespace {

TEST(Figure, one_that_is_no_number_stops_with_its_name_and_with_what_to_do) {
  EXPECT_EQ(finite_figure(-2.5, "the loss", "stop"), -2.5);
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const double value : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      finite_figure(value, "the loss", "use other weights");
      ADD_FAILURE() << value;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::numeric_stop);
      EXPECT_NE(std::string(error.what()).find("expected a finite number; use other weights"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace fourfold
