// Instructions that hand values to one another on the same stream and in the same task, in a
// program in which some of them become one. For the passes that fuse rows.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compile/uses.h"
#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

class Neighbours {
 public:
  using Compute = program::Compute;
  using Slice = program::Slice;

  Neighbours(program::Program& program, const machine::Target& target)
      : Neighbours(program, target, 0, program.instructions.size()) {}
  /// Looks at the instructions from `first` on and before `last` alone, which are whole tasks.
  Neighbours(program::Program& program, const machine::Target& target, std::size_t first,
             std::size_t last)
      : program_(program),
        target_(target),
        uses_(program, first, last),
        first_(first),
        last_(last) {}

  /// fuse(row, index) for every row in order, those left out that are gone by then; ends the use of
  /// this object. The row is that of the program: who joins anything takes a copy.
  template <class Fuse>
  void for_each_row(Fuse&& fuse) {
    for (std::size_t i = first_; i < last_; ++i) {
      if (uses_.is_gone(i)) continue;
      const Compute* one = compute(i);
      if (one != nullptr) std::visit([&](const auto& row) { fuse(row, i); }, one->op);
    }
    uses_.finish();
  }

  const Uses& uses() const { return uses_; }

  const Compute* compute(std::size_t index) const {
    return std::get_if<Compute>(&program_.instructions[index].what);
  }
  Shape shape(const Slice& slice) const {
    return program_.view_shape(slice, program_.buffer(slice.buffer).dtype);
  }
  template <class Row>
  bool wants() const {
    return machine::fuses(target_, Row::name);
  }
  template <class Row>
  bool is(std::size_t index) const {
    const Compute* one = compute(index);
    return one != nullptr && std::holds_alternative<Row>(one->op);
  }
  /// True if one instruction can do the work of both.
  bool alike(std::size_t a, std::size_t b) const {
    return program_.instructions[a].stream == program_.instructions[b].stream &&
           compute(a)->dtype == compute(b)->dtype;
  }

  /// Who wrote the slice for `reader`, where that is such a row.
  template <class Row>
  std::optional<std::size_t> writer(const Slice& slice, std::size_t reader) const {
    const auto found = uses_.writer(slice, reader);
    return found && is<Row>(*found) && alike(*found, reader) ? found : std::nullopt;
  }
  /// As above, where nobody else reads the value.
  template <class Row>
  std::optional<std::size_t> sole_writer(const Slice& slice, std::size_t reader) const {
    const auto found = writer<Row>(slice, reader);
    return found && uses_.of_value(slice, *found).size() == 1 ? found : std::nullopt;
  }
  /// Who of those that read what `from` wrote has it as its first operand.
  template <class Row>
  std::optional<std::size_t> first_reader(const Slice& slice, std::size_t from) const {
    for (const std::size_t reader : uses_.of_value(slice, from))
      if (is<Row>(reader) && compute(reader)->slices[0] == slice)
        return uses_.same_task(from, reader) && alike(from, reader) ? std::optional(reader)
                                                                    : std::nullopt;
    return std::nullopt;
  }
  /// As above, wherever it reads it, where nobody else does.
  template <class Row>
  std::optional<std::size_t> only_reader(const Slice& slice, std::size_t from) const {
    const std::vector<std::size_t> readers = uses_.of_value(slice, from);
    const bool fits = readers.size() == 1 && is<Row>(readers[0]) &&
                      uses_.same_task(from, readers[0]) && alike(from, readers[0]);
    return fits ? std::optional(readers[0]) : std::nullopt;
  }

  /// Makes one instruction of the members, at the place of one of them; whether that may be.
  bool join(op::Op row, std::vector<Slice> slices, const std::vector<std::size_t>& members,
            std::size_t to) {
    if (!uses_.may_move(members, to)) return false;
    uses_.replace(members, to,
                  Compute{std::move(row), compute(to)->dtype, std::move(slices), std::nullopt, {}});
    return true;
  }

 private:
  program::Program& program_;
  const machine::Target& target_;
  Uses uses_;
  std::size_t first_, last_;
};

}  // namespace fourfold::compile
