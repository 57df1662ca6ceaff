#include "simulate/tracks.h"

#include <algorithm>
#include <variant>

#include "op/table.h"

namespace fourfold::simulate {
namespace {

class TrackMaker {
 public:
  TrackMaker(const machine::Cluster& cluster, const program::Program& program)
      : cluster_(cluster), program_(program) {}

  Track make(const program::Stops& stops) {
    const std::size_t count = program_.instructions.size();
    track_.streams.resize(program_.streams.size());
    track_.amounts.resize(count);
    track_.exchanges.resize(count);
    if (std::ranges::count_if(program_.streams, program::computes) > 1)
      track_.launch_s = cluster_.device.instruction_s;
    std::vector<std::size_t> next(stops.streams.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      const program::Instruction& instruction = program_.instructions[i];
      const std::size_t stream = instruction.stream.index();
      Item item{Item::Kind::move, static_cast<std::uint32_t>(i), 0};
      const std::vector<program::Stop>& list = stops.streams[stream];
      if (next[stream] < list.size() && list[next[stream]].instruction == i)
        set_stop(item, list[next[stream]++]);
      std::visit([&](const auto& what) { set(item, what); }, instruction.what);
      track_.streams[stream].push_back(item);
    }
    return std::move(track_);
  }

 private:
  static void set_stop(Item& item, const program::Stop& stop) {
    item.id = stop.id;
    switch (stop.kind) {
      case program::Stop::Kind::collective:
        item.kind = Item::Kind::collective;
        break;
      case program::Stop::Kind::send:
        item.kind = Item::Kind::send;
        break;
      case program::Stop::Kind::recv:
        item.kind = Item::Kind::recv;
        break;
      case program::Stop::Kind::record:
        item.kind = Item::Kind::record;
        break;
      case program::Stop::Kind::wait:
        item.kind = Item::Kind::wait;
        break;
    }
  }

  void set(Item& item, const program::Compute& compute) {
    item.kind = Item::Kind::compute;
    track_.amounts[item.instruction] = compute_s(cluster_, program_, compute);
    track_.flops += op::flops(compute.op, program_.operand_shapes(compute));
  }
  template <program::AnyCollective Kind>
  void set(Item& item, const Kind& what) {
    double payload_bytes = 0, moved_bytes = 0;
    program::for_each_tensor(what, [&](const program::Slice& from, const program::Slice& to) {
      const DType dtype = program_.buffer(from.buffer).dtype;
      payload_bytes += cluster_.widened(static_cast<double>(size_bytes(dtype))) *
                       static_cast<double>(std::max(from.bytes(), to.bytes()));
      if (!(from == to)) moved_bytes += static_cast<double>(from.bytes() + to.bytes());
    });
    track_.exchanges[item.instruction] = what.kind;
    track_.amounts[item.instruction] = payload_bytes;
    if (program_.groups[what.group.index()].members.size() > 1) return;
    item.kind = Item::Kind::move;
    set_moved(item, moved_bytes);
  }
  void set(Item& item, const program::Send& send) { set_message(item, send.from); }
  void set(Item& item, const program::Recv& recv) { set_message(item, recv.to); }
  void set(Item& item, const program::Copy& copy) { set_moved(item, twice(copy.from)); }
  void set(Item& item, const program::Pack& pack) { set_moved(item, twice(pack.from)); }
  void set(Item& item, const program::Unpack& unpack) { set_moved(item, twice(unpack.to)); }
  void set(Item& item, const program::Feed& feed) {
    set_moved(item, static_cast<double>(feed.to.bytes()));
  }
  void set(Item& /*item*/, const program::Record& /*record*/) {}
  void set(Item& /*item*/, const program::Wait& /*wait*/) {}

  static double twice(const program::Slice& slice) {
    return 2 * static_cast<double>(slice.bytes());
  }
  void set_moved(const Item& item, double bytes) {
    track_.amounts[item.instruction] =
        machine::memory_s(cluster_.device, bytes) + cluster_.device.instruction_s;
  }
  void set_message(const Item& item, const program::Slice& slice) {
    track_.amounts[item.instruction] = static_cast<double>(slice.bytes());
  }

  const machine::Cluster& cluster_;
  const program::Program& program_;
  Track track_;
};

}  // namespace

double compute_s(const machine::Cluster& cluster, const program::Program& program,
                 const program::Compute& compute) {
  const std::vector<Shape> shapes = program.operand_shapes(compute);
  if (op::is_counted_in_flops(op::work_class(compute.op)))
    machine::required_rate(cluster, compute.dtype);
  return cluster.device.instruction_s +
         machine::kernel_s(cluster.device, op::name(compute.op), compute.dtype,
                           op::flops(compute.op, shapes),
                           op::traffic_bytes(compute.op, shapes, compute.dtype));
}

Track make_track(const machine::Cluster& cluster, const program::Program& program,
                 const program::Stops& stops) {
  return TrackMaker(cluster, program).make(stops);
}

}  // namespace fourfold::simulate
