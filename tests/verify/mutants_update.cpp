// Mutants of what makes a step out of gradients: norms, votes, fields of the blocks, optimizers,
// averages, rounded copies, initial values.
#include <algorithm>

#include "op/blocks.h"
#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

/// The field of a block that a slice is.
std::optional<op::BlockField> field_of(const Program& program, const Slice& slice) {
  const BufferRole role = program.buffer(slice.buffer).role;
  const auto is_it = [&](const op::BlockField& field) {
    return static_cast<std::int64_t>(field.offset_bytes) == slice.offset_bytes;
  };
  if (role == BufferRole::step_block)
    for (const op::BlockField& field : op::step_fields)
      if (is_it(field)) return field;
  if (role == BufferRole::result_block)
    for (const op::BlockField& field : op::result_fields)
      if (is_it(field)) return field;
  return std::nullopt;
}

/// Other fields of either block that have the type of this one.
std::vector<std::pair<std::string, std::int64_t>> fields_like(const Program& program,
                                                              const op::BlockField& own) {
  std::vector<std::pair<std::string, std::int64_t>> others;
  for (const Buffer& buffer : program.buffers) {
    const auto add = [&](const auto& fields) {
      for (const op::BlockField& field : fields)
        if (field.dtype == own.dtype && field.name != own.name)
          others.emplace_back(buffer.name, static_cast<std::int64_t>(field.offset_bytes));
    };
    if (buffer.role == BufferRole::step_block) add(op::step_fields);
    if (buffer.role == BufferRole::result_block) add(op::result_fields);
  }
  return others;
}

std::optional<Change> other_field(const Program& program, std::size_t at, Draws& random,
                                  bool of_reads) {
  const std::vector<Access> list = touched(program.instructions[at]);
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (is_block(program, list[i].slice.buffer) && (list[i].role == op::Role::read) == of_reads &&
        field_of(program, list[i].slice))
      numbers.push_back(i);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  const auto others = fields_like(program, *field_of(program, list[number].slice));
  if (others.empty()) return std::nullopt;
  const auto [buffer, offset] = pick_of(others, random);
  Slice slice = list[number].slice;
  slice.offset_bytes = offset;
  return replaced(number, {buffer, slice});
}

/// Two fields of a row, read or written, change places.
std::optional<Change> exchange_fields(const Program& program, std::size_t at, Draws& random) {
  const std::vector<Access> list = touched(program.instructions[at]);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = i + 1; j < list.size(); ++j) {
      if ((list[i].role == op::Role::read) != (list[j].role == op::Role::read)) continue;
      const auto one = field_of(program, list[i].slice), other = field_of(program, list[j].slice);
      if (one && other && one->dtype == other->dtype && one->name != other->name)
        pairs.emplace_back(i, j);
    }
  if (pairs.empty()) return std::nullopt;
  const auto [one, other] = pick_of(pairs, random);
  return [one, other](const Spot& spot) {
    Slice *a = touched_slice(spot.instruction(), one),
          *b = touched_slice(spot.instruction(), other);
    if (a == nullptr || b == nullptr) return false;
    std::swap(*a, *b);
    return true;
  };
}

template <class Row>
const Row* row_at(const Program& program, std::size_t at) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  return what == nullptr ? nullptr : what->op.get_if<Row>();
}

/// A norm of several gradients without one of them, or with one twice and another not.
std::optional<Change> norm_without(const Program& program, std::size_t at, Draws& random) {
  const auto* norm = row_at<op::SquaredNorm>(program, at);
  if (norm == nullptr || norm->tensors < 2) return std::nullopt;
  return [seed = random()](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr || !compute->op.is<op::SquaredNorm>()) return false;
    auto& here = compute->op.get<op::SquaredNorm>();
    if (here.tensors < 2) return false;
    const auto which = static_cast<std::ptrdiff_t>(seed % static_cast<std::uint64_t>(here.tensors));
    compute->slices.erase(compute->slices.begin() + which);
    --here.tensors;
    return true;
  };
}
std::optional<Change> norm_twice(const Program& program, std::size_t at, Draws& random) {
  const auto* norm = row_at<op::SquaredNorm>(program, at);
  if (norm == nullptr) return std::nullopt;
  return [seed = random()](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr || !compute->op.is<op::SquaredNorm>()) return false;
    auto& here = compute->op.get<op::SquaredNorm>();
    const Slice again = compute->slices[seed % static_cast<std::uint64_t>(here.tensors)];
    compute->slices.insert(compute->slices.begin(), again);
    ++here.tensors;
    return true;
  };
}

/// The piece of a list of updates of that number is left out: its operands go.
template <class List>
bool leave_out(Compute& compute, List& list, std::uint64_t seed) {
  if (list.count() < 2) return false;
  const auto which = static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(list.count()));
  const op::Operands one = op::operands(op::Op(list.one(which)));
  std::vector<std::size_t> own;
  // Scalars and the number of what is not finite are of all tensors.
  const std::vector<std::size_t> places = list.operands_of(which);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::size_t users = 0;
    for (std::int64_t other = 0; other < list.count(); ++other)
      users += static_cast<std::size_t>(std::ranges::count(list.operands_of(other), places[i]));
    if (users == 1) own.push_back(places[i]);
  }
  std::ranges::sort(own, std::greater());
  for (const std::size_t place : own)
    compute.slices.erase(compute.slices.begin() + static_cast<std::ptrdiff_t>(place));
  list.decayed -= which < list.decayed ? 1 : 0;
  --list.tensors;
  return op::operands(compute.op).size() == compute.slices.size();
}

bool is_list_of_updates(const Program& program, std::size_t at) {
  bool is_list = false;
  op::for_each_optimizer([&]<class Row>() {
    is_list = is_list || row_at<op::UpdateList<Row>>(program, at) != nullptr;
  });
  return is_list;
}

template <class Function>
bool change_update_list(const Spot& spot, Function&& function) {
  auto* compute = spot.kind<Compute>();
  if (compute == nullptr) return false;
  bool is_changed = false;
  op::for_each_optimizer([&]<class Row>() {
    if (auto* list = compute->op.get_if<op::UpdateList<Row>>())
      is_changed = function(*compute, *list);
  });
  return is_changed;
}

std::optional<Change> update_left_out(const Program& program, std::size_t at, Draws& random) {
  if (!is_list_of_updates(program, at)) return std::nullopt;
  return [seed = random()](const Spot& spot) {
    return change_update_list(
        spot, [&](Compute& compute, auto& list) { return leave_out(compute, list, seed); });
  };
}

/// The weight decay of one tensor more, or of one less.
std::optional<Change> other_decay(const Program& program, std::size_t at, Draws& random) {
  if (!is_list_of_updates(program, at)) return std::nullopt;
  return [less = random() % 2 == 0](const Spot& spot) {
    return change_update_list(spot, [&](Compute&, auto& list) {
      if (less ? list.decayed == 0 : list.decayed >= list.tensors) return false;
      list.decayed += less ? -1 : 1;
      return true;
    });
  };
}

/// Two tensors of a list of updates have each other's operand of one name: gradients, weights,
/// moments.
std::optional<Change> exchange_in_update(const Program& program, std::size_t at, Draws& random) {
  if (!is_list_of_updates(program, at)) return std::nullopt;
  return [seed = random()](const Spot& spot) {
    const Program& own = spot.program;
    return change_update_list(spot, [&](Compute& compute, auto& list) {
      Draws draws(seed);
      std::vector<std::pair<std::size_t, std::size_t>> pairs;
      for (std::int64_t one = 0; one < list.count(); ++one)
        for (std::int64_t other = one + 1; other < list.count(); ++other) {
          const auto a = list.operands_of(one), b = list.operands_of(other);
          for (std::size_t i = 0; i < a.size(); ++i)
            if (a[i] != b[i] && are_alike(own, compute.slices[a[i]], compute.slices[b[i]]))
              pairs.emplace_back(a[i], b[i]);
        }
      if (pairs.empty()) return false;
      const auto [a, b] = pick_of(pairs, draws);
      std::swap(compute.slices[a], compute.slices[b]);
      return true;
    });
  };
}

/// True if a buffer has the role of another one, or is the average of it, or it the average of
/// that.
bool may_stand_for(const Buffer& one, const Buffer& other) {
  return one.role == other.role || averaged_name(one.name) == other.name ||
         averaged_name(other.name) == one.name;
}

/// A row with an operand of one of these roles reads or writes another buffer of that role and
/// shape there.
std::optional<Change> other_of_role(const Program& program, std::size_t at, Draws& random,
                                    std::initializer_list<BufferRole> roles) {
  const std::vector<Access> list = touched(program.instructions[at]);
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (std::ranges::find(roles, program.buffer(list[i].slice.buffer).role) != roles.end())
      numbers.push_back(i);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  const Slice& old = list[number].slice;
  std::vector<Slice> others;
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (BufferId(i) != old.buffer &&
        may_stand_for(program.buffers[i], program.buffer(old.buffer))) {
      Slice other = old;
      other.buffer = BufferId(i);
      if (program.buffers[i].size_bytes == program.buffer(old.buffer).size_bytes &&
          are_alike(program, other, old))
        others.push_back(other);
    }
  if (others.empty()) return std::nullopt;
  return replaced(number, named(program, pick_of(others, random)));
}

MutantKind of_roles(std::string name, std::initializer_list<BufferRole> roles) {
  return {std::move(name),
          [list = std::vector(roles)](const Program& program, std::size_t at, Draws& random) {
            const BufferRole role = pick_of(list, random);
            return other_of_role(program, at, random, {role});
          }};
}

/// Rows that count, vote and decide.
bool is_control(const Program& program, std::size_t at) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  return what != nullptr && op::work_class(what->op) == op::WorkClass::control;
}

std::optional<Change> control_left_out(const Program& program, std::size_t at, Draws&) {
  if (!is_control(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}
std::optional<Change> control_twice(const Program& program, std::size_t at, Draws&) {
  if (!is_control(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    const Instruction again = spot.instruction();
    insert_instruction(spot.program, spot.at + 1, again);
    return true;
  };
}

}  // namespace

void add_update_mutants(std::vector<MutantKind>& list) {
  list.push_back(
      {"another field of a block read", [](const Program& program, std::size_t at, Draws& random) {
         return other_field(program, at, random, true);
       }});
  list.push_back({"another field of a block written",
                  [](const Program& program, std::size_t at, Draws& random) {
                    return other_field(program, at, random, false);
                  }});
  list.push_back({"two fields of a row exchanged", exchange_fields});
  list.push_back({"a norm without a gradient", norm_without});
  list.push_back({"a norm with a gradient twice", norm_twice});
  list.push_back({"a tensor of a list of updates left out", update_left_out});
  list.push_back({"the decay of another tensor", other_decay});
  list.push_back({"two tensors of a list of updates exchanged", exchange_in_update});
  list.push_back(of_roles("a row with another moment", {BufferRole::moment}));
  list.push_back(of_roles("a row with another gradient", {BufferRole::gradient}));
  list.push_back(of_roles("a row with another average or its weight", {BufferRole::average}));
  list.push_back(of_roles("a row with another rounded copy", {BufferRole::rounded}));
  list.push_back(of_roles("a row with another counter", {BufferRole::counter}));
  list.push_back({"a row that counts, votes or decides left out", control_left_out});
  list.push_back({"a row that counts, votes or decides twice", control_twice});
}

}  // namespace fourfold::verify
