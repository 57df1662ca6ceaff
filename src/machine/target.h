// What a program is compiled for: the backend's facts about its kernels, as values. Not a
// measurement: measure/ and `bench kernels` make such tables, this is how one looks.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "op/table.h"

namespace fourfold::machine {

/// One line of the choice table. The first line that fits an op decides. For ops without a product
/// (op::product_of) the bounds are open; a line may be for operands of just these shapes.
struct Choice {
  std::string op;              // name of the row, "*" for any
  std::optional<DType> dtype;  // none: any
  std::string layout = "*";    // products only: "nn", "nt", "tn", "tt": is a, is b transposed
  std::int64_t max_m = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_n = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_k = std::numeric_limits<std::int64_t>::max();
  std::string implementation;
  /// Scratch that it was measured with, for products of exactly max_m, max_n and max_k, or for
  /// these very shapes; none: what the backend says.
  std::optional<std::int64_t> workspace_bytes = {};
  std::vector<Shape> shapes = {};  // of all operands; empty: any
  bool operator==(const Choice&) const = default;
};

/// A backend as compile/ sees it.
struct Target {
  std::string backend;  // "cpu"
  int threads = 1;      // that one rank computes with
  std::vector<Choice> choices;
  /// Scratch that an implementation needs for an op on operands of these shapes, in bytes; 0 for
  /// none.
  std::function<std::int64_t(const std::string& implementation, const op::Op&, op::Shapes all,
                             DType)>
      workspace_bytes;
  /// True if an implementation that a line names computes an op on operands of these shapes; empty:
  /// each computes all that lines name it for.
  std::function<bool(const std::string& implementation, const op::Op&, op::Shapes all, DType)>
      fits = {};
  /// What compile/ should make one instruction of: chains of rows (op/fused.h) by their names, the
  /// first that fits winning, and lists of rows by theirs.
  std::vector<std::string> fusions = {};
  /// Rows of the forward pass whose values are computed again in the backward pass, where none but
  /// `repeated_for` reads them there: kernels of chains then have them in registers, and nobody
  /// keeps them.
  std::vector<std::string> repeated = {}, repeated_for = {};
  /// So many streams of a program compute side by side: 2 where kernels of one stream fill what
  /// those of another leave idle of the device, at their ends and between them. An H200 loses by
  /// it: a product takes all of its multiprocessors, and all kernels share one cache.
  int compute_streams = 1;
  /// The most elements that a head may have in its kernels of attention; none: any number.
  std::optional<std::int64_t> most_head_width = {};
};

/// What the table compares: m, n, k and layout of a product; ops without one fit any line that
/// names them.
struct ProductSizes {
  std::string layout = "*";
  std::int64_t m = 0, n = 0, k = 0;
};
ProductSizes product_sizes(const op::Op& op, op::Shapes all);

/// True if the target wants a list of rows, or a chain.
bool fuses(const Target& target, std::string_view name);

/// The scratch of the first line that was measured for just this product or convolution by
/// `implementation`; none where no line was.
std::optional<std::int64_t> measured_workspace(const std::vector<Choice>& choices,
                                               std::string_view implementation, const op::Op& op,
                                               op::Shapes all, DType dtype);

/// The implementation that the table gives for an op; throws InternalError when no line fits.
const std::string& choose(const Target& target, const op::Op& op, op::Shapes all, DType dtype);

}  // namespace fourfold::machine
