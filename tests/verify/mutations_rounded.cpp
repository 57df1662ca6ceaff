#include "verify/mutation_lists.h"

namespace fourfold::verify {
namespace {

using Job = std::vector<Bundle>;

/// One weight and its copy, as operands of an instruction that writes the copy.
struct Rounding {
  std::size_t weight = 0, copy = 0;
};

bool is_copy(const Program& program, const Slice& slice) {
  return program.buffer(slice.buffer).role == BufferRole::rounded;
}

/// What an instruction rounds: an update beside the weight, a cast from it.
std::vector<Rounding> roundings(const Program& program, const Compute& compute) {
  std::vector<Rounding> found;
  for (const op::Piece& piece : op::pieces(compute.op)) {
    const bool casts = op::is_rounding(piece.op);
    const auto weight = casts ? 0 : op::operand_of(piece.op, op::State::weight);
    const auto copy = casts ? 1 : op::operand_of(piece.op, op::State::rounded);
    if (weight && copy && is_copy(program, compute.slices[piece.operands[*copy]]))
      found.push_back({piece.operands[*weight], piece.operands[*copy]});
  }
  return found;
}

std::optional<Site> pick_rounding(Job& job, std::mt19937& random, bool is_init) {
  return pick_kind<Compute>(job, random, [&](const Program& program, const Compute& compute) {
    return (program.kind == op::ProgramKind::init) == is_init &&
           !roundings(program, compute).empty();
  });
}

/// The same update without the copies.
Compute without_copies(const Program& program, Compute update) {
  std::vector<Rounding> list = roundings(program, update);
  for (auto each = list.rbegin(); each != list.rend(); ++each)
    update.slices.erase(update.slices.begin() + static_cast<std::ptrdiff_t>(each->copy));
  op::visit_row(
      [](auto& row) {
        if constexpr (requires { row.rounds; }) row.rounds = false;
      },
      update.op);
  update.dtype = accumulation_type(update.dtype);
  return update;
}

/// Another buffer of the same role that lies likewise; nothing where there is none.
std::optional<Slice> another(const Program& program, BufferId of) {
  const Buffer& buffer = program.buffer(of);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& other = program.buffers[i];
    if (BufferId(i) != of && other.role == buffer.role && other.global == buffer.global &&
        other.sharding == buffer.sharding)
      return program.whole(BufferId(i));
  }
  return std::nullopt;
}

/// Lets a random copy or weight that an instruction rounds be another one.
Mutation exchanged(std::string kind, bool is_init, std::size_t Rounding::* which) {
  return {std::move(kind),
          {"rounded"},
          true,
          [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
            const auto site = pick_rounding(job, random, is_init);
            if (!site) return std::nullopt;
            const Program& program = program_at(job, *site);
            const auto& compute = kind_at<Compute>(job, *site);
            std::vector<std::size_t> operands;
            for (const Rounding& rounding : roundings(program, compute))
              if (another(program, compute.slices[rounding.*which].buffer))
                operands.push_back(rounding.*which);
            if (operands.empty()) return std::nullopt;
            const std::size_t operand = operands[random() % operands.size()];
            const Slice other = *another(program, compute.slices[operand].buffer);
            return on_all(job, site, [&](const Site& each) {
              kind_at<Compute>(job, each).slices[operand] = other;
            });
          }};
}

void add_roundings(std::vector<Mutation>& list) {
  list.push_back(
      exchanged("the copy of another weight written by an update", false, &Rounding::copy));
  list.push_back(
      exchanged("the copy of another weight written at the start", true, &Rounding::copy));
  list.push_back(exchanged("a copy made from another weight", true, &Rounding::weight));
  list.push_back({"an update that does not round its weight",
                  {"rounded"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick_rounding(job, random, false), [&](const Site& each) {
                      auto& compute = kind_at<Compute>(job, each);
                      compute = without_copies(program_at(job, each), compute);
                    });
                  }});
  list.push_back({"an update after the one that rounds",
                  {"rounded"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick_rounding(job, random, false), [&](const Site& each) {
                      Program& program = program_at(job, each);
                      Instruction again = instruction_at(job, each);
                      again.what = without_copies(program, std::get<Compute>(again.what));
                      insert_instruction(program, each.instruction + 1, again);
                    });
                  }});
  list.push_back(
      {"a weight not rounded at the start", {"rounded"}, true, [](Job& job, std::mt19937& random) {
         return on_all(job, pick_rounding(job, random, true),
                       [&](const Site& each) { erase_at(job, each); });
       }});
}

/// Where a program writes the weight that an instruction rounds first, before it does so.
std::optional<std::size_t> maker_of(const Program& program, std::size_t at) {
  const auto* compute = std::get_if<Compute>(&program.instructions[at].what);
  const std::vector<Rounding> list =
      compute == nullptr ? std::vector<Rounding>() : roundings(program, *compute);
  for (std::size_t i = 0; !list.empty() && i < at; ++i)
    for (const Access& access : accesses(program.instructions[i]))
      if (access.role != op::Role::read &&
          access.slice.buffer == compute->slices[list[0].weight].buffer)
        return i;
  return std::nullopt;
}

/// The first update of a program that rounds; nothing where there is none.
std::optional<std::size_t> first_rounding(const Program& program) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (const auto* compute = std::get_if<Compute>(&program.instructions[i].what);
        compute != nullptr && !roundings(program, *compute).empty())
      return i;
  return std::nullopt;
}

/// True if an instruction reads a copy that the first update of the program writes. Few read any
/// copy, and only for those is the update looked for.
bool reads_copy(const Program& program, std::size_t at) {
  std::vector<BufferId> copies;
  for (const Access& access : accesses(program.instructions[at]))
    if (access.role == op::Role::read && access.slice.buffer.index() < program.buffers.size() &&
        is_copy(program, access.slice))
      copies.push_back(access.slice.buffer);
  if (program.kind == op::ProgramKind::init || copies.empty()) return false;
  const auto update = first_rounding(program);
  if (!update || at >= *update) return false;
  const auto& compute = std::get<Compute>(program.instructions[*update].what);
  const BufferId copy = compute.slices[roundings(program, compute)[0].copy].buffer;
  return std::ranges::find(copies, copy) != copies.end();
}

void add_times_of_rounding(std::vector<Mutation>& list) {
  list.push_back(
      {"a weight rounded before it is made", {"rounded"}, true, [](Job& job, std::mt19937& random) {
         const auto site = pick(job, random, [](const Program& program, std::size_t at) {
           return program.kind == op::ProgramKind::init && maker_of(program, at).has_value();
         });
         return on_all(job, site, [&](const Site& each) {
           if (const auto maker = maker_of(program_at(job, each), each.instruction))
             swap_whats(job, each, *maker);
         });
       }});
  list.push_back({"a copy read after its weight was updated alone",
                  {"rounded"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick(job, random, reads_copy), [&](const Site& each) {
                      Program& program = program_at(job, each);
                      const auto update = first_rounding(program);
                      if (!update) return;
                      Instruction alone = program.instructions[*update];
                      alone.what = without_copies(program, std::get<Compute>(alone.what));
                      insert_instruction(program, each.instruction, alone);
                    });
                  }});
}

/// A copy that a program has, by a number; nothing where it has none.
std::optional<BufferId> copy_number(const Program& program, std::size_t number) {
  std::vector<BufferId> copies;
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].role == BufferRole::rounded) copies.emplace_back(i);
  if (copies.empty()) return std::nullopt;
  return copies[number % copies.size()];
}

/// Puts what `make(program, copy)` gives after a random instruction of any program, or of any but
/// the one that starts a run.
Mutation written_by(std::string kind, bool also_init,
                    std::function<What(const Program&, BufferId)> make) {
  return {std::move(kind),
          {"read-only"},
          true,
          [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
            const std::size_t number = random();
            const auto site = pick(job, random, [&](const Program& program, std::size_t) {
              return (also_init || program.kind != op::ProgramKind::init) &&
                     copy_number(program, number);
            });
            return on_all(job, site, [&](const Site& each) {
              Program& program = program_at(job, each);
              const auto copy = copy_number(program, number);
              if (!copy) return;
              Instruction writer = program.instructions[each.instruction];
              writer.what = make(program, *copy);
              insert_instruction(program, each.instruction + 1, writer);
            });
          }};
}

void add_writers(std::vector<Mutation>& list) {
  list.push_back(
      written_by("a weight rounded by a step", false, [](const Program& program, BufferId copy) {
        const auto weight = program.find_buffer(rounded_name(program.buffer(copy).name));
        return Compute{op::rounding(),
                       program.buffer(copy).dtype,
                       {program.whole(weight.value_or(copy)), program.whole(copy)},
                       std::nullopt,
                       "reference"};
      }));
  list.push_back(
      written_by("a copy copied from another one", true, [](const Program& program, BufferId copy) {
        return Copy{another(program, copy).value_or(program.whole(copy)), program.whole(copy)};
      }));
  list.push_back(
      written_by("a copy filled with nothing", true, [](const Program& program, BufferId copy) {
        return Compute{op::Fill{.value = 0, .shape = program.local_shape(copy)},
                       program.buffer(copy).dtype,
                       {program.whole(copy)},
                       std::nullopt,
                       "reference"};
      }));
}

/// Changes a random copy in all programs of one rank.
Mutation changed(std::string kind, std::vector<std::string> rules, bool at_instruction,
                 std::function<void(Bundle&, Buffer&)> change) {
  return {std::move(kind), std::move(rules), at_instruction,
          [=](Job& job, std::mt19937& random) -> std::optional<Seeded> {
            const std::size_t rank = random() % job.size(), number = random();
            bool any = false;
            for (Program& program : job[rank].programs)
              if (const auto copy = copy_number(program, number)) {
                change(job[rank], program.buffers[copy->index()]);
                any = true;
              }
            if (!any) return std::nullopt;
            return Seeded{rank, true, 0, format("rank {}", rank)};
          }};
}

void add_buffers(std::vector<Mutation>& list) {
  list.push_back(changed("a copy in the type of its weight", {"operands", "class", "bounds"}, false,
                         [](Bundle&, Buffer& copy) { copy.dtype = DType::f32; }));
  list.push_back(changed("a copy that is taken for an activation", {"update-once"}, true,
                         [](Bundle&, Buffer& copy) { copy.role = BufferRole::activation; }));
  list.push_back(changed("a copy of a weight that is not there", {"rounded"}, false,
                         [](Bundle&, Buffer& copy) { copy.name = "nothing/rounded"; }));
  list.push_back(changed("a copy that says of no weight to be its copy", {"rounded"}, false,
                         [](Bundle&, Buffer& copy) { copy.name = "nothing"; }));
  list.push_back(changed("a copy whose two halves are one", {"rounded", "bounds"}, false,
                         [](Bundle&, Buffer& copy) { copy.two_by_parity = true; }));
}

/// Two copies of one shape, by a number; nothing where a program has no such two.
std::optional<std::pair<BufferId, BufferId>> two_alike(const Program& program, std::size_t number) {
  std::vector<std::pair<BufferId, BufferId>> pairs;
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].role == BufferRole::rounded)
      if (const auto other = another(program, BufferId(i)))
        pairs.emplace_back(BufferId(i), other->buffer);
  if (pairs.empty()) return std::nullopt;
  return pairs[number % pairs.size()];
}

void add_frames_of_copies(std::vector<Mutation>& list) {
  list.push_back({"two copies that have each other's names",
                  {"rounded"},
                  true,
                  [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
                    const std::size_t rank = random() % job.size(), number = random();
                    bool any = false;
                    for (Program& program : job[rank].programs)
                      if (const auto pair = two_alike(program, number)) {
                        std::swap(program.buffers[pair->first.index()].name,
                                  program.buffers[pair->second.index()].name);
                        any = true;
                      }
                    if (!any) return std::nullopt;
                    return Seeded{rank, true, 0, format("rank {}", rank)};
                  }});
  list.push_back(
      {"a program that does not know of a copy",
       {"bundle"},
       false,
       [](Job& job, std::mt19937& random) -> std::optional<Seeded> {
         const std::size_t rank = random() % job.size(), number = random();
         for (Program& program : job[rank].programs) {
           const auto copy = copy_number(program, number);
           const auto touches = [&](const Instruction& instruction) {
             return std::ranges::any_of(accesses(instruction), [&](const Access& access) {
               return access.slice.buffer == *copy;
             });
           };
           if (!copy || std::ranges::any_of(program.instructions, touches)) continue;
           program.buffers[copy->index()].name = "nothing";
           program.buffers[copy->index()].role = BufferRole::activation;
           return Seeded{rank, true, 0, format("rank {}: {}", rank, op::to_string(program.kind))};
         }
         return std::nullopt;
       }});
}

// --- gradients that are rounded before collectives carry them

/// True if an instruction leads a gradient's term back to float32.
bool leads_back(const Program& program, std::size_t at) {
  const auto* compute = std::get_if<Compute>(&program.instructions[at].what);
  return compute != nullptr && program.reduce &&
         (op::is_widening(compute->op) || op::is_sum_with_rounded(compute->op)) &&
         program.buffer(compute->slices.back().buffer).role == BufferRole::gradient;
}

/// The places where terms of micro-batches that were carried in bf16 go into one gradient: the
/// first becomes it, the others are added.
std::vector<std::size_t> terms_of(const Program& program, BufferId gradient) {
  std::vector<std::size_t> terms;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (!leads_back(program, i)) continue;
    const auto& compute = std::get<Compute>(program.instructions[i].what);
    if (compute.slices.back().buffer == gradient && op::is_widening(compute.op) == terms.empty())
      terms.push_back(i);
  }
  return terms;
}

/// A new buffer, after all others in memory.
Slice add_transient(Bundle& bundle, Program& program, Buffer buffer) {
  constexpr std::int64_t alignment = 64;
  buffer.offset_bytes = (program.transient_bytes + alignment - 1) / alignment * alignment;
  program.transient_bytes = buffer.offset_bytes + buffer.size_bytes;
  bundle.transient_bytes = std::max(bundle.transient_bytes, program.transient_bytes);
  program.buffers.push_back(std::move(buffer));
  return program.whole(BufferId(program.buffers.size() - 1));
}

/// Adds the terms of a gradient up in a buffer of their own type, which becomes the gradient.
void sum_in_own_type(Bundle& bundle, Program& program, BufferId gradient) {
  const std::vector<std::size_t> terms = terms_of(program, gradient);
  const auto term = [&](std::size_t i) -> Compute& {
    return std::get<Compute>(program.instructions[terms[i]].what);
  };
  const Slice first = term(0).slices[0];
  Buffer like = program.buffer(first.buffer);
  like.name = "rounded.sum";
  const Slice sum = add_transient(bundle, program, std::move(like));
  Compute whole = term(0);
  whole.slices[0] = sum;
  for (std::size_t i = 1; i < terms.size(); ++i) {
    term(i).op = op::sum_of_two();
    term(i).slices = {sum, term(i).slices[1], sum};
  }
  const StreamId stream = program.instructions[terms[0]].stream;
  program.instructions[terms[0]].what = Copy{first, sum};
  insert_instruction(program, terms.back() + 1, {stream, whole});
}

void add_gradients(std::vector<Mutation>& list) {
  list.push_back({"a program that does not say that it rounds gradients",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    return on_all(job, pick(job, random, leads_back),
                                  [&](const Site& each) { program_at(job, each).reduce.reset(); });
                  }});
  list.push_back({"micro-batches summed up in the type in which ranks sum up",
                  {"sum"},
                  true,
                  [](Job& job, std::mt19937& random) {
                    const auto site = pick_kind<Compute>(
                        job, random, [](const Program& program, const Compute& compute) {
                          return program.reduce && op::is_sum_with_rounded(compute.op);
                        });
                    return on_all(job, site, [&](const Site& each) {
                      const BufferId gradient = kind_at<Compute>(job, each).slices.back().buffer;
                      sum_in_own_type(job[each.rank], program_at(job, each), gradient);
                    });
                  }});
}

}  // namespace

void add_rounded_mutations(std::vector<Mutation>& list) {
  add_roundings(list);
  add_times_of_rounding(list);
  add_writers(list);
  add_buffers(list);
  add_frames_of_copies(list);
  add_gradients(list);
}

}  // namespace fourfold::verify
