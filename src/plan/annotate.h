// The strategies: how parameters lie at rest, how products see them, and what is cut in between.
// All strategies are one rule on the axes x, y, z, data (AxoNN, Singh et al. 2024, algorithm 1);
// axes of size 1 cut nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "graph/graph.h"
#include "plan/infeasible.h"
#include "plan/make_mesh.h"

namespace fourfold::plan {

/// What the columns of a product are. Linears alternate: from the residual stream, whose columns
/// are cut on y, to inner columns, cut on x, and back; the second kind is the papers' "transposed"
/// one.
enum class Columns : std::uint8_t { hidden, inner, vocabulary };

struct ParameterStates {
  op::Sharding rest;     // between steps: rows cut on z as well
  op::Sharding moments;  // its optimizer state: as rest, or cut on data too
  /// Matrices and tables: how ops see them. Biases, gains: none; they follow what they meet.
  std::optional<op::Sharding> use;
  Columns columns = Columns::hidden;  // of a product with this matrix
  bool is_received = false;           // whole, from the mesh that owns it
};

struct Annotation {
  Axes axes;
  bool shard_sequence = false;
  std::map<std::string, ParameterStates> parameters;
};

/// Annotates the parameters of a training graph. Infeasible where an axis divides none of the dims
/// it may cut. Vocabulary dims are padded instead.
std::variant<Annotation, Infeasible> annotate(const graph::Graph& train, const Mesh& mesh,
                                              const PlanSpec& spec);

/// Cuts by those axes that have more than one rank, outermost first.
std::vector<op::Cut> cuts_by(const Mesh& mesh, std::initializer_list<AxisId> axes);

}  // namespace fourfold::plan
