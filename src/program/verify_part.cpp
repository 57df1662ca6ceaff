// part: what depends on the coordinates of a rank, recomputed from them: attributes that say which
// part of a tensor an op computes, and slices that are this rank's own block.
#include <algorithm>
#include <vector>

#include "base/format.h"
#include "program/verify_rules.h"
#include "program/verify_state.h"

namespace fourfold::program {
namespace {

class AttributeCheck {
 public:
  AttributeCheck(Claims& claims, Report& report)
      : program_(claims.program()), claims_(claims), report_(report) {}

  void run() {
    for (const Task& task : program_.tasks)
      for (index_ = task.begin; index_ < task.end; ++index_) {
        const auto* what = std::get_if<Compute>(&program_.instructions[index_].what);
        micro_ = task.micro;
        if (what == nullptr) continue;
        for (const op::Part& part : op::parts(what->op)) {
          slices_.clear();
          for (const std::size_t operand : part.operands) slices_.push_back(what->slices[operand]);
          std::visit([&](const auto& row) { check(row); }, part.op);
        }
      }
  }

 private:
  template <class Row>
  void check(const Row&) {}  // the other rows compute what their operands say

  void check(const op::Embedding& row) { check_first("first_row", row.first_row, 1, 0); }
  void check(const op::EmbeddingGradient& row) { check_first("first_row", row.first_row, 2, 0); }
  void check(const op::AddPositions& row) { check_first("first", row.first, 0, 1); }
  void check(const op::PositionsGradient& row) { check_first("first", row.first, 0, 1); }
  void check(const op::Dropout& row) {
    if (row.rate == 0) return;
    check_window(row.window);
    check_part(row.part, 0, 1);
  }
  void check(const op::Attention& row) { check_heads(row); }
  void check(const op::AttentionGradient& row) { check_heads(row); }
  void check(const op::LayerNormMoments& row) {
    const Buffer &x = buffer(0), &moments = buffer(1);
    const std::int64_t width = program_.local_shape(slices_[0].buffer).back();
    if (x.global.back() * row.parts != width * moments.global[0])
      fault(format("{} of {} blocks are here, but {} of {} channels", row.parts, moments.global[0],
                   width, x.global.back()));
  }
  void check(const op::LayerNormApply& row) { check_size("width", row.width); }
  void check(const op::LayerNormGradientApply& row) { check_size("width", row.width); }
  void check(const op::LogitMax& row) { check_columns(row); }
  void check(const op::LogitSums& row) { check_columns(row); }
  void check(const op::CrossEntropyGradient& row) { check_columns(row); }
  void check(const op::InitNormal& row) { check_part(row.part, 1, 0); }
  void check(const op::Digest& row) { check_part(row.part, 0, 0); }

  void fault(std::string_view message) { report_.fault("part", index_, message); }
  const Buffer& buffer(std::size_t operand) const {
    return program_.buffer(slices_[operand].buffer);
  }

  /// Index, in the whole tensor, of the first element of a dim that the op sees; faults where the
  /// slice has none.
  std::int64_t first_of(std::size_t operand, std::size_t dim) {
    const Slice& slice = slices_[operand];
    const auto before = claims_.rows_before(slice);
    if (!before) fault(format("the slice of {} is no range of rows", buffer(operand).name));
    return claims_.first(slice.buffer, dim) + (dim == 0 ? before.value_or(0) : 0);
  }

  void check_first(std::string_view attribute, std::int64_t value, std::size_t operand,
                   std::size_t dim) {
    const std::int64_t expected = first_of(operand, dim);
    if (value != expected)
      fault(format("{} is {}, but this rank's part of {} begins at {}", attribute, value,
                   buffer(operand).name, expected));
  }

  /// An attribute that is the size, over all ranks, of the last dim of operand 0.
  void check_size(std::string_view attribute, std::int64_t value) {
    if (value != buffer(0).global.back())
      fault(format("{} is {}, but {} has {} over all ranks", attribute, value, buffer(0).name,
                   buffer(0).global.back()));
  }

  template <class Row>
  void check_columns(const Row& row) {
    const std::size_t dim = buffer(0).global.rank() - 1;
    check_first("first_column", row.first_column, 0, dim);
    std::int64_t covered = program_.local_shape(slices_[0].buffer).back();
    for (const op::Cut& cut : claims_.cuts(slices_[0].buffer, dim))
      covered *= claims_.mesh(slices_[0].buffer).axes[cut.axis.index()].size;
    if (row.columns != 0 || covered != buffer(0).global.back()) check_size("columns", row.columns);
  }

  /// Heads count only in the mask of dropout.
  template <class Row>
  void check_heads(const Row& row) {
    if (row.rate == 0) return;
    constexpr std::size_t head_dim = 3;  // of (B, T, 3, H, D)
    check_window(row.window);
    check_first("first_head", row.first_head, 0, head_dim);
    if (row.heads != buffer(0).global[head_dim])
      fault(format("heads is {}, but {} has {} over all ranks", row.heads, buffer(0).name,
                   buffer(0).global[head_dim]));
  }

  void check_window(const op::SampleWindow& window) {
    check_first("the window's first", window.first, 0, 0);
    if (window.samples != buffer(0).global[0])
      fault(format("the window has {} samples, but {} has {} over all ranks", window.samples,
                   buffer(0).name, buffer(0).global[0]));
    if (micro_ && window.micro != *micro_)
      fault(format("the window is of micro-batch {} in a task of {}", window.micro, *micro_));
  }

  /// A window over the dims of an operand from `skipped` on.
  void check_part(const op::TensorWindow& part, std::size_t operand, std::size_t skipped) {
    const Shape& global = buffer(operand).global;
    const Shape local = program_.view_shape(slices_[operand], buffer(operand).dtype);
    op::TensorWindow expected;
    bool whole = true;
    for (std::size_t dim = skipped; dim < global.rank(); ++dim) {
      expected.global.push_back(global[dim]);
      expected.first.push_back(first_of(operand, dim));
      whole = whole && local.rank() == global.rank() && local[dim] == global[dim];
    }
    if (part == expected || (whole && part == op::TensorWindow{})) return;
    fault(format("it is told that its part of {} lies at {} of {}, but it lies at {} of {}",
                 buffer(operand).name, to_string(part.first), to_string(part.global),
                 to_string(expected.first), to_string(expected.global)));
  }

  const Program& program_;
  Claims& claims_;
  Report& report_;
  std::size_t index_ = 0;
  std::vector<Slice> slices_;  // of the part that is checked
  std::optional<std::int64_t> micro_;
};

}  // namespace

void check_attributes(Claims& claims, Report& report) {
  AttributeCheck(claims, report).run();
}

void check_own_blocks(Claims& claims, Report& report) {
  const Program& program = claims.program();
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const What& what = program.instructions[i].what;
    std::string problem;
    if (const auto* copy = std::get_if<Copy>(&what)) {
      problem = copy_problem(claims, *copy);
    } else if (const auto* gather = std::get_if<AllGather>(&what);
               gather != nullptr && gather->from.buffer == gather->to.buffer) {
      problem = own_part_problem(claims, *gather);
    } else if (const auto* compute = std::get_if<Compute>(&what);
               compute != nullptr && is_update(compute->op)) {
      for_each_part(*compute, [&](const Compute& part) {
        if (const auto own = own_update(claims, part); own && problem.empty())
          problem = own->problem;
      });
    }
    if (!problem.empty()) report.fault("part", i, problem);
  }
}

}  // namespace fourfold::program
