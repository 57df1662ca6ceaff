#include "compile/fuse_neighbours.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// A chain that a target names.
struct Chain {
  explicit Chain(std::string_view chain) : names(op::names_of_chain(chain)) {
    for (const char letter : chain)
      if (op::links.find(letter) != std::string_view::npos) links.push_back(letter);
  }

  std::vector<std::string_view> names;
  std::string links;  // one of op::links between two names
};

/// Two members of a chain: operand `output` of one is operand `read` of the next, which writes its
/// operand `over` where that value lay, if the value is handed on. Nothing but the default where
/// both read the same.
struct Link {
  std::size_t output = 0, read = 0;
  std::optional<std::size_t> over = {};
};

struct Found {
  std::vector<std::size_t> members;  // places of instructions
  std::vector<Link> links;
};

class NeighbourFuser : private Neighbours {
 public:
  explicit NeighbourFuser(Program& program)
      : Neighbours(program),
        table_(op::all_rows()),
        places_(table_.size()),
        rows_(program.instructions.size(), no_row) {
    for_each_compute([&](const Compute& compute, std::size_t index) {
      places_[compute.op.index()].push_back(static_cast<std::uint32_t>(index));
      rows_[index] = static_cast<std::uint8_t>(compute.op.index());
    });
  }

  void run(const machine::Target& target) {
    for (const std::string& fusion : target.fusions)
      if (const Chain chain(fusion); chain.names.size() > 1) make_all(chain);
    finish();
  }

 private:
  void make_all(const Chain& chain) {
    std::vector<std::uint8_t> rows;
    for (const std::string_view name : chain.names) rows.push_back(row_named(name));
    if (std::ranges::find(rows, no_row) != rows.end()) return;
    for (const std::uint32_t place : places_[rows[0]])
      if (!uses().is_gone(place) && rows_[place] == rows[0])
        if (const auto found = find(rows, chain.links, place)) make(*found);
  }

  /// Its index in the table.
  std::uint8_t row_named(std::string_view name) const {
    for (std::size_t i = 0; i < table_.size(); ++i)
      if (op::name(table_[i]) == name) return static_cast<std::uint8_t>(i);
    return no_row;
  }

  std::optional<Found> find(const std::vector<std::uint8_t>& rows, const std::string& links,
                            std::size_t first) const {
    Found found{{first}, {}};
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const char link = links[i - 1];
      if (!(link == '|' ? put_beside(found, rows[i]) : extend(found, rows[i], link == '+')))
        return std::nullopt;
    }
    return found;
  }

  /// Adds the first instruction with such a row that reads all that the last member reads.
  bool put_beside(Found& found, std::uint8_t row) const {
    const std::size_t from = found.members.back();
    const op::Operands operands = op::operands(compute(from)->op);
    const auto first = std::ranges::find(operands, op::Role::read, &op::Operand::role);
    if (first == operands.end()) return false;
    const Slice& shared = compute(from)->slices[static_cast<std::size_t>(first - operands.begin())];
    for (const std::size_t reader : uses().of_value(shared, from)) {
      if (rows_[reader] != row || !alike(from, reader) || !uses().same_task(from, reader)) continue;
      bool reads_all = true;
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (operands[i].role == op::Role::read)
          reads_all = reads_all && read_of(*compute(reader), compute(from)->slices[i]).has_value();
      if (!reads_all) continue;
      found.members.push_back(reader);
      found.links.emplace_back();
      return true;
    }
    return false;
  }

  /// Adds the first instruction with such a row that reads what the last member writes.
  bool extend(Found& found, std::uint8_t row, bool hands_on) const {
    const std::size_t from = found.members.back();
    const op::Operands operands = op::operands(compute(from)->op);
    for (std::size_t output = 0; output < operands.size(); ++output) {
      if (operands[output].role != op::Role::write) continue;
      const Slice& value = compute(from)->slices[output];
      const std::vector<std::size_t> readers = uses().of_value(value, from);
      if (hands_on && readers.size() != 1) continue;
      for (const std::size_t reader : readers) {
        if (rows_[reader] != row) continue;
        const Compute* next = compute(reader);
        if (!alike(from, reader) || !may_leave_its_task(from, reader)) break;
        const std::optional<std::size_t> read = read_of(*next, value);
        if (!read) break;
        Link link{output, *read, std::nullopt};
        if (hands_on && !(link.over = written_over(next->op, *read))) break;
        found.members.push_back(reader);
        found.links.push_back(link);
        return true;
      }
    }
    return false;
  }

  /// True if both stand in one task, or the second may write its results over what it reads: it
  /// then needs no memory for longer where it moves to the first.
  bool may_leave_its_task(std::size_t from, std::size_t reader) const {
    if (uses().same_task(from, reader)) return true;
    return std::ranges::all_of(op::operands(compute(reader)->op), [](const op::Operand& operand) {
      return operand.role == op::Role::read || operand.may_alias.has_value();
    });
  }

  /// The first operand that is just this slice, if it is only read.
  static std::optional<std::size_t> read_of(const Compute& compute, const Slice& slice) {
    const op::Operands operands = op::operands(compute.op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (compute.slices[i] == slice)
        return operands[i].role == op::Role::read ? std::optional(i) : std::nullopt;
    return std::nullopt;
  }

  /// The output that may lie where the read lies. The terms of a sum may change places.
  static std::optional<std::size_t> written_over(const op::Op& op, std::size_t read) {
    const op::Operands operands = op::operands(op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].may_alias == read || (operands[i].may_alias && op::is_sum_of_two(op)))
        return i;
    return std::nullopt;
  }

  /// Makes one instruction of the members, at the last of their places where it may stand.
  void make(const Found& found) {
    std::optional<Compute> whole = join(found);
    if (!whole) return;
    for (const std::size_t place : std::views::reverse(found.members))
      if (replace(found.members, place, *whole)) {
        rows_[place] = static_cast<std::uint8_t>(whole->op.index());
        return;
      }
  }

  std::optional<Compute> join(const Found& found) const {
    const std::vector<std::vector<Slice>> operands = operands_of(found);
    std::vector<Slice> reads, outputs;
    const auto add = [](std::vector<Slice>& list, const Slice& slice) {
      if (std::ranges::find(list, slice) == list.end()) list.push_back(slice);
    };
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const op::Operands roles = op::operands(compute(found.members[i])->op);
      for (std::size_t k = 0; k < roles.size(); ++k) {
        const Slice& slice = operands[i][k];
        const bool is_made = std::ranges::find(outputs, slice) != outputs.end();
        if (roles[k].role != op::Role::read) add(outputs, slice);
        if (roles[k].role == op::Role::read && !is_made) add(reads, slice);
      }
    }
    const std::size_t count = reads.size();
    // With no more room than needed: they stay as long as the program.
    std::vector<Slice> all;
    all.reserve(count + outputs.size());
    all.insert(all.end(), reads.begin(), reads.end());
    all.insert(all.end(), outputs.begin(), outputs.end());
    std::vector<op::Piece> pieces;
    pieces.reserve(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      op::Piece piece{compute(found.members[i])->op, {}};
      piece.operands.reserve(operands[i].size());
      for (const Slice& slice : operands[i])
        piece.operands.push_back(
            static_cast<std::size_t>(std::ranges::find(all, slice) - all.begin()));
      pieces.push_back(std::move(piece));
    }
    auto chain = op::Fused::of(std::move(pieces));
    if (count == 0 || std::holds_alternative<op::Mistake>(chain)) return std::nullopt;
    return Compute{std::get<op::Fused>(std::move(chain)),
                   compute(found.members[0])->dtype,
                   std::move(all),
                   std::nullopt,
                   {}};
  }

  /// The operands of each member, values that are handed on lying where the next member writes.
  std::vector<std::vector<Slice>> operands_of(const Found& found) const {
    std::vector<std::vector<Slice>> operands;
    for (const std::size_t member : found.members) operands.push_back(compute(member)->slices);
    for (std::size_t i = found.links.size(); i-- > 0;) {
      const Link& link = found.links[i];
      if (!link.over) continue;
      std::vector<Slice>& next = operands[i + 1];
      next[link.read] = operands[i][link.output] = next[*link.over];
      if (op::is_sum_of_two(compute(found.members[i + 1])->op)) std::swap(next[0], next[link.read]);
    }
    return operands;
  }

  static constexpr std::uint8_t no_row = 255;
  static_assert(op::num_rows <= no_row);

  // What most looks end with, in little memory: no chain walks through all instructions.
  std::vector<op::Op> table_;
  std::vector<std::vector<std::uint32_t>> places_;  // where each row stands at first, in order
  std::vector<std::uint8_t> rows_;                  // of each instruction: index in the table
};

}  // namespace

Program fuse_neighbours(Program program, const machine::Target& target) {
  if (!target.fusions.empty()) NeighbourFuser(program).run(target);
  return program;
}

}  // namespace fourfold::compile
