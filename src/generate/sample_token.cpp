#include "generate/sample_token.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::generate {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

[[noreturn]] void fail(const std::string& what) {
  throw UserError(ExitCode::numeric_stop, format("{}, expected numbers; the weights are damaged or "
                                                 "the training has diverged: use an earlier model",
                                                 what));
}

void check(std::span<const double> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(),
                                [](double x) { return std::isnan(x) || x == infinity; });
  if (bad != logits.end()) fail(format("the logit of token {} is {}", bad - logits.begin(), *bad));
  const bool all_impossible =
      std::all_of(logits.begin(), logits.end(), [](double x) { return x == -infinity; });
  if (all_impossible) fail("the logits of all tokens are -inf");
}

using Ids = std::vector<std::int32_t>;

/// By their logits, of equal ones the lower id first.
auto is_larger(std::span<const double> logits) {
  return [=](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
}

/// All ids, or those of the top_k largest logits, in any order.
Ids largest_of(std::span<const double> logits, std::int64_t top_k) {
  Ids ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (top_k == 0 || top_k >= static_cast<std::int64_t>(ids.size())) return ids;
  std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), is_larger(logits));
  ids.resize(static_cast<std::size_t>(top_k));
  return ids;
}

/// Keeps the fewest likeliest that have the share top_p of all weight.
template <class Weight>
void keep_nucleus(Ids& ids, std::span<const double> logits, double top_p, const Weight& weight) {
  std::sort(ids.begin(), ids.end(), is_larger(logits));
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  double sum = 0;
  const auto reaches = [&](std::int32_t id) { return (sum += weight(id)) >= top_p * total; };
  const auto last = std::find_if(ids.begin(), ids.end(), reaches);
  if (last != ids.end()) ids.erase(last + 1, ids.end());
}

}  // namespace

std::int32_t sample_token(std::span<const double> logits, const SampleSpec& spec, double uniform) {
  require(!logits.empty(), "there are logits to sample from");
  require(spec.temperature >= 0 && spec.top_k >= 0, "temperature and top_k are not negative");
  require(spec.top_p > 0 && spec.top_p <= 1, "top_p is a share");
  require(uniform >= 0 && uniform < 1, "the random number is in [0, 1)");
  check(logits);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (spec.temperature == 0) return static_cast<std::int32_t>(largest - logits.begin());

  const auto weight = [&](std::int32_t id) {
    return std::exp((logits[static_cast<std::size_t>(id)] - *largest) / spec.temperature);
  };
  Ids ids = largest_of(logits, spec.top_k);
  if (spec.top_p < 1) keep_nucleus(ids, logits, spec.top_p, weight);
  std::sort(ids.begin(), ids.end());
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  double below = 0;
  for (const std::int32_t id : ids) {
    below += weight(id);
    // The last sum equals `total`, and uniform * total rounds to less than that.
    if (uniform * total < below) return id;
  }
  fail_internal("a token is found below the total weight");
}

}  // namespace fourfold::generate
