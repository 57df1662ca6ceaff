// Places in a program, in words that hold in the programs of other ranks and micro-batches too, and
// changes that are made there. For mutants*.cpp.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.h"

namespace fourfold::verify {

using namespace program;
using Draws = std::mt19937_64;

inline bool chance(Draws& random, double share) {
  return static_cast<double>(random() % 10000) < share * 10000;
}
/// One of a list that is not empty.
template <class List>
auto& pick_of(List& list, Draws& random) {
  return list[random() % list.size()];
}

/// A name of a buffer without its slot, and the slot: "h" and "#1" of "h#1".
std::pair<std::string_view, std::string_view> split_slot(std::string_view name);

/// Where an instruction stands: the how manieth it is of those of its task that do the same to
/// buffers of the same names, slots left out.
struct Landmark {
  TaskKind task = TaskKind::forward;
  std::optional<std::int64_t> micro;
  std::size_t of_task = 0;  // among the tasks of that kind and micro-batch
  std::string does;
  std::size_t turn = 0;
};
Landmark landmark_of(const Program& program, std::size_t at);
std::optional<std::size_t> find(const Program& program, const Landmark& landmark);
/// The task of an instruction, as its number.
std::size_t task_of(const Program& program, std::size_t at);

/// An instruction of a program at which a change is made. A change is drawn at one spot, and then
/// also made where the program of another rank or micro-batch has the same instruction.
struct Spot {
  Program& program;
  std::size_t at;
  std::optional<std::int64_t> drawn_micro;  // of the task where the change was drawn
  std::string_view drawn_slot, slot;        // there, and here

  Instruction& instruction() const { return program.instructions[at]; }
  template <class Kind>
  Kind* kind() const {
    return std::get_if<Kind>(&instruction().what);
  }
  /// The buffer of that name, or the one of this micro-batch where the name was of that of the
  /// drawn one.
  std::optional<BufferId> find_buffer(std::string_view name) const;
  /// The instruction that corresponds to one of the drawn program.
  std::optional<std::size_t> find_other(Landmark landmark) const;
};
/// False where the change cannot be made.
using Change = std::function<bool(const Spot& spot)>;

/// A kind of mutants: draws a change at an instruction; nothing where it does not suit.
using Draw = std::function<std::optional<Change>(const Program& program, std::size_t at, Draws&)>;
struct MutantKind {
  std::string name;
  Draw draw;
  /// What binding sets for each rank of a class: then ranks that are to have it alike are set
  /// apart.
  bool is_bound = false;
  /// The change is one of the whole program, made once on every rank.
  bool is_everywhere = false;
};

/// A kind whose change is one of the whole program.
MutantKind everywhere(std::string name, Draw draw);

// --- slices

/// A slice with the name of its buffer, to be found in another program.
struct NamedSlice {
  std::string buffer;
  Slice slice;
};
NamedSlice named(const Program& program, const Slice& slice);
std::optional<Slice> found(const Spot& spot, const NamedSlice& slice);

/// True for the blocks of step and result, whose fields are no tensors.
bool is_block(const Program& program, BufferId buffer);
/// True if one slice may stand for the other: elements of one type, of one shape.
bool are_alike(const Program& program, const Slice& one, const Slice& other);

/// All slices that an instruction touches, in order, the workspace left out.
std::vector<Access> touched(const Instruction& instruction);
/// The slice of that number among them, for changing.
Slice* touched_slice(Instruction& instruction, std::size_t index);

/// Slices that instructions before `at` write and persistent buffers that hold tensors, each once,
/// which are like `slice` and not it.
std::vector<Slice> others_like(const Program& program, std::size_t at, const Slice& slice);

/// A change that puts another slice in the place of one that an instruction touches.
Change replaced(std::size_t index, NamedSlice by);

// --- the kinds, by what they change

void add_operand_mutants(std::vector<MutantKind>& list);
void add_row_mutants(std::vector<MutantKind>& list);
void add_attribute_mutants(std::vector<MutantKind>& list);
void add_exchange_mutants(std::vector<MutantKind>& list);
void add_message_mutants(std::vector<MutantKind>& list);
void add_memory_mutants(std::vector<MutantKind>& list);
void add_update_mutants(std::vector<MutantKind>& list);
void add_everywhere_mutants(std::vector<MutantKind>& list);

}  // namespace fourfold::verify
