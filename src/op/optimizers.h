// Rows that update a weight from its gradient and what is kept of it, element by element: the
// optimizers. All that other rooms must know of one follows from what its row states here.
//
// To add one: a struct and a name in the list at the end of this file, its form over residues and
// what it is tried on in optimizers.cpp, its element in kernels/optimizers.h, its own settings in
// config/schema_optimizer.cpp. Shapes, factors, text, lists, loops on every backend, fusing, rules
// of settings and tests follow.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "op/ops.h"

namespace fourfold::op {

/// A tensor of a weight's shape that an optimizer keeps from step to step; it begins as 0.
struct Moment {
  std::string_view name;
  Range domain = {-1, 1};  // where its function is smooth, so that tests can try it
};

/// The facts that an optimizer states of itself.
template <std::size_t count>
struct UpdateRule {
  std::string_view does;  // a few words after its name
  Moment moments[count];
  double flops = 1;             // of each element
  bool counts_updates = false;  // it reads how many updates were written before
  /// Degree of the moments in the gradient, and what the form of the weight over residues is: a
  /// polynomial, or a hash of one.
  double degree = 1;
  bool weight_is_hash = false;
  /// A configuration that states none has this learning rate and this decay of matrices.
  double usual_lr = 1e-3, usual_weight_decay = 0.1;

  static constexpr std::size_t num_moments = count;
};

/// The numbers of a step that an update reads, over residues.
struct ResidueStep {
  Residue lr, scale, updates;
};

/// The operands of an update: the gradient, lr, scale, applied, updates where the row counts them;
/// the weight, its moments, the rounded weight where it `rounds`, and the number of elements that
/// are not finite.
Operands update_operands(std::span<const Moment> moments, bool counts_updates, bool accumulate,
                         bool rounds);
Outputs update_outputs(const Operands& operands, Shapes reads);
FactorRule update_factors(const Operands& operands, Shapes reads);
double update_flops(double flops_of_element, Shapes all);

// A row of an optimizer: its name and settings, to which come `accumulate` (non_finite is added to)
// and `rounds`. What all of them do with g = scale * grad and the formulas that each states:
//   An element whose new weight or moments are not all finite keeps its weight, and
//     non_finite (+)= the number of such elements.
//   Where applied = 0, no tensor is written and the number is 0.
//   A row that `rounds` also writes each new weight rounded to the type of the computation, to
//   nearest even; gradient, weight and moments then have the type of its sums.
#define FOURFOLD_OPTIMIZER_ROW(Type, text, ...)                                                 \
  FOURFOLD_ATTRIBUTES(__VA_ARGS__, accumulate, rounds)                                          \
  static constexpr std::string_view name = text;                                                \
  bool operator==(const Type&) const = default;                                                 \
  Operands operands() const {                                                                   \
    return update_operands(update.moments, update.counts_updates, accumulate, rounds);          \
  }                                                                                             \
  Outputs outputs(Shapes reads) const {                                                         \
    return update_outputs(operands(), reads);                                                   \
  }                                                                                             \
  FactorRule factors(Shapes reads) const {                                                      \
    return update_factors(operands(), reads);                                                   \
  }                                                                                             \
  double flops(Shapes all) const {                                                              \
    return update_flops(update.flops, all);                                                     \
  }                                                                                             \
  void residue_form(const Residues& residues, ResidueTensors all) const;                        \
  /* Changes the moments of an element, given its scaled gradient; returns its weight,          \
     which is not finite where any of them is not. */                                           \
  Residue updated(const Residues& residues, const ResidueStep& step, Residue g, Residue weight, \
                  const std::array<Residue*, update.num_moments>& kept) const;                  \
  /* With settings that differ from the defaults. */                                            \
  static Type example()

/// Loshchilov, Hutter 2019 (arXiv:1711.05101), algorithm 2, with t = updates + 1:
///   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
///   w = w (1 - lr decay) - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + epsilon).
struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  bool accumulate = false, rounds = false;
  static constexpr UpdateRule<2> update{.does = "Adam with decoupled weight decay",
                                        .moments = {{"m"}, {"v", {0.5, 2}}},
                                        .flops = 15,
                                        .counts_updates = true,
                                        .degree = 2,
                                        .weight_is_hash = true};
  FOURFOLD_OPTIMIZER_ROW(AdamW, "adamw", beta1, beta2, epsilon, weight_decay);
};

/// SGD with momentum (Sutskever et al. 2013, in the form of PyTorch's torch.optim.SGD without
/// dampening). With g = scale * grad + weight_decay * w:
///   momentum = mu momentum + g;  w = w - lr momentum;  with nesterov  w = w - lr (g + mu
///   momentum).
struct Sgd {
  double mu = 0.9, weight_decay = 0;
  bool nesterov = false, accumulate = false, rounds = false;
  static constexpr UpdateRule<1> update{.does = "SGD with momentum, as PyTorch has it",
                                        .moments = {{"momentum"}},
                                        .flops = 7,
                                        .usual_weight_decay = 0};
  FOURFOLD_OPTIMIZER_ROW(Sgd, "sgd", mu, weight_decay, nesterov);
};

/// Chen et al. 2023 (arXiv:2302.06675), algorithm 2:
///   w = w (1 - lr decay) - lr sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g,
/// sign(0) being 0. Steps have the size of the learning rate, so it is 3 to 10 times as small as
/// AdamW's and the decay as many times as large (there, section 5).
struct Lion {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  bool accumulate = false, rounds = false;
  static constexpr UpdateRule<1> update{.does = "steps by the sign of an average of gradients",
                                        .moments = {{"m"}},
                                        .flops = 9,
                                        .weight_is_hash = true,
                                        .usual_lr = 1e-4,
                                        .usual_weight_decay = 1};
  FOURFOLD_OPTIMIZER_ROW(Lion, "lion", beta1, beta2, weight_decay);
};

/// FOURFOLD_OPTIMIZERS(OPTIMIZER, ...) is OPTIMIZER(Type, ...) for each of the rows above; the
/// first is what a configuration has that names none.
#define FOURFOLD_OPTIMIZERS(OPTIMIZER, ...)   \
  OPTIMIZER(AdamW __VA_OPT__(, ) __VA_ARGS__) \
  OPTIMIZER(Sgd __VA_OPT__(, ) __VA_ARGS__)   \
  OPTIMIZER(Lion __VA_OPT__(, ) __VA_ARGS__)

/// ROW(Type, class of its work) for each of them, and for the lists of them below.
#define FOURFOLD_ROWS_OF_OPTIMIZER(Type, ROW) ROW(Type, optimizer) ROW(Type##List, optimizer)
#define FOURFOLD_OPTIMIZER_ROWS(ROW) FOURFOLD_OPTIMIZERS(FOURFOLD_ROWS_OF_OPTIMIZER, ROW)

/// Two constant texts as one.
template <const std::string_view& first, const std::string_view& second>
inline constexpr auto joined_text = [] {
  std::array<char, first.size() + second.size()> all{};
  first.copy(all.data(), first.size());
  second.copy(all.data() + first.size(), second.size());
  return all;
}();

/// Updates of several tensors, each as its row has it, the first `decayed` of them with the weight
/// decay, the others without. Operands: the scalars that the row reads, once; all gradients; then
/// what the row updates, tensor by tensor; and one number of elements that are not finite, of all
/// tensors.
template <class Row>
struct UpdateList : Row {
  using One = Row;
  std::int64_t tensors = 1, decayed = 0;

  static constexpr std::string_view ending = "_list", own_names = ", tensors, decayed";
  static constexpr std::string_view name{joined_text<Row::name, ending>.data(),
                                         joined_text<Row::name, ending>.size()};
  static constexpr std::string_view attribute_names{
      joined_text<Row::attribute_names, own_names>.data(),
      joined_text<Row::attribute_names, own_names>.size()};
  template <class Visit>
  void with_attributes(Visit&& visit) {
    Row::with_attributes([&](auto&... own) { visit(own..., tensors, decayed); });
  }
  template <class Visit>
  void with_attributes(Visit&& visit) const {
    Row::with_attributes([&](const auto&... own) { visit(own..., tensors, decayed); });
  }
  bool operator==(const UpdateList&) const = default;

  /// The list of updates with the settings of one that decays.
  static UpdateList of(const One& settings, std::int64_t tensors, std::int64_t decayed) {
    return {settings, tensors, decayed};
  }
  /// The number of tensors: `tensors`, within what a program can have, as a text may claim
  /// anything.
  std::int64_t count() const;
  /// The update of tensor number i.
  One one(std::int64_t index) const;
  /// Places of the operands of tensor number i, in the order of the row's.
  std::vector<std::size_t> operands_of(std::int64_t index) const;

  Operands operands() const;
  Outputs outputs(Shapes reads) const;
  double flops(Shapes all) const;
  std::vector<Piece> pieces() const;
  FactorRule factors(Shapes reads) const = delete;
  void residue_form(const Residues& residues, ResidueTensors all) const = delete;
  static One example() = delete;
};
/// AdamWList, SgdList and so on.
#define FOURFOLD_OPTIMIZER(Type) using Type##List = UpdateList<Type>;
FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)
#undef FOURFOLD_OPTIMIZER

/// Calls visit.operator()<Row>() for each optimizer.
template <class Visit>
void for_each_optimizer(Visit&& visit){
#define FOURFOLD_OPTIMIZER(Type) visit.template operator()<Type>();
    FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)
#undef FOURFOLD_OPTIMIZER
}

/// The names of the lists of updates: fusions that a target may have.
std::vector<std::string> names_of_update_lists();

/// One row of each optimizer.
template <class /*none*/, class... Rows>
using EachOf = std::tuple<Rows...>;
#define FOURFOLD_OPTIMIZER(Type) , Type
using EachOptimizer = EachOf<void FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)>;
#undef FOURFOLD_OPTIMIZER

}  // namespace fourfold::op
