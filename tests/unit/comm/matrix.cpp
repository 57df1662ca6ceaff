#include "unit/comm/matrix.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/format.h"

namespace fourfold::comm {
namespace {

/// A value that every rank can compute for every other: small integers and quarters, so that sums
/// of up to 16 terms are exact in float; bf16 keeps 8 bits of them.
template <class T>
T value(std::size_t member, std::size_t index) {
  const auto number = static_cast<double>((member * 7919 + index * 104729) % 61) - 30;
  if constexpr (std::is_same_v<T, BFloat16>) return BFloat16(static_cast<float>(number / 4));
  if constexpr (std::is_integral_v<T>) return static_cast<T>(std::abs(number));
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(number / 4);
}

template <class T>
double as_double(T x) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

template <class T>
double expected(std::size_t members, std::size_t index, Reduction reduction) {
  double result = as_double(value<T>(0, index));
  for (std::size_t m = 1; m < members; ++m) {
    const double term = as_double(value<T>(m, index));
    result = reduction == Reduction::sum ? result + term : std::max(result, term);
  }
  return result;
}

template <class T>
class Check {
 public:
  Check(Group& group, std::size_t count, Rounding rounding)
      : group_(group), n_(group.size()), me_(group.position()), count_(count) {
    // The terms are below 8 in size, so that each rounding to bf16 errs by less than n 8 / 256.
    if (std::is_same_v<T, BFloat16>)
      tolerance_ =
          static_cast<double>(n_) / 32 * (rounding == Rounding::once ? 1 : static_cast<double>(n_));
  }

  std::string run() {
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      all_reduce(reduction);
      reduce_scatter(reduction, false);
      reduce_scatter(reduction, true);
    }
    all_gather(false);
    all_gather(true);
    all_to_all();
    return error_;
  }

 private:
  using Values = std::vector<T>;

  Values mine(std::size_t count) const {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value<T>(me_, i);
    return values;
  }
  static std::span<std::byte> bytes(Values& values, std::size_t first, std::size_t count) {
    return std::as_writable_bytes(std::span(values).subspan(first, count));
  }
  static std::span<std::byte> bytes(Values& values) { return bytes(values, 0, values.size()); }

  void expect(std::string_view what, std::size_t index, T got, double wanted, double tolerance) {
    if (std::abs(as_double(got) - wanted) <= tolerance || !error_.empty()) return;
    error_ = format("{} of {} elements of {} over {} ranks: member {} has {} at {}, expected {}",
                    what, count_, to_string(dtype_of<T>), n_, me_, as_double(got), index, wanted);
  }

  void all_reduce(Reduction reduction) {
    Values data = mine(count_);
    group_.all_reduce(bytes(data), dtype_of<T>, reduction);
    for (std::size_t i = 0; i < count_; ++i)
      expect("all_reduce", i, data[i], expected<T>(n_, i, reduction), tolerance(reduction));
  }

  void reduce_scatter(Reduction reduction, bool in_place) {
    Values from = mine(n_ * count_), result(count_);
    group_.reduce_scatter(bytes(from), in_place ? bytes(from, me_ * count_, count_) : bytes(result),
                          dtype_of<T>, reduction);
    for (std::size_t i = 0; i < n_ * count_; ++i) {
      const bool own = i / std::max<std::size_t>(count_, 1) == me_;
      if (own)
        expect("reduce_scatter", i, in_place ? from[i] : result[i - me_ * count_],
               expected<T>(n_, i, reduction), tolerance(reduction));
      if (!own || !in_place)
        expect("what a reduce_scatter read", i, from[i], as_double(value<T>(me_, i)), 0);
    }
  }

  void all_gather(bool in_place) {
    Values from = mine(count_), to(n_ * count_);
    if (in_place && count_ > 0) std::memcpy(&to[me_ * count_], from.data(), count_ * sizeof(T));
    group_.all_gather(in_place ? bytes(to, me_ * count_, count_) : bytes(from), bytes(to));
    for (std::size_t i = 0; i < n_ * count_; ++i)
      expect("all_gather", i, to[i], as_double(value<T>(i / count_, i % count_)), 0);
  }

  void all_to_all() {
    Values from = mine(n_ * count_), to(n_ * count_);
    group_.all_to_all(bytes(from), bytes(to));
    for (std::size_t i = 0; i < n_ * count_; ++i)
      expect("all_to_all", i, to[i], as_double(value<T>(i / count_, me_ * count_ + i % count_)), 0);
  }

  double tolerance(Reduction reduction) const {
    return reduction == Reduction::sum ? tolerance_ : 0;
  }

  Group& group_;
  std::size_t n_, me_, count_;
  double tolerance_ = 0;
  std::string error_;
};

template <class T>
std::string check_nan(Group& group, NanInMaximum nan) {
  // The NaN comes from a different member each time, so that its place in the sum does not matter.
  for (std::size_t who = 0; who < group.size(); ++who)
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      if (reduction == Reduction::max && nan == NanInMaximum::may_go) continue;
      const float mine = who == group.position() ? std::numeric_limits<float>::quiet_NaN() : 1.F;
      std::vector<T> data(9, T(mine));
      group.all_reduce(std::as_writable_bytes(std::span(data)), dtype_of<T>, reduction);
      for (const T x : data)
        if (!std::isnan(as_double(x)))
          return format("a NaN of member {} is lost in a reduction of {}", who,
                        to_string(dtype_of<T>));
    }
  return "";
}

}  // namespace

std::string check_collectives(Group& group, std::int64_t count, Rounding rounding,
                              NanInMaximum nan) {
  const auto n = static_cast<std::size_t>(count);
  std::string errors;
  errors += Check<float>(group, n, rounding).run();
  errors += Check<double>(group, n, rounding).run();
  errors += Check<BFloat16>(group, n, rounding).run();
  errors += Check<std::int32_t>(group, n, rounding).run();
  errors += Check<std::int64_t>(group, n, rounding).run();
  errors += Check<std::uint64_t>(group, n, rounding).run();
  errors += check_nan<float>(group, nan) + check_nan<double>(group, nan) +
            check_nan<BFloat16>(group, nan);
  return errors;
}

}  // namespace fourfold::comm
