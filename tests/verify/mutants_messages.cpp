// Mutants of messages.
#include <algorithm>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

/// What both kinds of messages have.
struct Message {
  Rank* peer;
  std::int64_t* tag;
  Slice* slice;
};

std::optional<Message> message_of(Instruction& instruction) {
  if (auto* send = std::get_if<Send>(&instruction.what))
    return Message{&send->peer, &send->tag, &send->from};
  if (auto* recv = std::get_if<Recv>(&instruction.what))
    return Message{&recv->peer, &recv->tag, &recv->to};
  return std::nullopt;
}

bool is_message(const Program& program, std::size_t at) {
  const What& what = program.instructions[at].what;
  return std::holds_alternative<Send>(what) || std::holds_alternative<Recv>(what);
}

/// Other messages of that direction whose slices have as many bytes.
std::vector<std::size_t> messages_like(const Program& program, std::size_t at) {
  const What& what = program.instructions[at].what;
  const std::int64_t bytes = touched(program.instructions[at])[0].slice.bytes();
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (i != at && is_message(program, i) && program.instructions[i].what.index() == what.index() &&
        touched(program.instructions[i])[0].slice.bytes() == bytes)
      others.push_back(i);
  return others;
}

/// Exchanges with another message what `exchange(one, other)` says.
template <class Exchange>
MutantKind exchanging(std::string name, Exchange exchange) {
  return {
      std::move(name),
      [exchange](const Program& program, std::size_t at, Draws& random) -> std::optional<Change> {
        if (!is_message(program, at)) return std::nullopt;
        const std::vector<std::size_t> others = messages_like(program, at);
        if (others.empty()) return std::nullopt;
        return [exchange, other = landmark_of(program, pick_of(others, random))](const Spot& spot) {
          const auto there = spot.find_other(other);
          if (!there || *there == spot.at) return false;
          const auto one = message_of(spot.instruction()),
                     second = message_of(spot.program.instructions[*there]);
          if (!one || !second) return false;
          exchange(*one, *second);
          return true;
        };
      }};
}

std::optional<Change> erase_message(const Program& program, std::size_t at, Draws&) {
  if (!is_message(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

std::optional<Change> other_peer(const Program& program, std::size_t at, Draws& random) {
  if (!is_message(program, at) || program.world < 3) return std::nullopt;
  return [peer = random() % static_cast<std::uint64_t>(program.world)](const Spot& spot) {
    const auto message = message_of(spot.instruction());
    if (!message || *message->peer == Rank(peer) || spot.program.rank == Rank(peer)) return false;
    *message->peer = Rank(peer);
    return true;
  };
}

std::optional<Change> other_tag(const Program& program, std::size_t at, Draws& random) {
  if (!is_message(program, at)) return std::nullopt;
  return [by = 1 + static_cast<std::int64_t>(random() % 3)](const Spot& spot) {
    const auto message = message_of(spot.instruction());
    if (!message) return false;
    *message->tag += by;
    return true;
  };
}

std::optional<Change> other_value(const Program& program, std::size_t at, Draws& random) {
  if (!is_message(program, at)) return std::nullopt;
  const Slice old = touched(program.instructions[at])[0].slice;
  const std::vector<Slice> others = others_like(program, at, old);
  if (others.empty()) return std::nullopt;
  return replaced(0, named(program, pick_of(others, random)));
}

/// What was received is not used: who reads the value reads what the first term of its sum is.
std::optional<Change> unused(const Program& program, std::size_t at, Draws&) {
  const auto* recv = std::get_if<Recv>(&program.instructions[at].what);
  if (recv == nullptr) return std::nullopt;
  const BufferId received = recv->to.buffer;
  for (std::size_t i = at + 1; i < program.instructions.size(); ++i) {
    const auto* sum = std::get_if<Compute>(&program.instructions[i].what);
    if (sum == nullptr || !op::is_sum_of_two(sum->op)) continue;
    for (const std::size_t term : {0U, 1U}) {
      if (sum->slices[term].buffer != received) continue;
      return [term, there = landmark_of(program, i)](const Spot& spot) {
        const auto at_sum = spot.find_other(there);
        if (!at_sum) return false;
        auto& add = std::get<Compute>(spot.program.instructions[*at_sum].what);
        const Copy copy{add.slices[1 - term], add.slices[2]};
        if (copy.from == copy.to)
          erase_instruction(spot.program, *at_sum);
        else
          spot.program.instructions[*at_sum].what = copy;
        return true;
      };
    }
  }
  return std::nullopt;
}

}  // namespace

void add_message_mutants(std::vector<MutantKind>& list) {
  list.push_back(exchanging(
      "tags of two messages exchanged",
      [](const Message& one, const Message& other) { std::swap(*one.tag, *other.tag); }));
  list.push_back(exchanging(
      "tensors of two messages exchanged",
      [](const Message& one, const Message& other) { std::swap(*one.slice, *other.slice); }));
  list.push_back(exchanging("two messages exchanged", [](const Message& one, const Message& other) {
    std::swap(*one.slice, *other.slice);
    std::swap(*one.tag, *other.tag);
    std::swap(*one.peer, *other.peer);
  }));
  list.push_back({"a message left out", erase_message});
  list.push_back({"a message to or from another rank", other_peer});
  list.push_back({"a message of another tag", other_tag});
  list.push_back({"a message of another value", other_value});
  list.push_back({"a received term of a sum left out", unused});
}

}  // namespace fourfold::verify
