// Times of collectives and messages between the ranks of a job, by kind, group and size, and the
// line through them. Not their results (tests/parallel), nor what carries them: a Carrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/collective.h"
#include "base/mesh.h"
#include "comm/world.h"
#include "measure/line_fit.h"
#include "measure/time_together.h"

namespace fourfold::measure {

/// All groups of `ranks` ranks at this stride do the same at once, as the groups of a mesh's axis
/// do. A message is one way of two ranks, each of which sends and receives in turn.
struct Exchange {
  ExchangeKind kind;
  std::int64_t ranks = 2, stride = 1;
  bool operator==(const Exchange&) const = default;
};

/// Every kind on groups of 2, 4, ... and all ranks that tile the world: neighbours, and as far
/// apart as the ranks allow; sends between neighbours and between ranks that are `host_ranks`
/// apart, for which the last ranks may have no peer.
std::vector<Exchange> exchanges_of(std::int64_t world, std::int64_t host_ranks);

/// The sizes at which exchanges are timed where nobody names others; quick ones take no time.
std::vector<std::int64_t> usual_sizes();
std::vector<std::int64_t> quick_sizes();

/// How many bytes each rank sends for every byte of the exchange, where it could take a tree by a
/// ring. With it a time becomes what a rank gets of its link.
double ring_share(const Exchange& exchange);

/// What one member reads and writes in a collective, of memory for a payload on each side.
struct Sides {
  comm::Bytes from, to;
};
Sides sides_of(Collective kind, comm::Bytes from, comm::Bytes to, std::size_t members);

/// What carries exchanges between the ranks, as one of them sees it.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Makes ready for an exchange of at most so many bytes between `members`; all ranks call
  /// together. Those without a peer have one that is no rank of the job, and never call.
  virtual void prepare(const Exchange& exchange, const std::vector<Rank>& members,
                       std::int64_t most_bytes) = 0;
  /// Carries out the exchange that was prepared last, or enqueues it; `bytes` as
  /// machine::MeasuredGroup counts them.
  virtual void call(std::size_t bytes) = 0;
  /// Returns when all that this rank has called is over.
  virtual void settle() {}
};

/// Over host memory, by a World's own groups and messages.
class HostCarrier : public Carrier {
 public:
  explicit HostCarrier(comm::World& world) : world_(world) {}

  void prepare(const Exchange& exchange, const std::vector<Rank>& members,
               std::int64_t most_bytes) override;
  void call(std::size_t bytes) override;

 private:
  comm::World& world_;
  ExchangeKind kind_;
  std::vector<Rank> members_;
  std::vector<std::byte> memory_;  // two halves, so that all kinds have room
  comm::Group* group_ = nullptr;
};

struct ExchangeTimes {
  Exchange exchange;
  std::vector<TimedBytes> samples;  // bytes as machine::MeasuredGroup counts them
  double spread = 0;                // the median one of all sizes
  LineFit fit;                      // of one size: without a latency
};

/// Times the exchange at each size, which is rounded down to what the members can share evenly, and
/// ends with the first but one that takes longer than 0.1 s. All ranks call together and get the
/// same figures. Requires at least one size, the smallest first, and ranks x stride to divide the
/// world but for sends.
ExchangeTimes measure_exchange(comm::World& world, Carrier& carrier, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each);
/// The same over host memory.
ExchangeTimes measure_exchange(comm::World& world, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each);

}  // namespace fourfold::measure
