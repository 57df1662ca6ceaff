// The gradient of each op, as nodes. What autodiff.cpp walks with; not an interface for other
// rooms.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace fourfold::graph {

/// What the gradient of one node may ask for and give.
class Pullback {
 public:
  virtual ~Pullback() = default;
  virtual const Node& node() const = 0;
  virtual const Shape& shape(ValueId id) const = 0;
  /// True if the value is kept in the type of sums.
  virtual bool is_wide(ValueId id) const = 0;
  /// The gradient of the node's i-th output.
  virtual ValueId output_gradient(std::size_t output = 0) = 0;
  /// True if read `index` depends on a parameter, so that its gradient is of use.
  virtual bool is_wanted(std::size_t index) const = 0;
  /// What `op` with one output computes from `reads`, for a gradient in several steps. Named after
  /// the node's first output and `suffix`.
  virtual ValueId intermediate(const op::Op& op, std::vector<ValueId> reads,
                               std::string_view suffix) = 0;
  /// Gives read `index` the gradient that `op` computes from `reads`.
  virtual void give(std::size_t index, const op::Op& op, std::vector<ValueId> reads) = 0;
  /// Gives several reads their gradients, the outputs of one op in order.
  virtual void give_all(std::vector<std::size_t> indices, const op::Op& op,
                        std::vector<ValueId> reads) = 0;
  /// Gives read `index` a gradient that exists already.
  virtual void pass(std::size_t index, ValueId gradient) = 0;
};

/// True if pull_back knows the op.
bool has_gradient(const op::Op& op);
/// Adds the nodes of one node's gradient. Throws InternalError when its op has none.
void pull_back(const op::Op& op, Pullback& pullback);

}  // namespace fourfold::graph
