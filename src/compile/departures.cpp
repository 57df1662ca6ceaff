// Why a step of a pipeline comes to its end.
//
// Take a step as blocks: the tasks of each mesh, without what they send and receive, and the
// messages, each with all that the ranks of both meshes do for it. A rank may have to wait where a
// later instruction of its list touches bytes that an earlier one touches, or stands after it on
// one stream. So a block waits for others only in these ways:
//
//   1. A task waits for the task before it on its mesh, and for the messages that it reads; it does
//   not
//      wait for the messages of later tasks, whatever is gathered ahead (gather_ahead.h).
//   2. A message waits for the task that makes it (`sender`), for the tasks before its receipt on
//      the mesh that receives (`before`), and for the messages before it between the same two
//      meshes, which have one order on both sides (receipts.h).
//   3. A task waits for messages that its mesh has sent earlier, whose memory it may use again:
//      those that stand so far before it in the list that they are not kept any more (liveness.h:
//      `tasks_to_send` tasks). So does a message that is received before such a task. Weights lie
//      in memory that nobody else uses.
//   4. Where messages may not run beside computation, a task waits for all that was sent before it,
//      a message for the task after which it stands, and for all that is received before it.
//
// Ways 1 and 2 alone close no circle. A message comes before its reader, and after a task of the
// same micro-batch that the reader depends on; the tasks before its receipt come before the reader
// on the same mesh; and the messages before it depend on earlier tasks of these two meshes alone.
// So where the tasks have an order at all (pipeline/dependencies.h; plan_stages sees to it), tasks
// and messages have one.
//
// Ways 3 and 4 may close one: the first stage waits in forward tasks until a far one has taken what
// skips the stages between them, and that one waits until the first has come to a backward task.
// But they depend on where a send stands in the list of its mesh. A later place changes nothing
// about when a value is made or may be taken; its memory is kept until then. So all blocks are
// carried out here in an order in which each comes after those that it waits for. Where none can
// go on, some block waits in way 3 or 4 alone, and the sends that it waits for move to a place
// from which it does not. It then goes on, so this ends, with one order of all blocks of the job
// in which nothing waits for what comes later. Whoever follows his list can wait for earlier
// blocks only: the first block in that order that has not ended can go on.
//
// The update is the last task, and no message of a micro-batch waits for it. What it exchanges
// leaves and arrives in the order of the graph of the whole model, on each mesh alike.
#include "compile/departures.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "op/table.h"

namespace fourfold::compile {
namespace {

class Walk {
 public:
  explicit Walk(const plan::Plan& plan)
      : plan_(plan),
        orders_(mesh_orders(plan, op::ProgramKind::train)),
        is_beside_(plan.overlap.send_recv),
        meshes_(plan.meshes.size()),
        channel_of_(meshes_.size() * meshes_.size(), none) {
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh) {
      const pipeline::Order& tasks = orders_[mesh].tasks();
      const bool has_update = !tasks.empty() && tasks.back().kind == pipeline::TaskKind::update;
      meshes_[mesh].tasks = tasks.size() - (has_update ? 1 : 0);
      meshes_[mesh].awaited.resize(tasks.size(), 0);
    }
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh) add_messages(mesh);
  }

  void run() {
    do
      while (go_on()) {
      }
    while (send_later());
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      require(meshes_[mesh].done == meshes_[mesh].tasks, [&] {
        return format("the tasks of a pipeline come to their end; mesh {} has carried out {} of {}",
                      mesh, meshes_[mesh].done, meshes_[mesh].tasks);
      });
  }

  template <class Visit>
  void for_each_message(Visit&& visit) const {
    for (const Channel& channel : channels_)
      for (const Message& message : channel.messages) visit(message);
  }

  struct Message {
    Arrival arrival;
    std::size_t place = 0;    // of the task after which it stands
    std::size_t receipt = 0;  // its number among those of its receiver
  };

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// All messages from one mesh to another, in their order.
  struct Channel {
    std::size_t from = 0, to = 0;
    std::vector<Message> messages;
    std::size_t next = 0;

    const Message* first() const { return next < messages.size() ? &messages[next] : nullptr; }
  };
  struct MeshWalk {
    std::size_t tasks = 0, done = 0;   // but the update
    std::vector<std::size_t> awaited;  // by task, the messages that it reads and that are not there
    std::size_t receipts = 0;          // that are there
    std::vector<std::size_t> out;      // channels
  };

  void add_messages(std::size_t mesh) {
    std::size_t receipt = 0;
    for (const Arrival& arrival :
         arrivals_on(MeshId(mesh), plan_, op::ProgramKind::train, orders_)) {
      if (plan_.edges[arrival.edge].phase == graph::Phase::update) continue;
      std::size_t& channel = channel_of_[arrival.from * meshes_.size() + mesh];
      if (channel == none) {
        channel = channels_.size();
        channels_.push_back({arrival.from, mesh, {}, 0});
        meshes_[arrival.from].out.push_back(channel);
      }
      channels_[channel].messages.push_back({arrival, arrival.sender, receipt++});
      ++meshes_[mesh].awaited[arrival.reader];
    }
  }

  /// Carries out what can be; false if nothing could.
  bool go_on() {
    bool any = false;
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      while (may_compute(mesh) && !is_held(mesh, meshes_[mesh].done, kept_from_tasks())) {
        ++meshes_[mesh].done;
        any = true;
      }
    for (Channel& channel : channels_)
      while (may_pass(channel) &&
             !is_held(channel.to, channel.first()->arrival.before, tasks_to_send)) {
        MeshWalk& receiver = meshes_[channel.to];
        --receiver.awaited[channel.first()->arrival.reader];
        ++receiver.receipts;
        ++channel.next;
        any = true;
      }
    return any;
  }

  /// How many tasks longer than its place a message does not keep its mesh from computing.
  std::size_t kept_from_tasks() const { return is_beside_ ? tasks_to_send : 0; }

  /// Ways 1 and 2 of the beginning of this file.
  bool may_compute(std::size_t mesh) const {
    const MeshWalk& its = meshes_[mesh];
    return its.done < its.tasks && its.awaited[its.done] == 0;
  }
  bool may_pass(const Channel& channel) const {
    const Message* message = channel.first();
    if (message == nullptr) return false;
    const std::size_t made = is_beside_ ? message->arrival.sender : message->place;
    const MeshWalk& receiver = meshes_[channel.to];
    return meshes_[channel.from].done > made && receiver.done >= message->arrival.before &&
           (is_beside_ || receiver.receipts == message->receipt);
  }

  /// Ways 3 and 4: something that the mesh has sent keeps it from what stands before a task.
  /// Weights lie in memory of their own.
  bool is_held(std::size_t mesh, std::size_t task, std::size_t kept) const {
    return std::ranges::any_of(meshes_[mesh].out, [&](std::size_t channel) {
      const Channel& its = channels_[channel];
      std::size_t i = its.next;
      while (kept > 0 && i < its.messages.size() &&
             plan_.edges[its.messages[i].arrival.edge].goes_once_a_step)
        ++i;
      return i < its.messages.size() && its.messages[i].place + kept < task;
    });
  }

  /// Lets what waits for sends of its own mesh alone go on: the one for which least has to be kept
  /// longer. False if nothing waits so.
  bool send_later() {
    struct Choice {
      std::size_t mesh = 0, place = 0;
    };
    std::optional<Choice> best;
    double least = 0;
    const auto consider = [&](std::size_t mesh, std::size_t task, std::size_t kept) {
      const std::size_t place = task - kept;
      const double bytes = bytes_kept_until(mesh, place);
      if (best && bytes >= least) return;
      best = Choice{mesh, place};
      least = bytes;
    };
    for (std::size_t mesh = 0; mesh < meshes_.size(); ++mesh)
      if (may_compute(mesh)) consider(mesh, meshes_[mesh].done, kept_from_tasks());
    for (const Channel& channel : channels_)
      if (may_pass(channel)) consider(channel.to, channel.first()->arrival.before, tasks_to_send);
    if (best)
      for (const std::size_t channel : meshes_[best->mesh].out)
        for_each_kept_until(channels_[channel], best->place,
                            [&](Message& message) { message.place = best->place; });
    return best.has_value();
  }

  /// The messages of a channel that have to stand later for its order, where the first one has to.
  template <class Visit>
  static void for_each_kept_until(Channel& channel, std::size_t place, Visit&& visit) {
    for (std::size_t i = channel.next;
         i < channel.messages.size() && channel.messages[i].place < place; ++i)
      visit(channel.messages[i]);
  }

  /// What it costs that all that the mesh sends stands at this place or later: bytes, times tasks.
  double bytes_kept_until(std::size_t mesh, std::size_t place) {
    double bytes = 0;
    for (const std::size_t channel : meshes_[mesh].out)
      for_each_kept_until(channels_[channel], place, [&](const Message& message) {
        const plan::Edge& edge = plan_.edges[message.arrival.edge];
        bytes += static_cast<double>(edge.shape.elements()) *
                 static_cast<double>(size_bytes(op::element_dtype(edge.element, plan_.compute))) *
                 static_cast<double>(place - message.place);
      });
    return bytes;
  }

  const plan::Plan& plan_;
  std::vector<MeshOrder> orders_;
  bool is_beside_;  // computation
  std::vector<MeshWalk> meshes_;
  std::vector<Channel> channels_;
  std::vector<std::size_t> channel_of_;  // by sender and receiver
};

}  // namespace

Departures::Departures(const plan::Plan& plan) : places_(plan.edges.size()) {
  if (plan.edges.empty()) return;
  Walk walk(plan);
  walk.run();
  walk.for_each_message([&](const Walk::Message& message) {
    const auto micro = static_cast<std::size_t>(message.arrival.micro);
    std::vector<std::size_t>& places = places_[message.arrival.edge];
    places.resize(std::max(places.size(), micro + 1));
    places[micro] = message.place;
    if (message.place > message.arrival.sender) ++late_;
  });
}

}  // namespace fourfold::compile
