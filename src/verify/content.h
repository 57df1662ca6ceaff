// What values are made of, so that sums can be compared between micro-batches: for the rule "sum".
// A value is a sum of contributions, each of one micro-batch or of none. Two contributions are of
// one kind where the same row made them, with the same attributes, from values of the same kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/number_set.h"
#include "verify/language.h"

namespace fourfold::verify {

using ValueId = Id<struct ValueTag>;

/// A number that follows from two others, as good as random. With either of them fixed it is a
/// different one for each value of the other: small numbers that are near to each other never meet.
constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t hash = a * 0x9E3779B97F4A7C15U + b;
  hash = (hash ^ (hash >> 32U)) * 0xD6E8FEB86659FD93U;
  hash = (hash ^ (hash >> 32U)) * 0xD6E8FEB86659FD93U;
  return hash ^ (hash >> 32U);
}

/// The same for equal rows on all ranks of a mesh, up to micro-batch and whether they add or
/// overwrite.
std::uint64_t hash_of(const op::Op& op);

/// What the contributions of one micro-batch add up to. Sums of hashes: their order does not count.
struct Content {
  std::uint64_t kinds = 0;   // of the contributions
  std::uint64_t inputs = 0;  // of what each contribution was computed from
  std::uint64_t count = 0;
  bool operator==(const Content&) const = default;
  Content times(std::uint64_t n) const { return {n * kinds, n * inputs, n * count}; }
  Content& operator+=(const Content& other) {
    kinds += other.kinds;
    inputs += other.inputs;
    count += other.count;
    return *this;
  }
};

/// Micro-batches are numbers from 0 to the number of them; chunks count as micro-batches here.
class Contents {
 public:
  explicit Contents(std::size_t micros) : micros_(micros), values_(1) {}

  /// What adds nothing to a sum.
  static constexpr ValueId zero() { return ValueId(0); }
  /// One contribution of this kind; `inputs` is a hash of what it was computed from.
  ValueId one(std::uint64_t kind, std::uint64_t inputs, std::optional<std::size_t> micro);
  ValueId sum(ValueId a, ValueId b);
  /// The sum `to` after `term` has been added in its place. Nothing where `to` has the term
  /// already.
  std::optional<ValueId> accumulate(ValueId to, ValueId term);

  /// A contribution that micro-batch `has` has and `lacks` does not.
  struct Gap {
    std::size_t has = 0, lacks = 0;
    std::uint64_t kind = 0;
  };
  /// Takes a value as a whole: what has contributions of several micro-batches must have the same
  /// of each of them, and is of none from then on. The first gap where it does not; the value then
  /// passes for a whole, so that one fault is told once. Cost: linear in its contributions.
  std::optional<Gap> complete(ValueId id);
  /// Kinds of the contributions to a value that are of the first micro-batch or of none. Nothing
  /// where all calls together have looked at far more values than there are, as no sums of a
  /// program that makes sense need.
  std::optional<std::vector<std::uint64_t>> first_kinds(ValueId id);

  // A value that is complete or of one micro-batch alone has these:
  std::optional<std::size_t> micro(ValueId id) const { return values_[id.index()].micro_batch(); }
  const Content& content(ValueId id) const { return values_[id.index()].content; }
  std::uint64_t kind(ValueId id) const { return mixed(content(id).kinds, content(id).count); }
  bool is_faulty(ValueId id) const { return values_[id.index()].is_faulty; }

 private:
  /// Small, as there is one for each value of a program.
  struct Value {
    static constexpr std::uint32_t no_micro = 0xFFFFFFFFU;

    Content content;  // none yet where it is over micro-batches
    std::uint32_t micro = no_micro;
    std::uint32_t left = 0, right = 0;  // numbers of the terms of a sum; else 0
    std::uint32_t origin = 0;           // of a sum: the number of the value that it began with
    bool is_over_micros = false;        // and has not been completed
    bool is_faulty = false;

    bool has_micro() const { return micro != no_micro; }
    std::optional<std::size_t> micro_batch() const {
      return has_micro() ? std::optional<std::size_t>(micro) : std::nullopt;
    }
  };
  ValueId add(Value value);

  std::size_t micros_;
  std::vector<Value> values_;
  NumberSet accumulated_;      // hashes of origin, term and micro-batch
  std::size_t looked_at_ = 0;  // values, by first_kinds
};

}  // namespace fourfold::verify
