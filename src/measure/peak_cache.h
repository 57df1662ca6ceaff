// The best rate of matrix products that was ever measured on a machine, kept in the user's cache:
// one start may measure while other work runs, several do not. Not the measuring itself (measure/).
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "comm/launcher.h"

namespace fourfold::measure {

/// The folder for what can be found again: XDG_CACHE_HOME/fourfold or HOME/.cache/fourfold. Empty
/// where the environment names neither.
std::string cache_folder(const comm::Variable& variable);

struct KnownPeak {
  double flops_per_s = 0;         // the best; 0: none is known
  std::int64_t measurements = 0;  // that it is the best of

  /// True if another measurement would not tell more.
  bool is_settled() const { return measurements >= 3; }
};

/// The known peak of this CPU with its libraries, for products of one type on so many threads.
/// Trouble with the file costs a measurement at the next start and nothing else.
class PeakCache {
 public:
  /// `folder` empty: nothing is kept.
  PeakCache(const std::string& folder, DType dtype, int threads);

  KnownPeak read() const;
  /// Remembers a measurement; what is known now.
  KnownPeak add(double flops_per_s) const;
  /// A run computed faster than the best that is known: it is measured again at the next starts.
  void doubt() const;

 private:
  void write(const KnownPeak& peak) const;

  std::string machine_;  // all that the rate depends on, in words
  double most_flops_per_s_;
  std::string path_;  // empty: nothing is kept
};

}  // namespace fourfold::measure
