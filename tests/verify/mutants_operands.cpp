// Mutants that read or write something else.
#include <algorithm>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

/// Two operands of one role that are alike, by their numbers.
std::vector<std::pair<std::size_t, std::size_t>> alike_pairs(const Program& program, std::size_t at,
                                                             bool of_reads) {
  const std::vector<Access> list = touched(program.instructions[at]);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = i + 1; j < list.size(); ++j)
      if ((list[i].role == op::Role::read) == of_reads && list[i].role == list[j].role &&
          list[i].slice != list[j].slice && are_alike(program, list[i].slice, list[j].slice))
        pairs.emplace_back(i, j);
  return pairs;
}

std::optional<Change> exchange_operands(const Program& program, std::size_t at, bool of_reads,
                                        Draws& random) {
  if (!std::holds_alternative<Compute>(program.instructions[at].what)) return std::nullopt;
  const auto pairs = alike_pairs(program, at, of_reads);
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

/// The operands of an instruction that a test lets through.
template <class Suits>
std::vector<std::size_t> operands_that(const Program& program, std::size_t at, Suits&& suits) {
  const std::vector<Access> list = touched(program.instructions[at]);
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!is_block(program, list[i].slice.buffer) && suits(list[i])) numbers.push_back(i);
  return numbers;
}
bool is_read(const Access& access) {
  return access.role == op::Role::read;
}
bool is_written(const Access& access) {
  return access.role != op::Role::read;
}

/// Puts a slice in the place of an operand, one that `suits` and is like it.
template <class Operands, class Suits>
std::optional<Change> draw_other(const Program& program, std::size_t at, Draws& random,
                                 Operands&& operands, Suits&& suits) {
  const std::vector<std::size_t> numbers = operands_that(program, at, operands);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  const Slice old = touched(program.instructions[at])[number].slice;
  std::vector<Slice> others = others_like(program, at, old);
  std::erase_if(others, [&](const Slice& other) { return !suits(old, other); });
  if (others.empty()) return std::nullopt;
  return replaced(number, named(program, pick_of(others, random)));
}

BufferRole role_of(const Program& program, const Slice& slice) {
  return program.buffer(slice.buffer).role;
}

std::optional<Change> read_value(const Program& program, std::size_t at, Draws& random) {
  return draw_other(program, at, random, is_read, [](const Slice&, const Slice&) { return true; });
}

/// One of the last values that were made, which still lie in memory.
std::optional<Change> read_near_value(const Program& program, std::size_t at, Draws& random) {
  constexpr std::size_t near = 24;
  std::vector<BufferId> made;
  for (std::size_t i = at < near ? 0 : at - near; i < at; ++i)
    for (const Access& access : touched(program.instructions[i]))
      if (access.role != op::Role::read) made.push_back(access.slice.buffer);
  return draw_other(program, at, random, is_read, [&](const Slice&, const Slice& other) {
    return std::ranges::find(made, other.buffer) != made.end();
  });
}

std::optional<Change> read_state(const Program& program, std::size_t at, Draws& random) {
  return draw_other(
      program, at, random,
      [&](const Access& access) {
        return is_read(access) && program.buffer(access.slice.buffer).region == Region::persistent;
      },
      [&](const Slice& old, const Slice& other) {
        return role_of(program, old) == role_of(program, other);
      });
}

std::optional<Change> write_elsewhere(const Program& program, std::size_t at, Draws& random) {
  return draw_other(program, at, random, is_written, [&](const Slice& old, const Slice& other) {
    return program.buffer(old.buffer).region == program.buffer(other.buffer).region;
  });
}

/// The value that another micro-batch has in that place.
std::optional<Change> read_other_slot(const Program& program, std::size_t at, Draws& random) {
  return draw_other(program, at, random, is_read, [&](const Slice& old, const Slice& other) {
    const auto a = split_slot(program.buffer(old.buffer).name),
               b = split_slot(program.buffer(other.buffer).name);
    return a.first == b.first && a.second != b.second;
  });
}

/// What another row of the same name has in the same place.
std::optional<Change> read_of_sibling(const Program& program, std::size_t at, Draws& random) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  if (what == nullptr) return std::nullopt;
  const std::vector<std::size_t> numbers = operands_that(program, at, is_read);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  std::vector<Slice> others;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* other = std::get_if<Compute>(&program.instructions[i].what);
    if (other == nullptr || op::name(other->op) != op::name(what->op) ||
        other->slices.size() <= number)
      continue;
    const Slice& slice = other->slices[number];
    if (slice != what->slices[number] && are_alike(program, slice, what->slices[number]))
      others.push_back(slice);
  }
  if (others.empty()) return std::nullopt;
  return replaced(number, named(program, pick_of(others, random)));
}

/// What the row that made a value read, in place of the value.
std::optional<Change> read_before(const Program& program, std::size_t at, Draws& random) {
  const std::vector<std::size_t> numbers = operands_that(program, at, is_read);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  const Slice old = touched(program.instructions[at])[number].slice;
  for (std::size_t i = at; i-- > 0;) {
    const std::vector<Access> list = touched(program.instructions[i]);
    if (std::ranges::none_of(
            list, [&](const Access& access) { return is_written(access) && access.slice == old; }))
      continue;
    std::vector<Slice> reads;
    for (const Access& access : list)
      if (is_read(access) && access.slice != old && are_alike(program, access.slice, old))
        reads.push_back(access.slice);
    if (reads.empty()) return std::nullopt;
    return replaced(number, named(program, pick_of(reads, random)));
  }
  return std::nullopt;
}

/// Two rows of one name write into each other's places.
std::optional<Change> exchange_outputs(const Program& program, std::size_t at, Draws& random) {
  const auto* what = std::get_if<Compute>(&program.instructions[at].what);
  if (what == nullptr) return std::nullopt;
  const std::vector<std::size_t> numbers = operands_that(program, at, is_written);
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random), task = task_of(program, at);
  std::vector<std::size_t> others;
  for (std::size_t i = program.tasks[task].begin; i < program.tasks[task].end; ++i) {
    const auto* other = std::get_if<Compute>(&program.instructions[i].what);
    if (other != nullptr && op::name(other->op) == op::name(what->op) &&
        other->slices.size() == what->slices.size() &&
        other->slices[number] != what->slices[number] &&
        are_alike(program, other->slices[number], what->slices[number]))
      others.push_back(i);
  }
  if (others.empty()) return std::nullopt;
  return [number, other = landmark_of(program, pick_of(others, random))](const Spot& spot) {
    const auto there = spot.find_other(other);
    if (!there || *there == spot.at) return false;
    std::swap(*touched_slice(spot.instruction(), number),
              *touched_slice(spot.program.instructions[*there], number));
    return true;
  };
}

/// A slice of part of a buffer, some rows or elements further on or back.
std::optional<Change> shift_slice(const Program& program, std::size_t at, Draws& random) {
  const std::vector<std::size_t> numbers = operands_that(program, at, [&](const Access& access) {
    return access.slice.bytes() < program.buffer(access.slice.buffer).size_bytes;
  });
  if (numbers.empty()) return std::nullopt;
  const std::size_t number = pick_of(numbers, random);
  const Slice old = touched(program.instructions[at])[number].slice;
  const Buffer& buffer = program.buffer(old.buffer);
  const std::int64_t element = size_bytes(buffer.dtype);
  std::vector<std::int64_t> steps;
  for (const std::int64_t step : {element, old.row_bytes, old.pitch_bytes, old.bytes()})
    for (const std::int64_t by : {step, -step})
      if (by != 0 && old.offset_bytes + by >= 0 && old.end_bytes() + by <= buffer.size_bytes)
        steps.push_back(by);
  if (steps.empty()) return std::nullopt;
  return [number, by = pick_of(steps, random)](const Spot& spot) {
    Slice* slice = touched_slice(spot.instruction(), number);
    if (slice == nullptr) return false;
    slice->offset_bytes += by;
    return slice->offset_bytes >= 0 &&
           slice->end_bytes() <= spot.program.buffer(slice->buffer).size_bytes;
  };
}

}  // namespace

void add_operand_mutants(std::vector<MutantKind>& list) {
  list.push_back({"two operands of a row exchanged",
                  [](const Program& program, std::size_t at, Draws& random) {
                    return exchange_operands(program, at, true, random);
                  }});
  list.push_back(
      {"two outputs of a row exchanged", [](const Program& program, std::size_t at, Draws& random) {
         return exchange_operands(program, at, false, random);
       }});
  list.push_back({"another value read", read_value});
  list.push_back({"a value read that was made shortly before", read_near_value});
  list.push_back({"another weight, moment or average read", read_state});
  list.push_back({"a value of another micro-batch read", read_other_slot});
  list.push_back({"an operand of another row of that name read", read_of_sibling});
  list.push_back({"a row skipped by who reads its value", read_before});
  list.push_back({"another buffer written", write_elsewhere});
  list.push_back({"outputs of two rows of one name exchanged", exchange_outputs});
  list.push_back({"a slice moved within its buffer", shift_slice, true});
}

}  // namespace fourfold::verify
