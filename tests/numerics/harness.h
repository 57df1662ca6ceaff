// What every numerics test needs: arrays in double, running one op on a backend with poisoned and
// guarded outputs, and cases that drive the accuracy, aliasing and determinism tests alike.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace fourfold::numerics {

/// A tensor's values in double: exact for f32, bf16, i32, and for i64 and u64 below 2^53.
struct Array {
  Shape shape;
  std::vector<double> data;
};
using Arrays = std::vector<Array>;

Array filled(const Shape& shape, double value);
Array scalar(double value);
/// An index of `data`.
inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}
/// Uniform in [low, high), a pure function of name and element.
Array uniform(const Shape& shape, std::string_view name, double low = -1, double high = 1);
/// Integers 0 ... bound - 1; each `every`-th is -1 (0: none).
Array integers(const Shape& shape, std::string_view name, std::int64_t bound,
               std::int64_t every = 0);

/// Where kernels come from that are not those of the CPU. A run takes operands in host memory.
struct Kernels {
  std::function<kernels::Run(const kernels::Problem&)> prepare;
  std::function<std::int64_t(const kernels::Problem&)> workspace_bytes;
};

/// Which kernel runs, in which type.
struct Backend {
  std::string implementation;  // "reference", "vector", "openblas", "onednn"
  DType dtype = DType::f64;
  int threads = 1;
  const Kernels* source = nullptr;  // the CPU's
};
std::string to_string(const Backend& backend);
inline const Backend exact{"reference", DType::f64, 1};

/// Outputs of an op, as values and as bytes; zeros and no bytes for values between the pieces of a
/// chain, whose memory a kernel may leave as it was.
struct Result {
  Arrays values;
  std::vector<std::vector<std::byte>> bytes;
};

enum class Aliasing { none, where_allowed };

/// Runs the op once. `reads` and `updates` (old contents of outputs with role update, in order) are
/// rounded to the backend's types. Written outputs are poisoned before; the bytes after every
/// operand are checked afterwards.
Result apply(const op::Op& op, const Backend& backend, const Arrays& reads,
             const Arrays& updates = {}, Aliasing aliasing = Aliasing::none);

/// Values as the backend's type holds them: operand `index` of the op.
Array rounded(const op::Op& op, std::size_t index, DType dtype, const Array& array);

struct Case {
  std::string name;
  op::Op op;
  Arrays reads;
  Arrays updates = {};
  /// Length of the longest sum.
  double reduction = 1;
  /// ref_abs of each output: what rounding errors are relative to. Default: the reference on
  /// absolute values.
  std::function<Arrays(const Case&, const Arrays& outputs)> magnitude = {};
};

/// The magnitude of a case whose outputs are rounded when they are stored and at no other time.
Arrays own_size(const Case& sample, const Arrays& outputs);

inline void PrintTo(const Case& sample, std::ostream* out) {
  *out << sample.name;
}

/// |got - ref| <= 4 (eps(output) + eps(sums) sqrt(n)) ref_abs, hence at most 8 eps sqrt(n) ref_abs
/// in f32 and f64 (Higham 2002, section 3.1, with the square root of the probabilistic bound).
void expect_within_bound(const Case& sample, const Backend& backend);
/// On each of the backends; the reference is computed once for each type.
void expect_within_bound(const Case& sample, const std::vector<Backend>& backends);

/// Where an output depends on a real number that the op reads, NaN in place of that number is NaN
/// in an output: no mask, maximum or bound takes a broken number for a fine one.
void expect_no_hidden_nan(const Case& sample, const Backend& backend);

/// The outputs of a chain or list, its pieces run one after another on the backend.
Result of_pieces(const Case& sample, const Backend& backend);

/// The largest difference of an output of a chain from that of its pieces, where the chain may add
/// up in another order: over what roundings of bf16 that fall the other way can make of it. Each
/// value that a piece hands on may do so, two at most on any way.
double difference_from_pieces(const Case& sample, const Backend& backend);

/// Central differences of loss = sum over outputs of weight * output: `gradient` must be d loss / d
/// reads[index]. Largest difference over the largest element of the gradient: at most 1e-6.
void expect_gradient(const op::Op& op, Arrays reads, std::size_t index, const Arrays& weights,
                     const Array& gradient);
/// As above, for a function of several ops; it gives at least as many outputs as there are weights.
void expect_gradient(std::string_view name, const std::function<Arrays(const Arrays&)>& function,
                     Arrays reads, std::size_t index, const Arrays& weights, const Array& gradient);

/// Cases of each family, see the file of its name.
std::vector<Case> contract_cases();
std::vector<Case> embedding_cases();
std::vector<Case> dropout_cases();
std::vector<Case> norm_cases();
std::vector<Case> norm_parts_cases();
std::vector<Case> uncentred_norm_cases();
std::vector<Case> elementwise_cases();
std::vector<Case> attention_cases();
std::vector<Case> grouped_attention_cases();
std::vector<Case> heads_cases();
std::vector<Case> loss_cases();
std::vector<Case> loss_parts_cases();
std::vector<Case> update_cases();
std::vector<Case> state_cases();
std::vector<Case> fused_cases();
std::vector<Case> fused_product_cases();
std::vector<Case> norm_chain_cases();
std::vector<Case> convolution_cases();
std::vector<Case> picture_cases();
/// What the rows themselves state to be tried on.
std::vector<Case> example_cases();
std::vector<Case> all_cases();

/// True if results in bf16 keep the bound. Parts of a fused row hand over rounded values: in bf16
/// its outputs have the bits of the parts (fused_test.cpp), but no bound of their own, unless no
/// sum reads what was rounded.
bool is_bounded_in_bf16(const op::Op& op);

/// The backends that have a kernel for the op.
std::vector<Backend> backends_of(const op::Op& op);

}  // namespace fourfold::numerics
