// An op of the table with operands over residues that it may have, and what it makes of them.
// Header only.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "op/blocks.h"
#include "op/table.h"

namespace fourfold::op {

inline const Residues& some_keys() {
  static const Residues keys(11);
  return keys;
}

inline bool is_integer(Element element) {
  return element == Element::i32 || element == Element::i64 || element == Element::u64 ||
         element == Element::u8;
}

/// An op and its operands: legal values in those that it reads or updates, anything in the others.
struct ResidueTrial {
  Op op;
  Operands operands;
  std::vector<Shape> shapes;
  std::vector<std::vector<Residue>> elements;

  ResidueTrial(const Op& row, const std::vector<Shape>& reads, std::uint64_t key = 1)
      : op(row), operands(op::operands(row)), shapes(reads) {
    for (const Shape& shape : outputs(op, reads)) shapes.push_back(shape);
    std::mt19937_64 random(key);
    for (std::size_t i = 0; i < operands.size(); ++i) elements.push_back(legal(i, random));
  }

  /// The place of the first operand of that name; operands.size() where there is none.
  std::size_t find(std::string_view name) const {
    return static_cast<std::size_t>(std::ranges::find(operands, name, &Operand::name) -
                                    operands.begin());
  }
  std::vector<Residue>& operator[](std::string_view name) { return elements.at(find(name)); }
  const std::vector<Residue>& operator[](std::string_view name) const {
    return elements.at(find(name));
  }
  bool is_integer(std::size_t operand) const { return op::is_integer(operands[operand].element); }
  bool is_read(std::size_t operand) const { return operands[operand].role == Role::read; }
  std::vector<Shape> read_shapes() const {
    const auto reads = std::ranges::count(operands, Role::read, &Operand::role);
    return {shapes.begin(), shapes.begin() + reads};
  }

  /// All operands as they are afterwards. Where `in_place`, outputs take over the memory of the
  /// reads that their row names.
  ResidueTrial computed(const Residues& residues, bool in_place = false) const {
    ResidueTrial made = *this;
    std::vector<std::size_t> memory(operands.size());
    std::iota(memory.begin(), memory.end(), std::size_t{0});
    for (std::size_t i = 0; in_place && i < operands.size(); ++i)
      memory[i] = operands[i].may_alias.value_or(i);
    for (const Piece& piece : pieces(op)) {
      const Operands own = op::operands(piece.op);
      std::vector<ResidueTensor> all;
      for (std::size_t i = 0; i < own.size(); ++i)
        all.push_back({made.shapes[piece.operands[i]], made.elements[memory[piece.operands[i]]],
                       op::is_integer(own[i].element)});
      compute_residues(piece.op, residues, all);
    }
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (memory[i] != i) made.elements[i] = made.elements[memory[i]];
    return made;
  }

  /// True if operands that the op writes or updates are the same in both.
  bool has_outputs_of(const ResidueTrial& other) const {
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!is_read(i) && elements[i] != other.elements[i]) return false;
    return true;
  }

 private:
  std::vector<Residue> legal(std::size_t operand, std::mt19937_64& random) const {
    const auto count = static_cast<std::size_t>(shapes[operand].elements());
    std::vector<Residue> made(count);
    for (std::size_t i = 0; i < count; ++i)
      made[i] = is_integer(operand) ? legal_integer(operand, i, random) : random() % residue_prime;
    return made;
  }
  Residue legal_integer(std::size_t operand, std::size_t index, std::mt19937_64& random) const {
    const auto& [name, role, element, may_alias, state, is_between] = operands[operand];
    constexpr std::size_t every_label = 4;
    if (name == "labels" && index % every_label == every_label - 1) return ~Residue{0};
    if (name == "document_starts") {
      // The second document begins at another place in each sample.
      const auto time = static_cast<std::size_t>(shapes[operand].back());
      const std::size_t second = 1 + index / time % (time - 1);
      return index % time < second ? 0 : second;
    }
    if (name == "applied") return 1;
    if (name == "valid_count") return 5;
    if (name == "non_finite" && role == Role::read) return 0;
    if (name == "votes") return static_cast<Residue>(Votes{.stop = 2, .save = 1}.packed());
    if (element == Element::i64 || element == Element::u64) return random() % 1000;
    return random() % static_cast<Residue>(integer_bound(op, shapes));
  }
};

}  // namespace fourfold::op
