// Tensors over residues, what ops make of them, and operands that are drawn at random. Header only.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <ostream>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "op/table.h"

namespace fourfold::op {

struct OwnTensor {
  Shape shape;
  std::vector<Residue> elements;
  bool is_integer = false;
  bool operator==(const OwnTensor&) const = default;
};
using OwnTensors = std::vector<OwnTensor>;
inline void PrintTo(const OwnTensor& tensor, std::ostream* out) {
  *out << to_string(tensor.shape) << testing::PrintToString(tensor.elements);
}

inline std::vector<Shape> shapes_of(const OwnTensors& all) {
  std::vector<Shape> shapes;
  for (const OwnTensor& tensor : all) shapes.push_back(tensor.shape);
  return shapes;
}

/// Computes the row on these operands.
inline void compute_whole(const Op& op, const Residues& residues, OwnTensors& all) {
  std::vector<ResidueTensor> views;
  for (OwnTensor& tensor : all) views.push_back({tensor.shape, tensor.elements, tensor.is_integer});
  compute_residues(op, residues, views);
}

/// Computes the pieces of an op one after another.
inline void compute_pieces(const Op& op, const Residues& residues, OwnTensors& all) {
  for (const Piece& piece : pieces(op)) {
    OwnTensors own;
    for (const std::size_t operand : piece.operands) own.push_back(all[operand]);
    compute_whole(piece.op, residues, own);
    for (std::size_t i = 0; i < own.size(); ++i) all[piece.operands[i]] = std::move(own[i]);
  }
}

constexpr bool holds_integers(Element element) {
  return element == Element::i32 || element == Element::i64 || element == Element::u64 ||
         element == Element::u8;
}

/// The outputs that an op, piece by piece, gives for these reads.
inline OwnTensors outputs_for(const Op& op, const Residues& residues, OwnTensors all) {
  const std::size_t reads = all.size();
  for (const Shape& shape : outputs(op, shapes_of(all)))
    all.push_back({shape, std::vector<Residue>(static_cast<std::size_t>(shape.elements())),
                   holds_integers(operands(op)[all.size()].element)});
  compute_pieces(op, residues, all);
  return {all.begin() + static_cast<std::ptrdiff_t>(reads), all.end()};
}

// --- random operands

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
  }
  bool coin() { return below(2) == 0; }
  Residue residue() { return engine_() % residue_prime; }
  /// A tensor of random residues, or of integers below 1000.
  OwnTensor tensor(const Shape& shape, bool is_integer = false) {
    OwnTensor made{shape, {}, is_integer};
    for (std::int64_t i = 0; i < shape.elements(); ++i)
      made.elements.push_back(is_integer ? static_cast<Residue>(below(1000)) : residue());
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

/// Draws what an operand of integers holds, with labels that are -1, and documents that begin
/// somewhere.
inline OwnTensor draw_integers(const Operand& operand, const Shape& shape, std::int64_t bound,
                               Draw& draw) {
  OwnTensor made{shape, {}, true};
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape.back();
  for (std::int64_t i = 0, start = 0; i < shape.elements(); ++i) {
    std::int64_t value = draw.below(bound);
    if (operand.name == "labels") value = draw.below(bound + 1) - 1;
    if (operand.name == "applied") value = draw.below(4) == 0 ? 0 : 1;
    if (operand.name == "document_starts")
      value = start = i % columns == 0 ? 0 : draw.coin() ? start : i % columns;
    made.elements.push_back(static_cast<Residue>(value));
  }
  return made;
}

/// How many entries a table of losses has of each time: at times all of them.
inline void draw_entries(OwnTensor& losses, Draw& draw) {
  const std::int64_t columns = losses.shape[1];
  const bool are_full = draw.coin();
  for (std::int64_t t = 0; t < losses.shape[0]; ++t)
    losses.elements[static_cast<std::size_t>(t * columns)] =
        static_cast<Residue>(are_full ? columns - 2 : draw.below(columns - 1));
}

/// Draws all operands, what is written too.
inline OwnTensors draw_operands(const Op& op, std::vector<Shape> shapes, Draw& draw) {
  const Operands list = operands(op);
  for (const Shape& output : outputs(op, shapes)) shapes.push_back(output);
  const bool are_integers = takes_any_element(op) && draw.coin();
  OwnTensors all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Element element = list[i].element;
    const bool is_small = element == Element::i32 || element == Element::u8;
    if (holds_integers(element))
      all.push_back(
          draw_integers(list[i], shapes[i], is_small ? integer_bound(op, shapes) : 1000, draw));
    else
      all.push_back(draw.tensor(shapes[i], are_integers && element == Element::compute));
    if (list[i].name == "losses") draw_entries(all[i], draw);
    // A time has the sum of its losses, then their number.
    if (op.is<KeepLosses>() && list[i].name == "sums")
      for (std::size_t number = 1; number < all[i].elements.size(); number += 2)
        all[i].elements[number] = static_cast<Residue>(draw.below(3));
  }
  return all;
}

/// Makes an element of some read not finite.
inline void plant_not_finite(const Op& op, OwnTensors& all, Draw& draw) {
  const Operands list = operands(op);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].role == Role::read && !all[i].is_integer) places.push_back(i);
  if (places.empty()) return;
  OwnTensor& tensor = all[places[static_cast<std::size_t>(draw.below(std::ssize(places)))]];
  tensor.elements[static_cast<std::size_t>(draw.below(std::ssize(tensor.elements)))] = not_finite;
}

}  // namespace fourfold::op
