// Arithmetic modulo the prime 2^61 - 1, over which verify/ runs programs: every order and layout of
// the same sums gives one number there, and a wrong operand, window, term or attribute gives
// another one. Each row of the table states its form over residues (`residues`, beside its other
// rules): what is linear in an operand is computed as it stands; any other function of an element
// is a keyed hash of the function's name, of its arguments, and of the attributes that say what is
// computed.
//
// An element is a word of 64 bits. In an operand of real numbers it is a residue, or one of two
// tags; in an operand of integers it is the integer itself, modulo 2^64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/random.h"
#include "base/shape.h"

namespace fourfold::op {

using Residue = std::uint64_t;

/// The modulus, 2^61 - 1. Residues are below it.
inline constexpr Residue residue_prime = (Residue{1} << 61) - 1;
/// The tag of a number that is not finite. Sums, products and hashes hand it on.
inline constexpr Residue not_finite = ~Residue{0};
/// The tag of minus infinity: the smallest number of all, whose exponential is 0. Only maxima make
/// it, and only maxima and exponentials read it.
inline constexpr Residue minus_infinity = ~Residue{0} - 1;
constexpr bool is_finite(Residue a) {
  return a != not_finite;
}

/// Thrown where a divisor is 0, for which about one set of keys in 2^61 is to blame: who runs
/// programs draws other keys.
struct ZeroDivisor {};

// Sums and products; not_finite where either of the two is.
constexpr Residue add(Residue a, Residue b) {
  if (a >= residue_prime || b >= residue_prime) return not_finite;
  const Residue sum = a + b;
  return sum >= residue_prime ? sum - residue_prime : sum;
}
constexpr Residue negate(Residue a) {
  if (a >= residue_prime) return not_finite;
  return a == 0 ? 0 : residue_prime - a;
}
constexpr Residue subtract(Residue a, Residue b) {
  return add(a, negate(b));
}
constexpr Residue multiply(Residue a, Residue b) {
  if (a >= residue_prime || b >= residue_prime) return not_finite;
  const auto product = static_cast<unsigned __int128>(a) * b;
  const Residue sum =
      (static_cast<Residue>(product) & residue_prime) + static_cast<Residue>(product >> 61);
  return sum >= residue_prime ? sum - residue_prime : sum;
}
/// 1 / a. Throws ZeroDivisor. Cost: some 120 products.
Residue inverse(Residue a);
/// a / b. Throws ZeroDivisor.
Residue divide(Residue a, Residue b);
/// The residue of an integer.
Residue residue_of_integer(std::int64_t value);
/// The residue of the dyadic number that a double is, m 2^e; not_finite of any that is not finite.
Residue residue_of(double value);

/// The name of a function that is hashed. Rows that compute the same function, such as one
/// optimizer and the list of it, or a norm and its cut form, share the name.
constexpr Residue function_name(std::string_view name) {
  return random_stream(name).id;
}

/// The functions that depend on keys. Two runs with independent keys agree on a wrong program with
/// the product of both probabilities.
class Residues {
 public:
  explicit Residues(std::uint64_t key);

  /// A hash of a function's name and arguments, as a residue; not_finite where any argument is that
  /// tag. Attributes are arguments too: a double by residue_of, an integer as it is.
  Residue hash(Residue function, std::initializer_list<Residue> arguments) const;
  /// Random numbers of a stream (masks, noise, initial values): a hash of all that they depend on,
  /// `element` being an index in the whole tensor.
  Residue random(RandomStream stream, std::uint64_t seed, std::uint64_t step, std::uint64_t element,
                 std::uint64_t draw = 0) const;

  // exp(a - b) = E(a) / E(b),  log(s) + m = L(s E(m)),  E(L(z)) = z.
  /// E: one residue for each, of all but one of them not 0; 0 for minus_infinity.
  Residue exponential(Residue a) const;
  /// L, the inverse of E.
  Residue logarithm(Residue a) const;

  /// The order by which maxima go, that of a keyed permutation: not_finite is above all, and
  /// minus_infinity below all.
  bool is_larger(Residue a, Residue b) const;
  Residue larger(Residue a, Residue b) const { return is_larger(b, a) ? b : a; }

 private:
  static constexpr int num_rounds = 4;
  struct Permutation {
    Residue added[num_rounds], factors[num_rounds], inverses[num_rounds];
    Residue forward(Residue a) const;
    Residue backward(Residue a) const;
  };
  Residue hash_key_, random_key_;
  Permutation exponential_, order_;
};

/// An operand of a row, dense and row-major. What a row writes may hold anything before; what it
/// updates holds the old content.
struct ResidueTensor {
  Shape shape;
  std::span<Residue> elements;
  bool is_integer = false;  // elements are integers modulo 2^64, and not residues
};
/// All operands of a row, in the order of Row::operands.
using ResidueTensors = std::span<const ResidueTensor>;

}  // namespace fourfold::op
