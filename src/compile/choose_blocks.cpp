#include "compile/choose_blocks.h"

#include <map>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::compile {
namespace {

/// True if one dim loses the cut that another gains.
bool is_exchange(const Conversion& c) {
  const std::optional<Collective> collective = c.kind.collective();
  return collective && facts_of(*collective).scatters() && facts_of(*collective).gathers();
}

/// The dim in which the gathered tensor is whole along the axis.
std::size_t whole_dim(const Conversion& c) {
  return is_exchange(c) ? c.from_dim : c.dim;
}

/// True if equal shares of the memory of a rank's tensor are the members' blocks of the dim.
bool is_contiguous(const Shape& local, std::size_t dim, std::int64_t ranks, std::int64_t share) {
  return local.elements(0, dim) == 1 && local[dim] == share * ranks;
}

class Chooser {
 public:
  Chooser(ShardedGraph graph, const plan::Plan& plan) : result_(std::move(graph)), plan_(plan) {
    steps_.swap(result_.steps);
  }

  ShardedGraph run() {
    for (Step& step : steps_) {
      auto* move = std::get_if<Move>(&step);
      if (move == nullptr)
        result_.steps.push_back(std::move(step));
      else
        place(std::move(*move));
    }
    return std::move(result_);
  }

 private:
  /// A block that is not all there is a share of a blocked buffer, which has room for padding.
  void place_slice(Move move) {
    const Conversion& c = move.conversion;
    const std::int64_t share = local_shape(move.to)[c.dim];
    if (local_shape(move.from)[c.dim] % share != 0) {
      Move pack = move;
      pack.sum.reset();
      pack.conversion.kind = OwnMove::pack;
      pack.to = blocked(move.from, "packed", {c.dim, c.axes.front(), share});
      move.from = pack.to;
      result_.steps.emplace_back(std::move(pack));
    }
    result_.steps.emplace_back(std::move(move));
  }

  void place(Move move) {
    const Conversion& c = move.conversion;
    if (c.kind == OwnMove::slice) return place_slice(std::move(move));
    const Shape from = local_shape(move.from), to = local_shape(move.to);
    const auto [is_scattered, is_gathered] =
        blocks_of(c, from, to, mesh_of(result_.value(move.to)));
    const AxisId axis = c.axes.empty() ? AxisId() : c.axes.front();
    if (is_scattered) {
      Move pack = move;
      pack.sum.reset();
      pack.conversion.kind = OwnMove::pack;
      pack.to = blocked(move.from, "packed", {c.dim, axis, to[c.dim]});
      move.from = pack.to;
      result_.steps.emplace_back(std::move(pack));
    }
    if (!is_gathered) {
      result_.steps.emplace_back(std::move(move));
      return;
    }
    Move unpack = move;
    unpack.conversion.kind = OwnMove::unpack;
    unpack.from = blocked(move.to, "blocks", {whole_dim(c), axis, from[whole_dim(c)]});
    move.to = unpack.from;
    move.sum.reset();
    result_.steps.emplace_back(std::move(move));
    result_.steps.emplace_back(std::move(unpack));
  }

  Shape local_shape(ValueId id) const {
    const ShardedValue& value = result_.value(id);
    return op::local_shape(value.shape, value.sharding, mesh_of(value));
  }
  const Mesh& mesh_of(const ShardedValue& value) const {
    return plan_.meshes[value.sharding.mesh.index()];
  }

  ValueId blocked(ValueId like, std::string_view word, const program::Blocked& order) {
    ShardedValue value = result_.value(like);
    value.name = fresh_name(
        format("{}/{}.{}", value.name, word, mesh_of(value).axes[order.axis.index()].name));
    value.role = graph::ValueRole::activation;
    value.is_micro_sum = false;
    value.window_of.reset();
    value.blocked = order;
    result_.values.push_back(std::move(value));
    return ValueId(result_.values.size() - 1);
  }

  std::string fresh_name(const std::string& base) {
    const int count = ++names_[base];
    return count == 1 ? base : format("{}{}", base, count);
  }

  ShardedGraph result_;
  std::vector<Step> steps_;
  const plan::Plan& plan_;
  std::map<std::string, int> names_;
};

}  // namespace

Blocks blocks_of(const Conversion& c, const Shape& from, const Shape& to, const Mesh& mesh) {
  const std::optional<Collective> collective = c.kind.collective();
  if (!collective || facts_of(*collective).is_in_place()) return {};
  const bool scatters = facts_of(*collective).scatters(), gathers = facts_of(*collective).gathers();
  const std::int64_t ranks = mesh.axes[c.axes.front().index()].size;
  const std::size_t gathered = whole_dim(c);
  return {scatters && !is_contiguous(from, c.dim, ranks, to[c.dim]),
          gathers && !is_contiguous(to, gathered, ranks, from[gathered])};
}

ShardedGraph choose_blocks(ShardedGraph graph, const plan::Plan& plan) {
  return Chooser(std::move(graph), plan).run();
}

}  // namespace fourfold::compile
