#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

/// True if no earlier instruction writes what this one writes: without it, nobody does.
bool writes_first(const Program& program, std::size_t at) {
  const BufferId written = accesses(program.instructions[at]).back().slice.buffer;
  for (std::size_t i = 0; i < at; ++i)
    for (const Access& access : accesses(program.instructions[i]))
      if (access.role != op::Role::read && access.slice.buffer == written) return false;
  return true;
}

template <class Suits>
std::optional<Site> pick_reduce(Job& job, std::mt19937& random, Suits&& suits) {
  return pick(job, random, [&](const Program& program, std::size_t at) {
    const auto* reduce = std::get_if<AllReduce>(&program.instructions[at].what);
    return reduce != nullptr && !reduce->data.empty() && is_shared(program, at) &&
           suits(program, *reduce, program.buffer(reduce->data[0].buffer));
  });
}
bool any_reduce(const Program&, const AllReduce&, const Buffer&) {
  return true;
}

/// True if two groups of a mesh have no axis in common.
bool is_across(const Group& a, const Group& b) {
  return a.mesh == b.mesh && std::ranges::find_first_of(a.axes, b.axes) == a.axes.end();
}

/// A group of the same mesh along other axes with more than one rank.
std::optional<GroupId> other_group(const Program& program, GroupId group) {
  for (std::size_t i = 0; i < program.groups.size(); ++i)
    if (program.groups[i].members.size() > 1 &&
        is_across(program.groups[i], program.groups[group.index()]))
      return GroupId(i);
  return std::nullopt;
}

/// The next collective of the same group.
std::optional<std::size_t> next_of_group(const Program& program, std::size_t at) {
  const auto group = group_of(program.instructions[at]);
  for (std::size_t i = at + 1; i < program.instructions.size(); ++i)
    if (group_of(program.instructions[i]) == group) return i;
  return std::nullopt;
}

/// The next collective of more than one rank, ordered after this one; nothing where both are along
/// a common axis.
std::optional<std::size_t> next_of_other_group(const Program& program, std::size_t at) {
  for (std::size_t i = at + 1; i < program.instructions.size(); ++i) {
    if (!is_shared(program, i)) continue;
    const GroupId group = *group_of(program.instructions[i]);
    const bool other = is_across(program.groups[group.index()],
                                 program.groups[group_of(program.instructions[at])->index()]);
    return other && is_ordered(program, at, i) ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

/// The last instruction before an all-reduce that adds to a gradient in it.
std::optional<std::size_t> last_addition(const Program& program, std::size_t at) {
  const auto* reduce = std::get_if<AllReduce>(&program.instructions[at].what);
  for (std::size_t i = at; reduce != nullptr && i-- > 0;)
    for (const Slice& slice : reduce->data)
      if (program.buffer(slice.buffer).role == BufferRole::gradient &&
          touches(program.instructions[i], slice.buffer, true))
        return i;
  return std::nullopt;
}

/// The last update before a gather of what it gathers.
std::optional<std::size_t> last_update(const Program& program, std::size_t at) {
  const auto* gather = std::get_if<AllGather>(&program.instructions[at].what);
  for (std::size_t i = at; gather != nullptr && i-- > 0;) {
    const auto* compute = std::get_if<Compute>(&program.instructions[i].what);
    if (compute == nullptr || !is_update(compute->op)) continue;
    for (const Slice& slice : gather->from)
      if (touches(program.instructions[i], slice.buffer, true)) return i;
  }
  return std::nullopt;
}

/// What its stream waits for stays where it is.
void move_earlier(Program& program, std::size_t from, std::size_t to) {
  const Instruction moved = program.instructions[from];
  erase_instruction(program, from);
  insert_instruction(program, to, moved);
}

/// The rank at the other end of a diagonal of two groups: the next coordinate on all axes of both.
std::optional<Rank> corner_across(const Program& program, const Group& a, const Group& b) {
  const Mesh& mesh = program.meshes[a.mesh.index()];
  auto corner = mesh.coordinates_of(program.rank).value();
  for (const Group* group : {&a, &b})
    for (const AxisId axis : group->axes)
      corner[axis.index()] = (corner[axis.index()] + 1) % mesh.axes[axis.index()].size;
  for (std::size_t i = 0; i < mesh.ranks.size(); ++i)
    if (mesh.coordinates(i) == corner) return mesh.ranks[i];
  return std::nullopt;
}

/// Ranks at both ends of a diagonal of two axes: each waits for another corner, in a circle.
std::optional<Seeded> cross_orders(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [&](const Program& program, std::size_t at) {
    return is_shared(program, at) && next_of_other_group(program, at);
  });
  if (!site) return std::nullopt;
  const Program& program = program_at(job, *site);
  const std::size_t other = *next_of_other_group(program, site->instruction);
  const Group& a = program.groups[group_of(program.instructions[site->instruction])->index()];
  const Group& b = program.groups[group_of(program.instructions[other])->index()];
  Seeded result = seeded(job, *site, false);
  if (const auto corner = corner_across(program, a, b))
    swap_whats(job, {corner->index(), site->program, site->instruction}, other);
  swap_whats(job, *site, other);
  return result;
}

/// The task of an instruction, as its number.
std::size_t number_of_task(const Program& program, std::size_t at) {
  std::size_t task = 0;
  while (task + 1 < program.tasks.size() && program.tasks[task].end <= at) ++task;
  return task;
}

/// What has to be issued before instruction `at` for instruction `later`, of another stream, to
/// come before it too: the waits before it and itself, where these may; nothing where they may not.
std::vector<std::size_t> issued_with(const Program& program, std::size_t at, std::size_t later) {
  const StreamId stream = program.instructions[later].stream;
  std::vector<std::size_t> moved;
  if (stream == program.instructions[at].stream) return moved;
  for (std::size_t i = at + 1; i < later; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.stream != stream) continue;
    const auto* wait = std::get_if<Wait>(&instruction.what);
    if (wait == nullptr) return {};
    for (std::size_t k = at; k < i; ++k)
      if (const auto* record = std::get_if<Record>(&program.instructions[k].what);
          record != nullptr && record->event == wait->event)
        return {};
    moved.push_back(i);
  }
  moved.push_back(later);
  return moved;
}

/// The next collective of another group that could as well be launched before this one: streams and
/// events leave that open. `suits(group, other)`.
template <class Suits>
std::optional<std::size_t> next_launch(const Program& program, std::size_t at, Suits&& suits) {
  for (std::size_t i = at + 1; i < program.instructions.size(); ++i) {
    if (number_of_task(program, i) != number_of_task(program, at)) break;
    if (!is_shared(program, i)) continue;
    const Group& a = program.groups[group_of(program.instructions[at])->index()];
    const Group& b = program.groups[group_of(program.instructions[i])->index()];
    if (suits(a, b) && !issued_with(program, at, i).empty()) return i;
  }
  return std::nullopt;
}

/// Issues the later one of two collectives first; what streams and events order stays as it is.
void launch_before(Program& program, std::size_t at, std::size_t later) {
  for (const std::size_t from : issued_with(program, at, later)) move_earlier(program, from, at++);
}

/// The same as cross_orders, where streams and events leave the order open.
std::optional<Seeded> cross_launches(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [](const Program& program, std::size_t at) {
    return is_shared(program, at) && next_launch(program, at, is_across);
  });
  if (!site) return std::nullopt;
  const Program& program = program_at(job, *site);
  const std::size_t other = *next_launch(program, site->instruction, is_across);
  const auto corner = corner_across(
      program, program.groups[group_of(program.instructions[site->instruction])->index()],
      program.groups[group_of(program.instructions[other])->index()]);
  Seeded result = seeded(job, *site, false);
  for (const std::size_t rank : {site->rank, corner.value().index()})
    launch_before(job[rank].programs[site->program], site->instruction, other);
  return result;
}

/// Two groups of this rank that are not one and have another rank in common.
bool share_ranks(const Group& a, const Group& b) {
  std::size_t common = 0;
  for (const Rank rank : a.members) common += b.members.has(rank) ? 1U : 0U;
  return common > 1 && a.name != b.name;
}

std::optional<Seeded> swap_launches(Job& job, std::mt19937& random) {
  const auto site = pick(job, random, [](const Program& program, std::size_t at) {
    return is_shared(program, at) && next_launch(program, at, share_ranks);
  });
  return on_one(job, site, [&](const Site& at) {
    Program& program = program_at(job, at);
    launch_before(program, at.instruction, *next_launch(program, at.instruction, share_ranks));
  });
}

void add_collectives(std::vector<Mutation>& list) {
  list.push_back({"launches of two groups swapped on one rank", {"launch"}, true, swap_launches});
  list.push_back({"launches of two groups in crossed orders", {"launch"}, true, cross_launches});
  list.push_back(
      {"a collective dropped on one rank", {"matching"}, true, [](Job& job, std::mt19937& random) {
         return on_one(job, pick_shared(job, random),
                       [&](const Site& site) { erase_at(job, site); });
       }});
  list.push_back({"a collective dropped on one rank, as a deadlock",
                  {"deadlock"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_shared(job, random),
                                  [&](const Site& site) { erase_at(job, site); });
                  }});
  list.push_back({"a collective dropped on all ranks",
                  {"state", "update-once", "defined"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      return is_shared(program, at) &&
                             (std::holds_alternative<AllReduce>(program.instructions[at].what) ||
                              writes_first(program, at));
                    });
                    return on_all(job, site, [&](const Site& each) { erase_at(job, each); });
                  }});
  list.push_back(
      {"a collective doubled on one rank", {"matching"}, true, [](Job& job, std::mt19937& random) {
         return on_one(job, pick_shared(job, random),
                       [&](const Site& site) { double_at(job, site); });
       }});
  list.push_back(
      {"a reduction doubled on all ranks", {"state"}, true, [](Job& job, std::mt19937& random) {
         return on_all(job, pick_reduce(job, random, any_reduce),
                       [&](const Site& site) { double_at(job, site); });
       }});
  list.push_back({"two collectives of a group swapped on one rank",
                  {"class", "matching"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto differ = [](const Program& program, std::size_t at) {
                      const auto next = next_of_group(program, at);
                      return is_shared(program, at) && next &&
                             !(program.instructions[at].what == program.instructions[*next].what);
                    };
                    return on_one(job, pick(job, random, differ), [&](const Site& site) {
                      swap_whats(job, site,
                                 *next_of_group(program_at(job, site), site.instruction));
                    });
                  }});
  list.push_back({"collectives of two groups in crossed orders", {"deadlock"}, true, cross_orders});
}

void add_reductions(std::vector<Mutation>& list) {
  const auto drop = [](auto suits) {
    return [suits](Job& job, std::mt19937& random) {
      return on_all(job, pick_reduce(job, random, suits),
                    [&](const Site& site) { erase_at(job, site); });
    };
  };
  list.push_back({"the reduction of a bias or gain gradient missing",
                  {"state", "update-once"},
                  true,
                  drop([](const Program&, const AllReduce&, const Buffer& buffer) {
                    return buffer.role == BufferRole::gradient && buffer.global.rank() == 1;
                  })});
  list.push_back({"the reduction of a weight gradient missing",
                  {"state", "update-once"},
                  true,
                  drop([](const Program&, const AllReduce&, const Buffer& buffer) {
                    return buffer.role == BufferRole::gradient && buffer.global.rank() > 1;
                  })});
  list.push_back({"the reduction of a norm missing",
                  {"state"},
                  true,
                  drop([](const Program&, const AllReduce&, const Buffer& buffer) {
                    return buffer.role == BufferRole::activation && buffer.dtype == DType::f64 &&
                           buffer.global.rank() == 0;
                  })});
  list.push_back({"the reduction of a count of what is not finite missing",
                  {"state"},
                  true,
                  drop([](const Program&, const AllReduce&, const Buffer& buffer) {
                    return buffer.role == BufferRole::activation && buffer.dtype == DType::i64 &&
                           buffer.global.rank() == 0;
                  })});
  list.push_back({"the reduction of a result missing",
                  {"state"},
                  false,
                  drop([](const Program&, const AllReduce&, const Buffer& buffer) {
                    return buffer.role == BufferRole::result_block;
                  })});
  list.push_back({"a reduction along another axis",
                  {"state", "update-once", "groups"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_reduce(
                        job, random,
                        [](const Program& program, const AllReduce& what, const Buffer&) {
                          return other_group(program, what.group).has_value();
                        });
                    return on_all(job, site, [&](const Site& each) {
                      auto& what = kind_at<AllReduce>(job, each);
                      what.group = *other_group(program_at(job, each), what.group);
                    });
                  }});
  list.push_back({"a reduction over an axis on which nothing is partial",
                  {"state", "update-once"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_reduce(
                        job, random,
                        [](const Program& program, const AllReduce& what, const Buffer& buffer) {
                          return buffer.role == BufferRole::activation &&
                                 other_group(program, what.group).has_value();
                        });
                    return on_all(job, site, [&](const Site& each) {
                      Instruction more = instruction_at(job, each);
                      auto& what = std::get<AllReduce>(more.what);
                      what.group = *other_group(program_at(job, each), what.group);
                      insert_instruction(program_at(job, each), each.instruction + 1, more);
                    });
                  }});
  list.push_back({"another reduction than the sum or maximum",
                  {"state"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick_reduce(job, random, any_reduce), [&](const Site& site) {
                      auto& what = kind_at<AllReduce>(job, site);
                      what.reduction = what.reduction == op::Reduction::sum ? op::Reduction::max
                                                                            : op::Reduction::sum;
                    });
                  }});
  list.push_back(
      {"a reduction of part of the bytes on one rank",
       {"matching"},
       true,
       [](Job& job, std::mt19937& random) {
         const auto site = pick_reduce(
             job, random, [](const Program&, const AllReduce& what, const Buffer& buffer) {
               return what.data[0].rows == 1 && what.data[0].row_bytes > size_bytes(buffer.dtype) &&
                      buffer.role != BufferRole::result_block;
             });
         return on_one(job, site, [&](const Site& at) {
           auto& data = kind_at<AllReduce>(job, at).data[0];
           data.row_bytes -= size_bytes(program_at(job, at).buffer(data.buffer).dtype);
         });
       }});
  list.push_back(
      {"a group of one rank's own choice", {"matching"}, true, [](Job& job, std::mt19937& random) {
         const auto site = pick_reduce(
             job, random, [](const Program& program, const AllReduce& what, const Buffer&) {
               return other_group(program, what.group).has_value();
             });
         return on_one(job, site, [&](const Site& at) {
           auto& what = kind_at<AllReduce>(job, at);
           what.group = *other_group(program_at(job, at), what.group);
         });
       }});
  list.push_back({"another dtype of what is reduced on one rank",
                  {"class", "matching"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_reduce(
                        job, random, [](const Program&, const AllReduce&, const Buffer& buffer) {
                          return buffer.dtype == DType::f32;
                        });
                    return on_one(job, site, [&](const Site& at) {
                      Program& program = program_at(job, at);
                      program.buffers[kind_at<AllReduce>(job, at).data[0].buffer.index()].dtype =
                          DType::i32;
                    });
                  }});
}

/// An all-reduce of several tensors, outside of the fields of the result block.
std::optional<Site> pick_list(Job& job, std::mt19937& random) {
  return pick_reduce(job, random, [](const Program&, const AllReduce& what, const Buffer&) {
    return what.data.size() > 1;
  });
}

void add_lists(std::vector<Mutation>& list) {
  list.push_back({"a tensor left out of a collective of several on all ranks",
                  {"state", "update-once"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const std::size_t which = random();
                    return on_all(job, pick_list(job, random), [&](const Site& each) {
                      Slices& data = kind_at<AllReduce>(job, each).data;
                      if (data.empty()) return;  // by another fault
                      data.erase(data.begin() + static_cast<std::ptrdiff_t>(which % data.size()));
                    });
                  }});
  list.push_back({"a tensor left out of a collective of several on one rank",
                  {"class", "matching"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_list(job, random), [&](const Site& site) {
                      kind_at<AllReduce>(job, site).data.pop_back();
                    });
                  }});
  list.push_back({"two tensors of a collective exchanged on one rank",
                  {"class", "matching"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_one(job, pick_list(job, random), [&](const Site& site) {
                      Slices& data = kind_at<AllReduce>(job, site).data;
                      std::swap(data.front(), data.back());
                    });
                  }});
  list.push_back({"a tensor twice in a collective of several",
                  {"alias"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick_list(job, random), [&](const Site& each) {
                      Slices& data = kind_at<AllReduce>(job, each).data;
                      if (!data.empty()) data.push_back(data.front());
                    });
                  }});
  list.push_back({"a sum of gradients begun before its last gradient is complete",
                  {"race", "order", "sum", "state", "update-once"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      const auto* reduce = std::get_if<AllReduce>(&program.instructions[at].what);
                      return reduce != nullptr && is_shared(program, at) &&
                             last_addition(program, at).has_value();
                    });
                    return on_all(job, site, [&](const Site& each) {
                      Program& program = program_at(job, each);
                      const auto to = last_addition(program, each.instruction);
                      if (to) move_earlier(program, each.instruction, *to);
                    });
                  }});
  list.push_back({"a gather moved before the update of what it gathers",
                  {"race", "order", "state", "update-once"},
                  false,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick(job, random, [](const Program& program, std::size_t at) {
                      return std::holds_alternative<AllGather>(program.instructions[at].what) &&
                             is_shared(program, at) && last_update(program, at).has_value();
                    });
                    return on_all(job, site, [&](const Site& each) {
                      Program& program = program_at(job, each);
                      const auto to = last_update(program, each.instruction);
                      if (to) move_earlier(program, each.instruction, *to);
                    });
                  }});
  list.push_back(
      {"a collective of no tensor", {"bounds"}, true, [](Job& job, std::mt19937& random) {
         return on_all(job, pick_reduce(job, random, any_reduce),
                       [&](const Site& each) { kind_at<AllReduce>(job, each).data.clear(); });
       }});
  list.push_back({"more tensors gathered than there is room for",
                  {"bounds"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto any = [](const Program&, const AllGather&) { return true; };
                    return on_all(job, pick_kind<AllGather>(job, random, any),
                                  [&](const Site& each) {
                                    auto& what = kind_at<AllGather>(job, each);
                                    what.from.push_back(what.from.front());
                                  });
                  }});
  list.push_back({"tensors of two element types in one collective",
                  {"groups"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const auto last_tensor = [&](const Site& site) -> Buffer& {
                      const BufferId id = kind_at<AllReduce>(job, site).data.back().buffer;
                      return program_at(job, site).buffers[id.index()];
                    };
                    const auto site = pick_list(job, random);
                    // No other type has two bytes.
                    if (!site || last_tensor(*site).dtype == DType::bf16) return std::nullopt;
                    return on_all(job, site, [&](const Site& each) {
                      if (kind_at<AllReduce>(job, each).data.empty()) return;
                      Buffer& buffer = last_tensor(each);
                      buffer.dtype = buffer.dtype == DType::f32 ? DType::i32 : DType::i64;
                    });
                  }});
  list.push_back({"two weights of a collective gathered from each other's rows",
                  {"groups", "part", "state", "alias"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_kind<AllGather>(
                        job, random, [](const Program&, const AllGather& what) {
                          return what.from.size() > 1 && what.from[0].buffer == what.to[0].buffer;
                        });
                    return on_all(job, site, [&](const Site& each) {
                      Slices& rows = kind_at<AllGather>(job, each).from;
                      std::swap(rows.front(), rows.back());
                    });
                  }});
}

}  // namespace

void add_exchange_mutations(std::vector<Mutation>& list) {
  add_collectives(list);
  add_reductions(list);
  add_lists(list);
}

}  // namespace fourfold::verify
