// Which sums the bytes of a program are terms of, and what moving them does: for the rules "state"
// and "layout".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/interval_map.h"
#include "verify/claims.h"
#include "verify/language.h"

namespace fourfold::verify {

/// Tells for every byte over which axes it is a partial sum. A byte that is zero on all ranks is
/// one over any axes.
class PartialMap {
 public:
  explicit PartialMap(const Program& program);

  struct Partials {
    std::vector<op::Partial> axes;
    bool zero = false;
  };
  /// Nothing where the bytes of the slice differ.
  std::optional<Partials> read(const Slice& slice) const;
  void write(const Slice& slice, const Partials& partials);
  /// Where in a buffer partial bytes begin, and what they are.
  std::vector<std::pair<std::int64_t, std::vector<op::Partial>>> sums(BufferId id) const;

 private:
  std::size_t intern(const std::vector<op::Partial>& axes);

  static constexpr std::size_t zero = 0;  // index into sets_; index 1 is "none"
  const Program& program_;
  std::vector<std::vector<op::Partial>> sets_ = {{}, {}};
  IntervalMap<std::size_t> bytes_{1};
};

/// The partial axes after a collective or copy moves `from` to `to`; or the problem and the rule it
/// breaks.
struct Conversion {
  PartialMap::Partials partials;
  std::string problem;
  std::string_view rule = "state";
};
Conversion convert(Claims& claims, const Copy& what, const PartialMap::Partials& partials);
Conversion convert(Claims& claims, const Pack& what, const PartialMap::Partials& partials);
Conversion convert(Claims& claims, const Unpack& what, const PartialMap::Partials& partials);
/// The same of one tensor of a collective; `from` and `to` are one slice where it works in place.
Conversion convert(Claims& claims, const AllReduce& what, const Slice& from, const Slice& to,
                   const PartialMap::Partials& partials);
Conversion convert(Claims& claims, const ReduceScatter& what, const Slice& from, const Slice& to,
                   const PartialMap::Partials& partials);
Conversion convert(Claims& claims, const AllGather& what, const Slice& from, const Slice& to,
                   const PartialMap::Partials& partials);
Conversion convert(Claims& claims, const AllToAll& what, const Slice& from, const Slice& to,
                   const PartialMap::Partials& partials);

/// What is wrong with a copy between cut buffers: it is neither one of equal parts nor of this
/// rank's own block. Empty: nothing.
std::string copy_problem(Claims& claims, const Copy& what);
/// What is wrong where `from` is gathered into the buffer that it is part of: it must be this
/// rank's part.
std::string own_share_problem(Claims& claims, const Group& group, const Slice& from,
                              const Slice& to);

/// The axes by which the moments of an update are cut and its weight is not: this rank updates its
/// own block of the weight's dim 0. Nothing where both are cut alike.
struct OwnUpdate {
  std::vector<op::Cut> added;
  std::string problem;  // the weight is not the own block
};
std::optional<OwnUpdate> own_update(Claims& claims, const Compute& update);

/// "partial sum(x)", "not partial".
std::string partial_text(const std::vector<op::Partial>& axes, const Mesh& mesh);

}  // namespace fourfold::verify
