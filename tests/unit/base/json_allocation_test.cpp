// JSON values when memory runs out while they are made: whichever allocation fails, what was made
// goes, once.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "base/json.h"
#include "unit/run/allocation_counter.h"

namespace fourfold {
namespace {

Json nested(const std::string& text) {
  Json parts = Json::array();
  parts.push(Json::object({{"file", 3}, {"origin", Json::array({1, 2})}, {text, text}}));
  Json inner = Json::object({{text, text}, {"list", Json::array({Json(text), Json(text)})}});
  Json copy = inner;
  copy = parts;
  return Json::object({{text + "1", text},
                       {text + "2", std::move(inner)},
                       {text + "3", std::move(copy)},
                       {text + "4", std::move(parts)}});
}

TEST(Json, any_allocation_may_fail_while_a_value_is_made_copied_or_printed) {
  const std::string text(40, 'x');  // longer than what a string holds itself
  const std::string expected = nested(text).dump();
  std::int64_t failures = 0;
  for (bool has_ended = false; !has_ended;) {
    fail_allocation(failures + 1);
    try {
      const std::string found = nested(text).dump();
      has_ended = true;
      fail_allocation(-1);
      EXPECT_EQ(found, expected);
    } catch (const std::bad_alloc&) {
      ++failures;
    }
  }
  EXPECT_GT(failures, 40);
}

}  // namespace
}  // namespace fourfold
