// part: what depends on the coordinates of a rank, recomputed from them: attributes that say which
// part of a tensor an op computes, and slices that are this rank's own block.
#include <algorithm>
#include <vector>

#include "base/format.h"
#include "verify/rules.h"
#include "verify/state.h"

namespace fourfold::verify {
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
        for (const op::Piece& piece : op::pieces(what->op)) {
          slices_.clear();
          for (const std::size_t operand : piece.operands) slices_.push_back(what->slices[operand]);
          check(piece.op);
        }
      }
  }

 private:
  void check(const op::Op& op) {
    op::for_each_place(op,
                       [&](const op::Place& place, const auto& told) { check_place(place, told); });
  }

  void check_place(const op::Place& place, std::int64_t told) {
    const std::size_t dim = place.dim_of(buffer(place.operand).global);
    switch (place.told) {
      case op::Place::Told::first:
        check_first(place.attribute, told, place.operand, dim);
        break;
      case op::Place::Told::size:
        check_size(place.attribute, told, place.operand, dim);
        break;
      case op::Place::Told::size_if_cut:
        if (told != 0 || is_padded(place.operand, dim))
          check_size(place.attribute, told, place.operand, dim);
        break;
      default:  // how much is here: the shapes of the operands say so (rule operands)
        break;
    }
  }
  void check_place(const op::Place& place, const op::SampleWindow& told) {
    check_samples(told, place.operand);
  }
  void check_place(const op::Place& place, const op::TensorWindow& told) {
    check_window(told, place.operand, place.dim);
  }
  void check_place(const op::Place&, const Shape&) {}

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

  void check_size(std::string_view attribute, std::int64_t value, std::size_t operand,
                  std::size_t dim) {
    const std::int64_t expected = buffer(operand).global[dim];
    if (value != expected)
      fault(format("{} is {}, but {} has {} over all ranks", attribute, value, buffer(operand).name,
                   expected));
  }

  /// True if the ranks have room for more elements of a dim than there are.
  bool is_padded(std::size_t operand, std::size_t dim) {
    const BufferId id = slices_[operand].buffer;
    std::int64_t room = program_.local_shape(id)[dim];
    for (const op::Cut& cut : claims_.cuts(id, dim))
      room *= claims_.mesh(id).axes[cut.axis.index()].size;
    return room != buffer(operand).global[dim];
  }

  void check_samples(const op::SampleWindow& window, std::size_t operand) {
    const Feeds& feeds = program_.feeds;
    const std::int64_t of_chunk = buffer(operand).global[0];
    std::int64_t samples = 0;
    const bool is_too_large = __builtin_mul_overflow(of_chunk, feeds.chunks, &samples);
    if (feeds.chunks == 1 && window.chunk == 0)
      check_first("the window's first", window.first, operand, 0);
    else if (!is_too_large)
      check_first_of_chunk(window, operand);
    if (is_too_large || window.samples != samples)
      fault(format("the window has {} samples, but {} has {}{} over all ranks", window.samples,
                   buffer(operand).name, of_chunk,
                   feeds.chunks == 1 ? "" : format(" in each of {} chunks", feeds.chunks)));
    if (micro_ && window.micro != *micro_)
      fault(format("the window is of micro-batch {} in a task of {}", window.micro, *micro_));
  }

  /// In a chunk the samples of a rank stand together; they are a range of its own samples of the
  /// micro-batch.
  void check_first_of_chunk(const op::SampleWindow& window, std::size_t operand) {
    const Feeds& feeds = program_.feeds;
    if (window.chunk < 0 || window.chunk >= feeds.chunks)
      return fault(format("the window is of chunk {} of {}", window.chunk, feeds.chunks));
    const Slice& slice = slices_[operand];
    const Shape seen = program_.view_shape(slice, buffer(operand).dtype);
    const std::int64_t rows = feeds.count / feeds.chunks, index = first_of(operand, 0);
    if (seen.rank() > 0 && seen[0] > rows - index % rows)
      return fault(format("{} samples of {} from {} on are not all of one rank, which has {}",
                          seen[0], buffer(operand).name, index, rows));
    std::int64_t expected = 0;
    if (__builtin_mul_overflow(index / rows, feeds.count, &expected) ||
        window.first != (expected += window.chunk * rows + index % rows))
      fault(format("the window's first is {}, but this rank's part of {} begins at {} in chunk {}",
                   window.first, buffer(operand).name, expected, window.chunk));
  }

  /// A window over the dims of an operand from `skipped` on.
  void check_window(const op::TensorWindow& window, std::size_t operand, std::size_t skipped) {
    const Shape& global = buffer(operand).global;
    const Shape local = program_.view_shape(slices_[operand], buffer(operand).dtype);
    op::TensorWindow expected;
    bool whole = true;
    for (std::size_t dim = skipped; dim < global.rank(); ++dim) {
      expected.global.push_back(global[dim]);
      expected.first.push_back(first_of(operand, dim));
      whole = whole && local.rank() == global.rank() && local[dim] == global[dim];
    }
    if (window == expected || (whole && window == op::TensorWindow{})) return;
    fault(format("it is told that its part of {} lies at {} of {}, but it lies at {} of {}",
                 buffer(operand).name, to_string(window.first), to_string(window.global),
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
    } else if (const auto* gather = std::get_if<AllGather>(&what)) {
      for_each_tensor(*gather, [&](const Slice& from, const Slice& to) {
        if (from.buffer == to.buffer && problem.empty())
          problem = own_share_problem(claims, program.groups[gather->group.index()], from, to);
      });
    } else if (const auto* compute = std::get_if<Compute>(&what);
               compute != nullptr && is_update(compute->op)) {
      for_each_piece(*compute, [&](const Compute& piece) {
        if (const auto own = own_update(claims, piece); own && problem.empty())
          problem = own->problem;
      });
    }
    if (!problem.empty()) report.fault("part", i, problem);
  }
}

}  // namespace fourfold::verify
