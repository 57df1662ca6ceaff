#include "compile/fuse_sums.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// Joins around the first of several sums.
class Fuser : private Neighbours {
 public:
  using Neighbours::Neighbours;

  void run() {
    for_each_row([&](const auto& row, std::size_t index) { fuse(row, index); });
  }

 private:
  template <class Row>
  void fuse(const Row&, std::size_t) {}
  void fuse(const op::SquaredNorm& row, std::size_t index) { fuse_sum(row, index); }
  void fuse(const op::CountNonFinite& row, std::size_t index) { fuse_sum(row, index); }

  template <class Row>
  void fuse_sum(Row row, std::size_t index) {
    if (!wants<Row>()) return;
    const std::vector<std::size_t> members = addends<Row>(index);
    if (members.size() < 2) return;
    std::vector<Slice> slices;
    for (const std::size_t member : members) slices.push_back(compute(member)->slices[0]);
    slices.push_back(compute(index)->slices[1]);
    row.tensors = static_cast<std::int64_t>(members.size());
    join(row, std::move(slices), members, members.back());
  }

  /// The row at `first` and those that add to its number, up to the first other look at it.
  template <class Row>
  std::vector<std::size_t> addends(std::size_t first) const {
    std::vector<std::size_t> members = {first};
    const Slice& sum = compute(first)->slices[1];
    for (const std::size_t next : uses().of_value(sum, first)) {
      if (!is<Row>(next) || !alike(first, next) || !uses().same_task(first, next)) break;
      const Row& row = std::get<Row>(compute(next)->op);
      if (row.tensors != 1 || !row.accumulate || compute(next)->slices[1] != sum) break;
      members.push_back(next);
    }
    return members;
  }
};

}  // namespace

Program fuse_sums(Program program, const machine::Target& target) {
  if (!target.fusions.empty()) Fuser(program, target).run();
  return program;
}

}  // namespace fourfold::compile
