#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

std::int64_t element_bytes(const Program& program, const Slice& slice) {
  return size_bytes(program.buffer(slice.buffer).dtype);
}
/// True if a message carries part of a tensor.
bool is_part(const Program& program, const Slice& slice) {
  const BufferRole role = program.buffer(slice.buffer).role;
  return role != BufferRole::step_block && role != BufferRole::result_block &&
         slice != program.whole(slice.buffer);
}
std::optional<Site> pick_part(Job& job, std::mt19937& random,
                              const std::function<bool(const Program&, const Slice&)>& suits) {
  return pick_kind<Send>(job, random, [&](const Program& program, const Send& send) {
    return is_part(program, send.from) && suits(program, send.from);
  });
}

std::optional<Seeded> box_elsewhere(Job& job, std::mt19937& random) {
  const auto site = pick_part(job, random, [](const Program& program, const Slice& box) {
    return box.end_bytes() - box.offset_bytes < program.buffer(box.buffer).size_bytes;
  });
  return on_one(job, site, [&](const Site& at) {
    const Program& program = program_at(job, at);
    Slice& box = kind_at<Send>(job, at).from;
    const std::int64_t element = element_bytes(program, box);
    const bool has_room = box.end_bytes() + element <= program.buffer(box.buffer).size_bytes;
    box.offset_bytes += has_room ? element : -element;
  });
}

std::optional<Seeded> shorter_box(Job& job, std::mt19937& random) {
  const auto site = pick_part(job, random, [](const Program& program, const Slice& box) {
    return box.row_bytes > element_bytes(program, box);
  });
  return on_one(job, site, [&](const Site& at) {
    Slice& box = kind_at<Send>(job, at).from;
    box.row_bytes -= element_bytes(program_at(job, at), box);
  });
}

std::optional<Seeded> other_pitch(Job& job, std::mt19937& random) {
  const auto site = pick_part(job, random, [](const Program& program, const Slice& box) {
    return box.rows > 1 && box.end_bytes() + (box.rows - 1) * element_bytes(program, box) <=
                               program.buffer(box.buffer).size_bytes;
  });
  return on_one(job, site, [&](const Site& at) {
    Slice& box = kind_at<Send>(job, at).from;
    box.pitch_bytes += element_bytes(program_at(job, at), box);
  });
}

/// The send that meets a recv, as messages of one tag are counted.
std::optional<Site> send_of(Job& job, const Site& site) {
  const Program& program = program_at(job, site);
  const Recv& recv = kind_at<Recv>(job, site);
  std::size_t before = 0;
  for (std::size_t i = 0; i < site.instruction; ++i)
    if (const auto* other = std::get_if<Recv>(&program.instructions[i].what))
      before += other->peer == recv.peer && other->tag == recv.tag ? 1 : 0;
  if (recv.peer.index() >= job.size() || site.program >= job[recv.peer.index()].programs.size())
    return std::nullopt;
  const Program& theirs = job[recv.peer.index()].programs[site.program];
  for (std::size_t i = 0; i < theirs.instructions.size(); ++i) {
    const auto* send = std::get_if<Send>(&theirs.instructions[i].what);
    if (send == nullptr || send->peer != program.rank || send->tag != recv.tag) continue;
    if (before-- == 0) return Site{recv.peer.index(), site.program, i};
  }
  return std::nullopt;
}

std::optional<Seeded> left_out(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [](const Program& program, std::size_t at) {
    const auto* recv = std::get_if<Recv>(&program.instructions[at].what);
    if (recv == nullptr) return false;
    for (std::size_t i = at + 1; i < program.instructions.size(); ++i)
      if (touches(program.instructions[i], recv->to.buffer, false)) return true;
    return false;
  });
  const auto send = site ? send_of(job, *site) : std::nullopt;
  if (!send) return std::nullopt;
  Seeded result = seeded(job, *site, false);
  erase_at(job, *site);
  erase_at(job, *send);
  return result;
}

/// The task of an instruction.
const Task* task_at(const Program& program, std::size_t at) {
  for (const Task& task : program.tasks)
    if (task.begin <= at && at < task.end) return &task;
  return nullptr;
}

/// A box that comes once more after others of its value have come: these are then of another one.
std::optional<Seeded> twice_on_both(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [](const Program& program, std::size_t at) {
    const auto* recv = std::get_if<Recv>(&program.instructions[at].what);
    const Task* task = task_at(program, at);
    if (recv == nullptr || task == nullptr || !is_part(program, recv->to)) return false;
    for (std::size_t i = task->begin; i < at; ++i)
      if (const auto* other = std::get_if<Recv>(&program.instructions[i].what);
          other != nullptr && other->tag == recv->tag && other->to.buffer == recv->to.buffer)
        return true;
    return false;
  });
  const auto send = site ? send_of(job, *site) : std::nullopt;
  if (!send) return std::nullopt;
  Seeded result = seeded(job, *site, false);
  double_at(job, *site);
  double_at(job, *send);
  return result;
}

std::optional<Seeded> swapped_boxes(Job& job, std::mt19937& random) {
  const auto next = [](const Program& program, std::size_t at) -> std::optional<std::size_t> {
    const auto* send = std::get_if<Send>(&program.instructions[at].what);
    for (std::size_t i = at + 1; send != nullptr && i < program.instructions.size(); ++i)
      if (const auto* other = std::get_if<Send>(&program.instructions[i].what);
          other != nullptr && other->peer == send->peer && other->tag == send->tag)
        return other->from != send->from ? std::optional(i) : std::nullopt;
    return std::nullopt;
  };
  const auto site = pick(job, random, [&](const Program& program, std::size_t at) {
    return next(program, at).has_value();
  });
  return on_one(job, site, [&](const Site& at) {
    const std::size_t other = *next(program_at(job, at), at.instruction);
    std::swap(kind_at<Send>(job, at).from, kind_at<Send>(job, {at.rank, at.program, other}).from);
  });
}

/// A buffer that could be sent in place of another one.
std::optional<BufferId> look_alike(const Program& program, BufferId id) {
  const Buffer& buffer = program.buffer(id);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& other = program.buffers[i];
    if (BufferId(i) != id && other.global == buffer.global && other.dtype == buffer.dtype &&
        other.sharding == buffer.sharding && other.role == buffer.role)
      return BufferId(i);
  }
  return std::nullopt;
}

/// In one micro-batch, so that the others tell.
std::optional<Seeded> other_buffer(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [](const Program& program, std::size_t at) {
    const auto* send = std::get_if<Send>(&program.instructions[at].what);
    const Task* task = task_at(program, at);
    return send != nullptr && task != nullptr && task->micro && program.feeds.micros > 1 &&
           look_alike(program, send->from.buffer).has_value();
  });
  return on_one(job, site, [&](const Site& at) {
    Slice& box = kind_at<Send>(job, at).from;
    box.buffer = *look_alike(program_at(job, at), box.buffer);
  });
}

}  // namespace

void add_box_mutations(std::vector<Mutation>& list) {
  list.push_back({"a box elsewhere", {"matching", "layout"}, true, box_elsewhere});
  list.push_back({"a shorter box", {"matching", "layout"}, true, shorter_box});
  list.push_back({"a box of another pitch", {"matching", "layout"}, true, other_pitch});
  list.push_back(
      {"a message left out on both sides", {"defined", "sum", "matching"}, true, left_out});
  list.push_back({"a message twice on both sides", {"sum"}, true, twice_on_both});
  list.push_back({"two boxes in swapped order", {"matching"}, true, swapped_boxes});
  list.push_back({"a box of another buffer", {"matching", "defined", "race"}, true, other_buffer});
  list.push_back(
      {"a recv without a send", {"matching", "deadlock"}, true, [](Job& job, std::mt19937& random) {
         const auto site =
             pick_kind<Recv>(job, random, [](const Program&, const Recv&) { return true; });
         return on_one(job, site, [&](const Site& at) { double_at(job, at); });
       }});
}

}  // namespace fourfold::verify
