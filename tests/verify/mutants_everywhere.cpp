// Mutants that change one thing wherever a program has it, on all ranks alike: a message at both of
// its ends, a tensor in the place of another one.
#include <algorithm>
#include <set>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

std::optional<std::int64_t> tag_of(const Instruction& instruction) {
  if (const auto* send = std::get_if<Send>(&instruction.what)) return send->tag;
  if (const auto* recv = std::get_if<Recv>(&instruction.what)) return recv->tag;
  return std::nullopt;
}

/// Erases the instructions that `drops`; true if there are any.
template <class Drops>
bool erase_all(Program& program, Drops&& drops) {
  bool is_made = false;
  for (std::size_t i = program.instructions.size(); i-- > 0;)
    if (drops(program.instructions[i])) {
      erase_instruction(program, i);
      is_made = true;
    }
  return is_made;
}

std::optional<Change> drop_message(const Program& program, std::size_t at, Draws&) {
  const auto tag = tag_of(program.instructions[at]);
  if (!tag) return std::nullopt;
  return [tag = *tag](const Spot& spot) {
    return erase_all(spot.program,
                     [&](const Instruction& instruction) { return tag_of(instruction) == tag; });
  };
}

/// Nobody sends or receives a value, and sums that have it as a term are copies of the other one.
std::optional<Change> drop_received_term(const Program& program, std::size_t at, Draws&) {
  const auto* recv = std::get_if<Recv>(&program.instructions[at].what);
  if (recv == nullptr) return std::nullopt;
  const auto has_it = [](const Instruction& instruction, BufferId received) {
    const auto* sum = std::get_if<Compute>(&instruction.what);
    return sum != nullptr && op::is_sum_of_two(sum->op) &&
           (sum->slices[0].buffer == received || sum->slices[1].buffer == received);
  };
  if (std::ranges::none_of(program.instructions, [&](const Instruction& instruction) {
        return has_it(instruction, recv->to.buffer);
      }))
    return std::nullopt;
  return [tag = recv->tag, has_it](const Spot& spot) {
    std::set<BufferId> received;
    for (const Instruction& instruction : spot.program.instructions)
      if (const auto* other = std::get_if<Recv>(&instruction.what);
          other != nullptr && other->tag == tag)
        received.insert(other->to.buffer);
    for (std::size_t i = spot.program.instructions.size(); i-- > 0;) {
      Instruction& instruction = spot.program.instructions[i];
      for (const BufferId buffer : received) {
        if (!has_it(instruction, buffer)) continue;
        const auto& slices = std::get<Compute>(instruction.what).slices;
        const Copy copy{slices[slices[0].buffer == buffer ? 1 : 0], slices[2]};
        if (copy.from == copy.to)
          erase_instruction(spot.program, i);
        else
          instruction.what = copy;
        break;
      }
    }
    return erase_all(spot.program,
                     [&](const Instruction& instruction) { return tag_of(instruction) == tag; });
  };
}

/// All messages of two tags bring each other's values.
std::optional<Change> exchange_values(const Program& program, std::size_t at, Draws& random) {
  const auto* send = std::get_if<Send>(&program.instructions[at].what);
  if (send == nullptr) return std::nullopt;
  std::set<std::int64_t> tags;
  for (const Instruction& instruction : program.instructions)
    if (const auto* other = std::get_if<Send>(&instruction.what);
        other != nullptr && other->tag != send->tag && are_alike(program, other->from, send->from))
      tags.insert(other->tag);
  if (tags.empty()) return std::nullopt;
  const std::vector<std::int64_t> others(tags.begin(), tags.end());
  return [one = send->tag, other = pick_of(others, random)](const Spot& spot) {
    bool is_made = false;
    for (Instruction& instruction : spot.program.instructions)
      if (auto* message = std::get_if<Send>(&instruction.what);
          message != nullptr && (message->tag == one || message->tag == other)) {
        message->tag = message->tag == one ? other : one;
        is_made = true;
      }
    return is_made;
  };
}

/// Another buffer of that role and shape as one that the instruction touches; both names.
std::optional<std::pair<std::string, std::string>> two_alike(const Program& program, std::size_t at,
                                                             Draws& random,
                                                             std::initializer_list<BufferRole> of) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Access& access : touched(program.instructions[at])) {
    const Buffer& one = program.buffer(access.slice.buffer);
    if (std::ranges::find(of, one.role) == of.end()) continue;
    for (std::size_t i = 0; i < program.buffers.size(); ++i)
      if (BufferId(i) != access.slice.buffer && program.buffers[i].role == one.role &&
          are_alike(program, program.whole(BufferId(i)), program.whole(access.slice.buffer)))
        pairs.emplace_back(one.name, program.buffers[i].name);
  }
  if (pairs.empty()) return std::nullopt;
  return pick_of(pairs, random);
}

/// Who reads one tensor reads the other one.
std::optional<Change> read_other(const Program& program, std::size_t at, Draws& random) {
  const auto pair = two_alike(
      program, at, random,
      {BufferRole::parameter, BufferRole::average, BufferRole::rounded, BufferRole::gradient});
  if (!pair) return std::nullopt;
  return [pair = *pair](const Spot& spot) {
    const auto one = spot.program.find_buffer(pair.first),
               other = spot.program.find_buffer(pair.second);
    if (!one || !other) return false;
    bool is_made = false;
    for (Instruction& instruction : spot.program.instructions) {
      const std::vector<Access> list = touched(instruction);
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].role == op::Role::read && list[i].slice.buffer == *one) {
          touched_slice(instruction, i)->buffer = *other;
          is_made = true;
        }
    }
    return is_made;
  };
}

/// Two gradients change places in the backward pass, in all micro-batches: each weight learns from
/// the other's.
std::optional<Change> exchange_gradients(const Program& program, std::size_t at, Draws& random) {
  const auto pair = two_alike(program, at, random, {BufferRole::gradient});
  if (!pair) return std::nullopt;
  return [pair = *pair](const Spot& spot) {
    const auto one = spot.program.find_buffer(pair.first),
               other = spot.program.find_buffer(pair.second);
    if (!one || !other) return false;
    bool is_made = false;
    for (const Task& task : spot.program.tasks)
      for (std::size_t i = task.begin; i < task.end && task.micro; ++i)
        for_each_slice(spot.program.instructions[i], [&](Slice& slice) {
          if (slice.buffer != *one && slice.buffer != *other) return;
          slice.buffer = slice.buffer == *one ? *other : *one;
          is_made = true;
        });
    return is_made;
  };
}

/// Two tensors of state have each other's place in all instructions.
std::optional<Change> exchange_tensors_everywhere(const Program& program, std::size_t at,
                                                  Draws& random) {
  const auto pair = two_alike(
      program, at, random,
      {BufferRole::parameter, BufferRole::moment, BufferRole::average, BufferRole::rounded});
  if (!pair) return std::nullopt;
  return [pair = *pair](const Spot& spot) {
    const auto one = spot.program.find_buffer(pair.first),
               other = spot.program.find_buffer(pair.second);
    if (!one || !other) return false;
    for (Instruction& instruction : spot.program.instructions)
      for_each_slice(instruction, [&](Slice& slice) {
        if (slice.buffer == *one || slice.buffer == *other)
          slice.buffer = slice.buffer == *one ? *other : *one;
      });
    return true;
  };
}

/// Two inputs have each other's name: all that is fed as the one is fed as the other.
std::optional<Change> exchange_inputs(const Program& program, std::size_t at, Draws&) {
  const auto* feed = std::get_if<Feed>(&program.instructions[at].what);
  if (feed == nullptr) return std::nullopt;
  const Input& own = program.inputs[feed->input.index()];
  for (const Input& other : program.inputs)
    if (other.name != own.name && other.dtype == own.dtype &&
        other.sample_shape == own.sample_shape)
      return [one = own.name, second = other.name](const Spot& spot) {
        bool is_made = false;
        for (Input& input : spot.program.inputs)
          if (input.name == one || input.name == second) {
            input.name = input.name == one ? second : one;
            is_made = true;
          }
        return is_made;
      };
  return std::nullopt;
}

}  // namespace

void add_everywhere_mutants(std::vector<MutantKind>& list) {
  list.push_back(everywhere("a message left out at both ends", drop_message));
  list.push_back(everywhere("a term that nobody sends or adds", drop_received_term));
  list.push_back(everywhere("values of two tags exchanged on all ranks", exchange_values));
  list.push_back(everywhere("another weight or gradient read everywhere", read_other));
  list.push_back(everywhere("two gradients exchanged in the backward pass", exchange_gradients));
  list.push_back(
      everywhere("two tensors of state exchanged everywhere", exchange_tensors_everywhere));
  list.push_back(everywhere("two inputs exchanged everywhere", exchange_inputs));
}

}  // namespace fourfold::verify
