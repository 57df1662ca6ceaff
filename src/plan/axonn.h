// AxoNN's layout of any training graph (Singh et al. 2024, algorithm 1) on a mesh with the axes x,
// y, z and data. ATP (Cheng et al. 2023; z = 1), Megatron (y = z = 1) and FSDP (x = y = 1) are
// cases of it; axes of size 1 cut nothing.
#pragma once

#include <variant>

#include "plan/layout.h"

namespace fourfold::plan {

/// The rules, which read the ops' factor rules and never a name:
///  1. An op seeds a parameter if it contracts it with an activation (k: factors of both that the
///     outputs lack; n: factors of parameter and outputs) or looks it up by integers (an index
///     factor). Every other parameter is whole at rest and cut in use as what it meets; one with a
///     factor that the outputs lack (positions) lies as it is used, that factor cut on z where z
///     divides it.
///  2. Channels have a colour, y or x: what follows a look-up has y, a contraction's k that of its
///     input, its n the other one, and every other op's outputs that of its input.
///  3. n is cut at the first of its factors that no reader holds whole and that the axis divides
///     (heads), else at the last that one holds (their width); k at the first that it divides. z
///     cuts at rest the first factor of k that it divides, else of n.
///  4. An index factor, and the n of a contraction that ends in an op with a cut form over it or in
///     an output of the graph, is cut on (x, y), at rest of a table on z too, padded; its k stays
///     whole. Of several uses of one parameter the look-up decides.
///  5. A core (WorkClass::core) is cut further on every axis on which its operands are whole: by
///     its free factors in order, then by samples. If the cut that reaches it lies in a factor that
///     it holds whole, samples take over that axis too.
///  6. What a look-up gives is kept in its colour; where that is y and the sequence is cut, the
///     second dim of what is fed is cut on x.
///  7. A contraction of which an axis divides no factor is Infeasible.
/// Requires a mesh with those four axes.
std::variant<Layout, Infeasible> axonn(const graph::Graph& train, const Mesh& mesh,
                                       const LayoutOptions& options);

}  // namespace fourfold::plan
