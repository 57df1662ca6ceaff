// Mutants of order and of memory: waits, records, streams, addresses, what programs say of buffers.
#include <algorithm>
#include <array>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

std::optional<Change> erase_wait(const Program& program, std::size_t at, Draws&) {
  if (!std::holds_alternative<Wait>(program.instructions[at].what)) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

std::optional<Change> other_event(const Program& program, std::size_t at, Draws& random) {
  if (!std::holds_alternative<Wait>(program.instructions[at].what) || program.num_events < 2)
    return std::nullopt;
  return [back = random() % 2 == 0](const Spot& spot) {
    auto* wait = spot.kind<Wait>();
    if (wait == nullptr) return false;
    const std::size_t event = wait->event.index();
    if (back ? event == 0 : event + 1 >= spot.program.num_events) return false;
    wait->event = EventId(back ? event - 1 : event + 1);
    return true;
  };
}

/// A record some instructions earlier, or a wait some later: it says less than it did.
std::optional<Change> move_mark(const Program& program, std::size_t at, Draws& random) {
  const bool is_record = std::holds_alternative<Record>(program.instructions[at].what);
  if (!is_record && !std::holds_alternative<Wait>(program.instructions[at].what))
    return std::nullopt;
  return [is_record, by = 1 + random() % 8](const Spot& spot) {
    const Task& task = spot.program.tasks[task_of(spot.program, spot.at)];
    const Instruction moved = spot.instruction();
    if (is_record ? spot.at < task.begin + by : spot.at + by >= task.end) return false;
    const std::size_t to = is_record ? spot.at - by : spot.at + by;
    erase_instruction(spot.program, spot.at);
    insert_instruction(spot.program, to, moved);
    return true;
  };
}

std::optional<Change> other_stream(const Program& program, std::size_t, Draws& random) {
  if (program.streams.size() < 2) return std::nullopt;
  return [stream = pick_of(program.streams, random)](const Spot& spot) {
    const auto found = std::ranges::find(spot.program.streams, stream);
    if (found == spot.program.streams.end()) return false;
    const StreamId id(static_cast<std::size_t>(found - spot.program.streams.begin()));
    if (id == spot.instruction().stream) return false;
    spot.instruction().stream = id;
    return true;
  };
}

/// A buffer that the instruction touches and that `suits`; its name.
template <class Suits>
std::optional<std::string> buffer_at(const Program& program, std::size_t at, Draws& random,
                                     Suits&& suits) {
  std::vector<std::string> names;
  for (const Access& access : touched(program.instructions[at])) {
    const Buffer& buffer = program.buffer(access.slice.buffer);
    if (suits(buffer)) names.push_back(buffer.name);
  }
  if (names.empty()) return std::nullopt;
  return pick_of(names, random);
}

/// A change of the buffer of a name; change(program, buffer).
template <class Function>
Change changing_buffer(std::string buffer, Function function) {
  return [buffer = std::move(buffer), function = std::move(function)](const Spot& spot) {
    const auto id = spot.find_buffer(buffer);
    return id && function(spot.program, spot.program.buffers[id->index()]);
  };
}

std::optional<Change> flip_parity(const Program& program, std::size_t at, Draws& random) {
  const auto buffer = buffer_at(program, at, random, [](const Buffer& one) {
    return one.two_by_parity || one.region == Region::transient;
  });
  if (!buffer) return std::nullopt;
  return changing_buffer(*buffer, [](Program&, Buffer& one) {
    one.two_by_parity = !one.two_by_parity;
    return true;
  });
}

/// Another buffer of that region and size; its name.
std::optional<std::string> like_in_memory(const Program& program, const std::string& buffer,
                                          Draws& random) {
  const Buffer& own = program.buffer(*program.find_buffer(buffer));
  std::vector<std::string> others;
  for (const Buffer& other : program.buffers)
    if (other.name != own.name && other.region == own.region && other.dtype == own.dtype &&
        other.space_bytes() == own.space_bytes() && other.offset_bytes != own.offset_bytes)
      others.push_back(other.name);
  if (others.empty()) return std::nullopt;
  return pick_of(others, random);
}

/// Two buffers of one size lie where the other one did, in one program.
std::optional<Change> exchange_addresses(const Program& program, std::size_t at, Draws& random,
                                         Region region) {
  const auto buffer =
      buffer_at(program, at, random, [&](const Buffer& one) { return one.region == region; });
  const auto other = buffer ? like_in_memory(program, *buffer, random) : std::nullopt;
  if (!other) return std::nullopt;
  return changing_buffer(*buffer, [other = *other](Program& there, Buffer& one) {
    const auto id = there.find_buffer(other);
    if (!id) return false;
    std::swap(one.offset_bytes, there.buffers[id->index()].offset_bytes);
    return true;
  });
}

/// A buffer lies where another one does.
std::optional<Change> share_address(const Program& program, std::size_t at, Draws& random) {
  const auto buffer = buffer_at(program, at, random,
                                [](const Buffer& one) { return one.region == Region::transient; });
  const auto other = buffer ? like_in_memory(program, *buffer, random) : std::nullopt;
  if (!other) return std::nullopt;
  return changing_buffer(*buffer, [other = *other](Program& there, Buffer& one) {
    const auto id = there.find_buffer(other);
    if (!id) return false;
    one.offset_bytes = there.buffers[id->index()].offset_bytes;
    return true;
  });
}

std::optional<Change> other_blocks(const Program& program, std::size_t at, Draws& random) {
  const auto buffer =
      buffer_at(program, at, random, [](const Buffer& one) { return one.blocked.has_value(); });
  if (!buffer) return std::nullopt;
  return changing_buffer(*buffer, [way = random() % 3](Program& there, Buffer& one) {
    if (!one.blocked) return false;
    const std::size_t dims = one.global.rank(),
                      axes = there.meshes[one.sharding.mesh.index()].axes.size();
    if (way == 0)
      one.blocked->dim = (one.blocked->dim + 1) % dims;
    else if (way == 1)
      one.blocked->axis = AxisId((one.blocked->axis.index() + 1) % axes);
    else
      one.blocked.reset();
    return true;
  });
}

/// What a buffer claims about its cuts: on another dim, or on another axis.
std::optional<Change> other_cuts(const Program& program, std::size_t at, Draws& random) {
  const auto buffer =
      buffer_at(program, at, random, [](const Buffer& one) { return !one.sharding.dims.empty(); });
  if (!buffer) return std::nullopt;
  return changing_buffer(*buffer, [of_dim = random() % 2 == 0](Program& there, Buffer& one) {
    auto& dims = one.sharding.dims;
    const std::size_t axes = there.meshes[one.sharding.mesh.index()].axes.size();
    if (of_dim) {
      std::rotate(dims.begin(), dims.begin() + 1, dims.end());
      return dims.size() > 1;
    }
    for (auto& cuts : dims)
      for (op::Cut& cut : cuts) cut.axis = AxisId((cut.axis.index() + 1) % axes);
    return axes > 1;
  });
}

/// What a buffer is for: a moment that is called a parameter, a gradient an activation.
std::optional<Change> other_role(const Program& program, std::size_t at, Draws& random) {
  const auto buffer = buffer_at(program, at, random, [](const Buffer&) { return true; });
  if (!buffer) return std::nullopt;
  constexpr std::array roles = {BufferRole::parameter, BufferRole::moment,     BufferRole::average,
                                BufferRole::counter,   BufferRole::activation, BufferRole::gradient,
                                BufferRole::output,    BufferRole::workspace};
  return changing_buffer(*buffer, [role = pick_of(roles, random)](Program&, Buffer& one) {
    one.role = role;
    return true;
  });
}

/// A task that says it is of another micro-batch, or of none.
std::optional<Change> other_micro_of_task(const Program& program, std::size_t at, Draws&) {
  if (!program.tasks[task_of(program, at)].micro) return std::nullopt;
  return [](const Spot& spot) {
    std::optional<std::int64_t>& micro = spot.program.tasks[task_of(spot.program, spot.at)].micro;
    if (!micro) return false;
    *micro = (*micro + 1) % std::max<std::int64_t>(spot.program.feeds.micros, 2);
    return true;
  };
}

}  // namespace

void add_memory_mutants(std::vector<MutantKind>& list) {
  list.push_back({"a wait left out", erase_wait});
  list.push_back({"a wait for another event", other_event});
  list.push_back({"a record earlier or a wait later", move_mark});
  list.push_back({"an instruction on another stream", other_stream});
  list.push_back({"two copies by parity, or one", flip_parity});
  list.push_back({"addresses of two transient buffers exchanged",
                  [](const Program& program, std::size_t at, Draws& random) {
                    return exchange_addresses(program, at, random, Region::transient);
                  }});
  list.push_back({"addresses of two persistent buffers exchanged",
                  [](const Program& program, std::size_t at, Draws& random) {
                    return exchange_addresses(program, at, random, Region::persistent);
                  }});
  list.push_back({"a buffer that lies where another one does", share_address});
  list.push_back({"a buffer of other blocks", other_blocks, true});
  list.push_back({"a buffer that claims other cuts", other_cuts, true});
  list.push_back({"a buffer of another role", other_role});
  list.push_back({"a task of another micro-batch", other_micro_of_task});
}

}  // namespace fourfold::verify
