#include "op/examples.h"

#include <iterator>
#include <type_traits>
#include <utility>

namespace fourfold::op {
namespace {

/// The row with other numbers and switches than it has by itself.
template <class Row>
Row with_other_attributes(Row row) {
  for_each_attribute(row, []<class T>(std::string_view, T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = !value;
    else
      value += std::is_integral_v<T> ? T{1} : T{1} / 2;
  });
  return row;
}

template <class Row>
std::vector<Example> elementwise_examples(const Row& row) {
  constexpr std::size_t reads = Row::rule.num_reads;
  const std::vector<Range> ranges(reads, Row::rule.domain);
  std::vector<Example> list;
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{37}})
    list.push_back({row, std::vector<Shape>(reads, shape), ranges});
  if (const Row other = with_other_attributes(row); other != row)
    list.push_back({other, std::vector<Shape>(reads, Shape{2, 3, 4}), ranges});
  return list;
}

}  // namespace

#define FOURFOLD_ROW(Row, work)                      \
  std::vector<Example> examples_of(const Row& row) { \
    return elementwise_examples(row);                \
  }
FOURFOLD_ELEMENTWISE_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

std::vector<Example> examples() {
  std::vector<Example> all;
  const auto append = [&](std::vector<Example> list) {
    all.insert(all.end(), std::make_move_iterator(list.begin()),
               std::make_move_iterator(list.end()));
  };
#define FOURFOLD_ROW(Row, work) append(examples_of(Row{}));
  FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW
  return all;
}

}  // namespace fourfold::op
