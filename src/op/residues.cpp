#include "op/residues.h"

#include <cmath>
#include <cstdlib>

namespace fourfold::op {
namespace {

constexpr Residue low_61_bits = residue_prime;

/// One round of mixing: the two halves of a product of 128 bits, added without carry. The
/// constants are the first bits of the fraction of the golden ratio and of the root of 2, made odd.
constexpr Residue mix(Residue a, Residue b) {
  const auto product =
      static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15U) * (b ^ 0x6A09E667F3BCC909U);
  return static_cast<Residue>(product) ^ static_cast<Residue>(product >> 64);
}

/// SplitMix64's generator (Steele, Lea, Flood, OOPSLA'14).
struct Keys {
  Residue state;
  Residue next() {
    state += 0x9E3779B97F4A7C15U;
    Residue a = state;
    a = (a ^ a >> 30) * 0xBF58476D1CE4E5B9U;
    a = (a ^ a >> 27) * 0x94D049BB133111EBU;
    return a ^ a >> 31;
  }
};

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the bits that
/// are right, of which there are 3 at first.
constexpr Residue inverse_of_odd(Residue a) {
  Residue inverse = a;
  for (int step = 0; step < 5; ++step) inverse *= 2 - a * inverse;
  return inverse;
}

Residue power(Residue base, Residue exponent) {
  Residue result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

/// 64 bits to a residue: two in 2^61 values come twice as often as others, or not at all.
constexpr Residue to_residue(Residue bits) {
  const Residue a = bits & low_61_bits;
  return a == residue_prime ? 0 : a;
}

}  // namespace

Residue inverse(Residue a) {
  if (a >= residue_prime) return not_finite;
  if (a == 0) throw ZeroDivisor{};
  return power(a, residue_prime - 2);  // Fermat
}
Residue divide(Residue a, Residue b) {
  return multiply(a, inverse(b));
}
Residue residue_of_integer(std::int64_t value) {
  const Residue size = static_cast<Residue>(value < 0 ? -(value + 1) : value);
  const Residue rest = size % residue_prime;
  return value < 0 ? negate(add(rest, 1)) : rest;
}
Residue residue_of(double value) {
  if (!std::isfinite(value)) return not_finite;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  constexpr int bits = 53;
  const Residue mantissa =
      residue_of_integer(static_cast<std::int64_t>(std::ldexp(fraction, bits)));
  exponent -= bits;
  // 2 has order 61: 2^61 = 1.
  const int shift = (exponent % 61 + 61) % 61;
  return multiply(mantissa, Residue{1} << shift);
}

Residues::Residues(std::uint64_t key) {
  Keys keys{key};
  hash_key_ = keys.next();
  random_key_ = keys.next();
  for (Permutation* permutation : {&exponential_, &order_})
    for (int round = 0; round < num_rounds; ++round) {
      permutation->added[round] = keys.next();
      permutation->factors[round] = keys.next() | 1;
      permutation->inverses[round] = inverse_of_odd(permutation->factors[round]);
    }
}

// Each round is a permutation of the numbers of 61 bits: an addition, a product with an odd number,
// and the upper half added to the lower one. The one number that is no residue, 2^61 - 1, is passed
// by: who meets it goes on from there, in both directions.
Residue Residues::Permutation::forward(Residue a) const {
  do {
    for (int round = 0; round < num_rounds; ++round) {
      a = (a + added[round]) * factors[round] & low_61_bits;
      a ^= a >> 31;
    }
  } while (a == residue_prime);
  return a;
}
Residue Residues::Permutation::backward(Residue a) const {
  do {
    for (int round = num_rounds; round-- > 0;) {
      a ^= a >> 31;
      a = (a * inverses[round] - added[round]) & low_61_bits;
    }
  } while (a == residue_prime);
  return a;
}

Residue Residues::hash(Residue function, std::initializer_list<Residue> arguments) const {
  Residue state = mix(hash_key_, function);
  for (const Residue argument : arguments) {
    if (argument == not_finite) return not_finite;
    state = mix(state + argument, hash_key_ + state);
  }
  return to_residue(mix(state, hash_key_ ^ arguments.size()));
}
Residue Residues::random(RandomStream stream, std::uint64_t seed, std::uint64_t step,
                         std::uint64_t element, std::uint64_t draw) const {
  Residue state = mix(random_key_, stream.id);
  for (const Residue argument : {seed, step, element, draw})
    state = mix(state + argument, random_key_ + state);
  return to_residue(mix(state, random_key_));
}
Residue Residues::exponential(Residue a) const {
  if (a == not_finite) return not_finite;
  return a == minus_infinity ? 0 : exponential_.forward(a);
}
Residue Residues::logarithm(Residue a) const {
  return a >= residue_prime ? not_finite : exponential_.backward(a);
}
bool Residues::is_larger(Residue a, Residue b) const {
  if (a == b) return false;
  if (a == not_finite || b == minus_infinity) return true;
  if (b == not_finite || a == minus_infinity) return false;
  return order_.forward(a) > order_.forward(b);
}

}  // namespace fourfold::op
