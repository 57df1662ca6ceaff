// A tensor that goes from one mesh to another in boxes, or along a chain in chunks. Both
// meshes have one axis, r.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "program/builder.h"
#include "program/jobs.h"

namespace fourfold::program {
namespace {

constexpr std::int64_t hand_over_tag = 7;
constexpr std::int64_t f32_bytes = 4;

struct Range {
  std::int64_t begin = 0, end = 0;
};
/// What a rank has of each dim, in indices of the whole tensor, without padding.
using Tile = std::array<Range, 3>;

Tile tile_of(const Shape& shape, const std::vector<std::string>& cuts, std::int64_t ranks,
             std::int64_t place) {
  Tile tile;
  for (std::size_t dim = 0; dim < 3; ++dim) {
    const bool is_cut = dim < cuts.size() && !cuts[dim].empty();
    const std::int64_t block = is_cut ? (shape[dim] + ranks - 1) / ranks : shape[dim];
    const std::int64_t begin = is_cut ? place * block : 0;
    tile[dim] = {std::min(begin, shape[dim]), std::min(begin + block, shape[dim])};
  }
  return tile;
}

Tile common(const Tile& a, const Tile& b) {
  Tile both;
  for (std::size_t dim = 0; dim < 3; ++dim)
    both[dim] = {std::max(a[dim].begin, b[dim].begin), std::min(a[dim].end, b[dim].end)};
  return both;
}
bool is_empty(const Tile& tile) {
  return std::ranges::any_of(tile, [](const Range& range) { return range.begin >= range.end; });
}

/// A box as slices: one, or one for each sample.
std::vector<Slice> slices_of(const Builder& b, std::string_view name, Tile box, bool by_sample) {
  const BufferId id = *b.program.find_buffer(name);
  const Shape local = b.program.local_shape(id);
  for (std::size_t dim = 0; dim < 3; ++dim) {
    box[dim].begin -= b.first(name, dim);
    box[dim].end -= b.first(name, dim);
  }
  const std::int64_t samples = box[0].end - box[0].begin, rows = box[1].end - box[1].begin,
                     columns = box[2].end - box[2].begin;
  const std::int64_t row = local[2] * f32_bytes, sample = local[1] * row;
  std::vector<Slice> slices;
  for (std::int64_t i = 0; i < (by_sample ? samples : 1); ++i) {
    const std::int64_t at =
        (box[0].begin + i) * sample + box[1].begin * row + box[2].begin * f32_bytes;
    const std::int64_t times = by_sample ? 1 : samples;
    if (columns < local[2])  // rows * times == 1 or all rows of all samples
      slices.push_back({id, at, times * rows, columns * f32_bytes, times * rows == 1 ? 0 : row});
    else if (rows < local[1])
      slices.push_back({id, at, times, rows * row, times == 1 ? 0 : sample});
    else
      slices.push_back({id, at, 1, times * sample, 0});
  }
  return slices;
}

/// True if one slice of the tile holds a box of several samples.
bool is_one_slice(const Tile& tile, const Tile& box) {
  const auto is_whole = [&](std::size_t dim) {
    return box[dim].begin == tile[dim].begin && box[dim].end == tile[dim].end;
  };
  return is_whole(1) || is_whole(2);
}

class HandOverProgram {
 public:
  HandOverProgram(const HandOver& edge, Rank rank, const std::vector<Mesh>& meshes)
      : edge_(edge),
        sends_(static_cast<std::int64_t>(rank.index()) < edge.senders),
        place_(static_cast<std::int64_t>(rank.index()) - (sends_ ? 0 : edge.senders)),
        b(op::ProgramKind::train, rank, meshes, MeshId(sends_ ? 0 : 1),
          edge.senders + edge.receivers, {"math", "feed", "send", "recv"}) {
    b.program.feeds = {edge.micros, edge.shape[0], 0, edge.shape[0]};
    if (sends_ || !edge.is_chain) b.serialize();
    b.buffer("h", edge.shape, {}, sends_ ? edge.sender_cuts : edge.receiver_cuts);
  }

  Program make() {
    sends_ ? sender() : receiver();
    return b.finish();
  }

 private:
  bool is_cut() const {
    return std::ranges::any_of(edge_.sender_cuts, [](const auto& cuts) { return !cuts.empty(); });
  }
  Shape local() const { return b.program.local_shape(*b.program.find_buffer("h")); }
  Tile own_tile(bool of_sender, std::int64_t place) const {
    return tile_of(edge_.shape, of_sender ? edge_.sender_cuts : edge_.receiver_cuts,
                   of_sender ? edge_.senders : edge_.receivers, place);
  }
  /// Where the sender's mesh has the tensor whole on all ranks, its ranks take turns.
  bool meet(std::int64_t sender, std::int64_t receiver) const {
    if (!is_cut() && receiver % edge_.senders != sender) return false;
    return !is_empty(common(own_tile(true, sender), own_tile(false, receiver)));
  }

  /// What goes from a sender to a receiver, as the own rank has it. Where tiles have padding, a
  /// slice of one of them is not always a slice of the other.
  std::vector<Slice> boxes(std::int64_t sender, std::int64_t receiver) const {
    const Tile from = own_tile(true, sender), to = own_tile(false, receiver);
    const Tile box = common(from, to);
    const bool by_sample = edge_.is_uneven || !is_one_slice(from, box) || !is_one_slice(to, box);
    return slices_of(b, "h", box, by_sample);
  }

  void sender() {
    b.buffer("x", edge_.shape, {BufferRole::feed, DType::f32});
    b.buffer("own", edge_.shape, {}, edge_.sender_cuts);
    for (std::int64_t micro = 0; micro < edge_.micros; ++micro) {
      b.task(TaskKind::forward, micro);
      b.feed(micro, "x");
      if (edge_.is_uneven)
        b.op("math", op::Fill{1, local()}, {"own"});
      else
        b.add("math", Copy{own_block(), b.slice("own")});
      b.op("math", op::Gelu{}, {"own", "h"});
      if (edge_.is_chain) {
        for (const Slice& chunk : chunks()) b.add("send", Send{Rank(1), hand_over_tag, chunk});
        continue;
      }
      for (std::int64_t other = 0; other < edge_.receivers; ++other) {
        if (!meet(place_, other)) continue;
        for (const Slice& box : boxes(place_, other))
          b.add("send",
                Send{Rank(static_cast<std::size_t>(edge_.senders + other)), hand_over_tag, box});
      }
    }
  }
  Slice own_block() const { return slices_of(b, "x", own_tile(true, place_), false).front(); }

  void receiver() {
    for (const std::string_view name : {"y0", "y1"}) b.buffer(name, edge_.shape, {}, cuts());
    b.buffer("sum", edge_.shape, {BufferRole::output, DType::f32}, cuts());
    for (std::int64_t micro = 0; micro < edge_.micros; ++micro) {
      b.task(TaskKind::forward, micro);
      if (edge_.is_uneven) b.op("math", op::Fill{0, local()}, {"h"});
      if (edge_.is_chain)
        pass_on(micro);
      else
        take();
      b.op("math", op::Gelu{}, {"h", micro % 2 == 0 ? "y0" : "y1"});
    }
    b.task(TaskKind::gradient_sync);
    b.op("math", op::Add{}, {"y0", "y1", "sum"});
  }
  const std::vector<std::string>& cuts() const { return edge_.receiver_cuts; }

  void take() {
    for (std::int64_t other = 0; other < edge_.senders; ++other) {
      if (!meet(other, place_)) continue;
      for (const Slice& box : boxes(other, place_))
        b.add("recv", Recv{Rank(static_cast<std::size_t>(other)), hand_over_tag, box});
    }
  }

  /// Each chunk goes on to the next rank while the one after it comes.
  void pass_on(std::int64_t micro) {
    const std::size_t rank = b.program.rank.index();
    const bool is_last = place_ + 1 == edge_.receivers;
    if (micro > 0) {
      b.order("math", "recv");
      if (!is_last) b.order("send", "recv");
    }
    for (const Slice& chunk : chunks()) {
      b.add("recv", Recv{Rank(rank - 1), hand_over_tag, chunk});
      if (is_last) continue;
      b.order("recv", "send");
      b.add("send", Send{Rank(rank + 1), hand_over_tag, chunk});
    }
    b.order("recv", "math");
  }

  /// Ranges of the rows of all samples.
  std::vector<Slice> chunks() const {
    std::vector<Slice> list;
    const std::int64_t rows = edge_.shape[1];
    for (std::int64_t i = 0; i < edge_.chunks; ++i)
      list.push_back(slices_of(b, "h",
                               {Range{0, edge_.shape[0]},
                                Range{i * rows / edge_.chunks, (i + 1) * rows / edge_.chunks},
                                Range{0, edge_.shape[2]}},
                               false)
                         .front());
    return list;
  }

  const HandOver& edge_;
  bool sends_;
  std::int64_t place_;  // on its mesh
  Builder b;
};

}  // namespace

std::vector<Bundle> hand_over_job(const HandOver& edge) {
  std::vector<Mesh> meshes = {{"first", {{"r", edge.senders}}, {}},
                              {"second", {{"r", edge.receivers}}, {}}};
  for (std::int64_t rank = 0; rank < edge.senders + edge.receivers; ++rank)
    meshes[rank < edge.senders ? 0 : 1].ranks.push_back(Rank(static_cast<std::size_t>(rank)));
  std::vector<Bundle> bundles;
  for (std::int64_t rank = 0; rank < edge.senders + edge.receivers; ++rank) {
    const Program program =
        HandOverProgram(edge, Rank(static_cast<std::size_t>(rank)), meshes).make();
    bundles.push_back({{program}, program.persistent_bytes, program.transient_bytes});
  }
  return bundles;
}

}  // namespace fourfold::program
