// Rows of a label and a text: what is told of a job at a glance, before anybody lays it out. How
// they become lines: screen/rows.h.
#pragma once

#include <string>
#include <vector>

namespace fourfold {

struct Row {
  std::string label, text;
};
using Rows = std::vector<Row>;

}  // namespace fourfold
