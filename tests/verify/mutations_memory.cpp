#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

/// An instruction that reads whole what an earlier one on another stream wrote, ordered by this
/// wait alone.
bool is_needed(const Program& program, std::size_t at) {
  if (!std::holds_alternative<Wait>(program.instructions[at].what)) return false;
  const StreamId stream = program.instructions[at].stream;
  std::size_t next = at + 1;
  while (next < program.instructions.size() &&
         (program.instructions[next].stream != stream ||
          std::holds_alternative<Wait>(program.instructions[next].what) ||
          std::holds_alternative<Record>(program.instructions[next].what)))
    ++next;
  if (next == program.instructions.size()) return false;
  for (const Access& access : accesses(program.instructions[next])) {
    if (access.role == op::Role::write) continue;
    for (std::size_t i = at; i-- > 0;)
      if (touches(program.instructions[i], access.slice.buffer, true)) {
        const auto written = accesses(program.instructions[i]).back().slice;
        if (written == access.slice && is_ordered(program, i, next) &&
            !is_ordered(program, i, next, at))
          return true;
        break;
      }
  }
  return false;
}

/// An instruction that overwrites what the last one before the awaited record has read, ordered by
/// this wait alone: computation that goes on while a stream beside it still reads.
bool keeps_memory(const Program& program, std::size_t at) {
  const auto* wait = std::get_if<Wait>(&program.instructions[at].what);
  if (wait == nullptr) return false;
  const auto next_of = [&](std::size_t i, StreamId stream) {
    while (i < program.instructions.size() && program.instructions[i].stream != stream) ++i;
    return i;
  };
  const std::size_t next = next_of(at + 1, program.instructions[at].stream);
  const program::What record = Record{wait->event};
  std::size_t last = 0;
  while (last < program.instructions.size() && program.instructions[last].what != record) ++last;
  if (last == program.instructions.size()) return false;  // another fault has taken it away
  const StreamId other = program.instructions[last].stream;
  while (last > 0 && program.instructions[--last].stream != other) {
  }
  if (next == program.instructions.size() || program.instructions[last].stream != other)
    return false;
  const auto begins = [&](const Slice& slice) {
    return program.buffer(slice.buffer).offset_bytes + slice.offset_bytes;
  };
  for (const Access& write : accesses(program.instructions[next]))
    for (const Access& read : accesses(program.instructions[last])) {
      const Buffer &over = program.buffer(write.slice.buffer),
                   &under = program.buffer(read.slice.buffer);
      if (write.role != op::Role::read && read.role == op::Role::read &&
          over.region == Region::transient && under.region == Region::transient &&
          begins(write.slice) < begins(read.slice) + read.slice.bytes() &&
          begins(read.slice) < begins(write.slice) + write.slice.bytes())
        return is_ordered(program, last, next) && !is_ordered(program, last, next, at);
    }
  return false;
}

/// A buffer that is written between the write and the read of another one, and fits in its place.
std::optional<std::pair<BufferId, BufferId>> overlapping(const Program& program, std::size_t at) {
  const auto list = accesses(program.instructions[at]);
  for (const Access& access : list) {
    const Buffer& buffer = program.buffer(access.slice.buffer);
    if (access.role != op::Role::read || buffer.region != Region::transient) continue;
    std::size_t written = at;
    while (written > 0 && !touches(program.instructions[written], access.slice.buffer, true))
      --written;
    for (std::size_t i = written + 1; i < at; ++i)
      for (const Access& other : accesses(program.instructions[i])) {
        const Buffer& over = program.buffer(other.slice.buffer);
        if (other.role == op::Role::write && over.region == Region::transient &&
            other.slice.buffer != access.slice.buffer && over.offset_bytes != buffer.offset_bytes &&
            buffer.offset_bytes + over.space_bytes() <= program.transient_bytes)
          return std::pair(access.slice.buffer, other.slice.buffer);
      }
  }
  return std::nullopt;
}

void add_order(std::vector<Mutation>& list) {
  list.push_back({"a wait dropped", {"race", "order"}, true, [](Job& job, std::mt19937& random) {
                    return on_all(job, pick(job, random, is_needed), [&](const Site& each) {
                      erase_instruction(program_at(job, each), each.instruction);
                    });
                  }});
  list.push_back({"a wait for memory dropped", {"race"}, true, [](Job& job, std::mt19937& random) {
                    return on_all(job, pick(job, random, keeps_memory), [&](const Site& each) {
                      erase_instruction(program_at(job, each), each.instruction);
                    });
                  }});
  list.push_back({"a record dropped", {"events"}, true, [](Job& job, std::mt19937& random) {
                    const auto site = pick_kind<Record>(
                        job, random, [](const Program&, const Record&) { return true; });
                    return on_all(job, site, [&](const Site& each) {
                      erase_instruction(program_at(job, each), each.instruction);
                    });
                  }});
  list.push_back(
      {"a buffer freed too early", {"defined", "race"}, true, [](Job& job, std::mt19937& random) {
         const auto site = pick(job, random, [](const Program& program, std::size_t at) {
           return overlapping(program, at).has_value();
         });
         return on_all(job, site, [&](const Site& each) {
           Program& program = program_at(job, each);
           const auto [kept, over] = *overlapping(program, each.instruction);
           program.buffers[over.index()].offset_bytes = program.buffer(kept).offset_bytes;
         });
       }});
  list.push_back({"an accumulation that overwrites",
                  {"lost", "defined"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      const auto* what = std::get_if<Compute>(&program.instructions[at].what);
                      return what != nullptr && op::can_accumulate(what->op) &&
                             op::operands(what->op).back().role == op::Role::update &&
                             program.buffer(what->slices.back().buffer).role ==
                                 BufferRole::gradient;
                    });
                    return on_all(job, site, [&](const Site& each) {
                      auto& op = kind_at<Compute>(job, each).op;
                      op = op::with_accumulate(op, false);
                    });
                  }});
  list.push_back({"an accumulation of what nobody wrote",
                  {"defined"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      const auto* what = std::get_if<Compute>(&program.instructions[at].what);
                      if (what == nullptr || !op::can_accumulate(what->op) ||
                          op::operands(what->op).back().role != op::Role::write)
                        return false;
                      const BufferId to = what->slices.back().buffer;
                      for (std::size_t i = 0; i < at; ++i)
                        if (touches(program.instructions[i], to, true)) return false;
                      return program.buffer(to).role == BufferRole::gradient;
                    });
                    return on_all(job, site, [&](const Site& each) {
                      auto& op = kind_at<Compute>(job, each).op;
                      op = op::with_accumulate(op, true);
                    });
                  }});
}

/// Operands of tensor number `index` alone in a list of updates: its gradient, and what is updated.
std::vector<std::size_t> own_operands(const op::AdamWList& all, std::int64_t index) {
  const std::vector<std::size_t> operands = all.operands_of(index);
  std::vector<std::size_t> own = {operands[0], operands[5], operands[6], operands[7]};
  if (all.rounds) own.push_back(operands[8]);
  return own;
}

/// Takes tensor number `index` out of a list of updates.
void drop_tensor(Compute& compute, std::int64_t index) {
  auto& all = compute.op.get<op::AdamWList>();
  const std::vector<std::size_t> own = own_operands(all, index);
  for (auto operand = own.rbegin(); operand != own.rend(); ++operand)
    compute.slices.erase(compute.slices.begin() + static_cast<std::ptrdiff_t>(*operand));
  if (index < all.decayed) --all.decayed;
  --all.tensors;
}

/// Lets tensor number `index` of a list of updates be another one once more.
void repeat_tensor(Compute& compute, std::int64_t index, std::int64_t other) {
  const auto& all = compute.op.get<op::AdamWList>();
  const std::vector<std::size_t> to = own_operands(all, index), from = own_operands(all, other);
  for (std::size_t i = 0; i < to.size(); ++i) compute.slices[to[i]] = compute.slices[from[i]];
}

/// True if a list of updates has that tensor: other faults may have left another list there.
bool has_tensor(Job& job, const Site& site, std::int64_t index) {
  return index < kind_at<Compute>(job, site).op.get<op::AdamWList>().tensors;
}

void add_lists_of_updates(std::vector<Mutation>& list) {
  const auto pick_list = [](Job& job, std::mt19937& random) {
    return pick_op<op::AdamWList>(job, random, [](const Program&, const Compute&, const auto& all) {
      return all.tensors > 1;
    });
  };
  const auto index_of = [](Job& job, const Site& site, std::mt19937& random) {
    const auto& all = kind_at<Compute>(job, site).op.get<op::AdamWList>();
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(all.tensors));
  };
  list.push_back({"a tensor left out of an update of many",
                  {"update-once"},
                  false,
                  [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_list(job, random);
                    if (!site) return std::nullopt;
                    const std::int64_t index = index_of(job, *site, random);
                    return on_all(job, site, [&](const Site& each) {
                      if (has_tensor(job, each, index))
                        drop_tensor(kind_at<Compute>(job, each), index);
                    });
                  }});
  list.push_back({"a tensor twice in an update of many",
                  {"update-once", "alias"},
                  true,
                  [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_list(job, random);
                    if (!site) return std::nullopt;
                    const std::int64_t index = index_of(job, *site, random);
                    return on_all(job, site, [&](const Site& each) {
                      if (!has_tensor(job, each, index)) return;
                      const auto& all = kind_at<Compute>(job, each).op.get<op::AdamWList>();
                      repeat_tensor(kind_at<Compute>(job, each), index, (index + 1) % all.tensors);
                    });
                  }});
  list.push_back({"the gradient of another tensor in an update of many",
                  {"operands", "state"},
                  true,
                  [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = pick_list(job, random);
                    if (!site) return std::nullopt;
                    auto& compute = kind_at<Compute>(job, *site);
                    const Program& program = program_at(job, *site);
                    const auto& all = compute.op.get<op::AdamWList>();
                    const auto shape_of = [&](std::int64_t i) {
                      return program.local_shape(compute.slices[all.operands_of(i)[0]].buffer);
                    };
                    const std::int64_t index = index_of(job, *site, random);
                    std::int64_t other = 0;
                    while (other < all.tensors && shape_of(other) == shape_of(index)) ++other;
                    if (other == all.tensors) return std::nullopt;
                    return on_all(job, site, [&](const Site& each) {
                      if (!has_tensor(job, each, std::max(index, other))) return;
                      auto& slices = kind_at<Compute>(job, each).slices;
                      slices[all.operands_of(index)[0]] = slices[all.operands_of(other)[0]];
                    });
                  }});
}

void add_updates(std::vector<Mutation>& list) {
  const auto adamw = [](Job& job, std::mt19937& random) {
    return pick_kind<Compute>(
        job, random, [](const Program&, const Compute& compute) { return is_update(compute.op); });
  };
  list.push_back(
      {"an update done twice", {"update-once"}, true, [adamw](Job& job, std::mt19937& random) {
         return on_all(job, adamw(job, random), [&](const Site& each) {
           const Instruction again = instruction_at(job, each);
           insert_instruction(program_at(job, each), each.instruction + 1, again);
         });
       }});
  list.push_back(
      {"an update missing", {"update-once"}, false, [adamw](Job& job, std::mt19937& random) {
         return on_all(job, adamw(job, random), [&](const Site& each) {
           erase_instruction(program_at(job, each), each.instruction);
         });
       }});
  list.push_back({"an update missing on one rank",
                  {"update-once", "class"},
                  false,
                  [adamw](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto site = adamw(job, random);
                    if (!site) return std::nullopt;
                    const Seeded result = seeded(job, *site, true);
                    erase_instruction(program_at(job, *site), site->instruction);
                    return result;
                  }});
  list.push_back(
      {"updates not counted", {"update-once"}, false, [](Job& job, std::mt19937& random) {
         const auto site =
             pick_op<op::CountUpdate>(job, random, [](const auto&...) { return true; });
         return on_all(job, site, [&](const Site& each) {
           erase_instruction(program_at(job, each), each.instruction);
         });
       }});
  list.push_back({"what is not finite not counted",
                  {"update-once"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_op<op::CountNonFinite>(
                        job, random, [](const auto&...) { return true; });
                    return on_all(job, site, [&](const Site& each) {
                      erase_instruction(program_at(job, each), each.instruction);
                    });
                  }});
  list.push_back({"an update that forgets what the updates before it found",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto adds = [](const Program&, const Compute&, const op::AdamW& row) {
                      return row.accumulate;
                    };
                    return on_all(job, pick_op<op::AdamW>(job, random, adds),
                                  [&](const Site& each) {
                                    auto& op = kind_at<Compute>(job, each).op;
                                    op = op::with_accumulate(op, false);
                                  });
                  }});
  list.push_back({"a vote on the number of updates",
                  {"update-once"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto any = [](const auto&...) { return true; };
                    return on_all(job, pick_op<op::Vote>(job, random, any), [&](const Site& each) {
                      const Program& program = program_at(job, each);
                      const auto operand =
                          op::operand_of(kind_at<Compute>(job, each).op, op::State::non_finite);
                      kind_at<Compute>(job, each).slices[*operand] =
                          program.whole(*program.find_buffer("updates"));
                    });
                  }});
  list.push_back(
      {"a micro-batch not fed", {"feeds", "defined"}, false, [](Job& job, std::mt19937& random) {
         const auto site =
             pick_kind<Feed>(job, random, [](const Program&, const Feed&) { return true; });
         return on_all(job, site, [&](const Site& each) {
           erase_instruction(program_at(job, each), each.instruction);
         });
       }});
  list.push_back({"a micro-batch fed twice", {"feeds"}, true, [](Job& job, std::mt19937& random) {
                    const auto site =
                        pick_kind<Feed>(job, random, [](const Program& program, const Feed&) {
                          return program.feeds.micros > 1;
                        });
                    return on_all(job, site, [&](const Site& each) {
                      auto& feed = kind_at<Feed>(job, each);
                      feed.micro = feed.micro == 0 ? 1 : 0;
                    });
                  }});
}

/// Changes the frame of one rank's program, first instruction or none.
Mutation frame(std::string kind, std::vector<std::string> rules,
               std::function<bool(Job&, Bundle&, std::mt19937&)> change) {
  return {std::move(kind), std::move(rules), false,
          [change](Job& job, std::mt19937& random) -> std::optional<Seeded> {
            const std::size_t rank = random() % job.size();
            if (!change(job, job[rank], random)) return std::nullopt;
            return Seeded{rank, true, 0, format("rank {}", rank)};
          }};
}

void add_frames(std::vector<Mutation>& list) {
  list.push_back(frame("another world", {"bundle"}, [](Job&, Bundle& bundle, std::mt19937&) {
    ++bundle.programs.back().world;
    return true;
  }));
  list.push_back(
      frame("another rank's bundle", {"bundle"}, [](Job& job, Bundle& bundle, std::mt19937&) {
        if (job.size() < 2) return false;
        const Bundle& other = &bundle == &job[0] ? job[1] : job[0];
        bundle = other;
        return true;
      }));
  list.push_back(
      frame("programs in another order", {"bundle"}, [](Job& job, Bundle& bundle, std::mt19937&) {
        if (job.size() < 2 || bundle.programs.size() < 2) return false;
        std::swap(bundle.programs.front(), bundle.programs.back());
        return true;
      }));
  list.push_back(frame("a mesh of another order", {"bundle", "groups"},
                       [](Job& job, Bundle& bundle, std::mt19937&) {
                         if (job.size() < 2 || bundle.programs[0].meshes[0].ranks.size() < 2)
                           return false;
                         for (Program& program : bundle.programs) {
                           const Ranks before = program.meshes[0].ranks;
                           Ranks swapped{before[1], before[0]};
                           for (std::size_t i = 2; i < before.size(); ++i)
                             swapped.push_back(before[i]);
                           program.meshes[0].ranks = swapped;
                         }
                         return true;
                       }));
  list.push_back(frame("a parameter at another address", {"class", "bundle"},
                       [](Job& job, Bundle& bundle, std::mt19937&) {
                         // Alone on its meshes, a rank may have its own addresses.
                         const Site own{bundle.programs[0].rank.index(), 0, 0};
                         if (siblings(job, own).size() < 2) return false;
                         for (Program& program : bundle.programs) {
                           program.persistent_bytes += 64;
                           for (Buffer& buffer : program.buffers)
                             if (buffer.region == Region::persistent) buffer.offset_bytes += 64;
                         }
                         bundle.persistent_bytes += 64;
                         return true;
                       }));
}

}  // namespace

void add_memory_mutations(std::vector<Mutation>& list) {
  add_order(list);
  add_lists_of_updates(list);
  add_updates(list);
  add_frames(list);
}

}  // namespace fourfold::verify
