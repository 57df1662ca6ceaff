// A layout as text, which people read, edit and give back. One line for each weight, for each value
// that is kept otherwise than its op gives it, and for each op that has a choice:
//
//   fourfold layout 1
//   mesh: data 2, z 1, y 2, x 2
//   samples: data, z
//   parameter wte.weight: [37 (x:20,y:10), 24]; moments [37 (x:20,y:10), 24]; used as [37, 24]
//   keep blocks.0.attn.qkv: whole 3; y cuts 3 or 0; x cuts 1 of what is fed; sums stay
//   op blocks.0.mlp.up: a (data), k (y)
//
// Moments that lie as their weight, and a use that is chosen by nobody, are not written.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "plan/layout.h"

namespace fourfold::plan {

/// Equal layouts have equal texts. Weights of other meshes are not told apart.
std::string to_text(const Layout& layout, const graph::Graph& train, const Mesh& mesh);

/// The layout that a text means for the training graph of a model on a mesh; or all that is wrong
/// with it, each at its line and with what was meant: another mesh or model, unknown weights,
/// values, ops, factors and axes, axes that do not divide or are named twice. Weights that the text
/// leaves out are a mistake, too.
std::variant<Layout, std::vector<Diagnostic>> parse_layout(std::string_view text,
                                                           std::string_view file,
                                                           const graph::Graph& train,
                                                           const Mesh& mesh);

}  // namespace fourfold::plan
