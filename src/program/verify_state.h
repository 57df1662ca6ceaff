// Sharding states of slices, for the rule "state": what the claims say, without axes of size 1,
// which change nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/interval_map.h"
#include "program/program.h"

namespace fourfold::program {

/// The partial axes of every byte. A byte that is zero on all ranks is a partial sum on any axes
/// one likes.
class PartialMap {
 public:
  explicit PartialMap(const Program& program);

  struct State {
    std::vector<op::Partial> axes;
    bool zero = false;
  };
  /// Nothing where the bytes of the slice differ.
  std::optional<State> read(const Slice& slice) const;
  void write(const Slice& slice, const State& state);

 private:
  std::size_t intern(const std::vector<op::Partial>& axes);

  static constexpr std::size_t zero = 0;  // index into sets_; index 1 is "none"
  const Program& program_;
  std::vector<std::vector<op::Partial>> sets_ = {{}, {}};
  IntervalMap<std::size_t> bytes_{1};
};

/// Without cuts and partial axes of size 1, dims empty where none is cut.
op::Sharding normalized(const op::Sharding& sharding, const Mesh& mesh);

/// The claimed cuts of a slice as an op sees it (see Program::view_shape), normalised, not partial.
/// Nothing where the view mixes a cut dim with others, so that no cut describes it.
std::optional<op::Sharding> view_sharding(const Program& program, const Slice& slice, DType dtype);

const Mesh& mesh_of(const Program& program, const Slice& slice);

/// The states after a collective, copy, send or receive that moves `from` to `to`; or the problem.
struct Conversion {
  PartialMap::State state;
  std::string problem;
};
Conversion convert(const Program& program, const AllReduce& what, const PartialMap::State& from);
Conversion convert(const Program& program, const ReduceScatter& what,
                   const PartialMap::State& from);
Conversion convert(const Program& program, const AllGather& what, const PartialMap::State& from);
Conversion convert(const Program& program, const AllToAll& what, const PartialMap::State& from);
Conversion convert(const Program& program, const Copy& what, const PartialMap::State& from);

/// "partial sum(x)", "not partial".
std::string partial_text(const std::vector<op::Partial>& axes, const Mesh& mesh);

}  // namespace fourfold::program
