// Instructions that hand values to one another on the same stream, in a program in which some of
// them become one. For the passes that fuse rows.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compile/uses.h"
#include "program/program.h"

namespace fourfold::compile {

class Neighbours {
 public:
  using Compute = program::Compute;
  using Slice = program::Slice;

  explicit Neighbours(program::Program& program)
      : Neighbours(program, 0, program.instructions.size()) {}
  /// Looks at the instructions from `first` on and before `last` alone, which are whole tasks.
  Neighbours(program::Program& program, std::size_t first, std::size_t last)
      : program_(program), uses_(program, first, last), first_(first), last_(last) {}

  /// visit(compute, index) for every computation in order, those left out that are gone by then.
  template <class Visit>
  void for_each_compute(Visit&& visit) {
    for (std::size_t i = first_; i < last_; ++i)
      if (const Compute* one = compute(i); one != nullptr && !uses_.is_gone(i)) visit(*one, i);
  }
  /// Takes what is gone out of the program. Ends the use of this object.
  void finish() { uses_.finish(); }

  const Uses& uses() const { return uses_; }
  const Compute* compute(std::size_t index) const {
    return std::get_if<Compute>(&program_.instructions[index].what);
  }
  program::BufferRole role_of(program::BufferId buffer) const {
    return program_.buffer(buffer).role;
  }
  /// True if one instruction can do the work of both.
  bool alike(std::size_t a, std::size_t b) const {
    return program_.instructions[a].stream == program_.instructions[b].stream &&
           compute(a)->dtype == compute(b)->dtype;
  }

  /// Puts `whole` at the place of one of the members, which are gone then; whether that may be.
  bool replace(const std::vector<std::size_t>& members, std::size_t place, Compute whole) {
    if (!uses_.may_move(members, place)) return false;
    uses_.replace(members, place, std::move(whole));
    return true;
  }

 private:
  program::Program& program_;
  Uses uses_;
  std::size_t first_, last_;
};

}  // namespace fourfold::compile
