// groups: who takes part in a collective, and whether its parts are equal.
#include "base/format.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// The ranks that share all coordinates of this rank but those along the axes, counted through with
/// the last axis fastest.
Ranks line_of(const Program& program, const Group& group) {
  const Mesh& mesh = program.meshes[group.mesh.index()];
  const auto own = own_coordinates(program, group.mesh);
  Ranks line;
  if (!own) return line;
  struct Digit {
    std::int64_t size = 1, stride = 1, value = 0;
  };
  std::vector<Digit> digits;  // of the axes, in their order
  std::int64_t place = 0, members = 1;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    place = place * mesh.axes[axis].size + (*own)[axis];
  for (const AxisId axis : group.axes) {
    std::int64_t stride = 1;
    for (std::size_t inner = axis.index() + 1; inner < mesh.axes.size(); ++inner)
      stride *= mesh.axes[inner].size;
    digits.push_back({mesh.axes[axis.index()].size, stride, 0});
    place -= (*own)[axis.index()] * stride;
    members *= digits.back().size;
  }
  for (std::int64_t i = 0; i < members; ++i) {
    line.push_back(mesh.ranks[static_cast<std::size_t>(place)]);
    for (std::size_t k = digits.size(); k-- > 0;) {
      place += digits[k].stride;
      if (++digits[k].value < digits[k].size) break;
      place -= digits[k].stride * digits[k].size;
      digits[k].value = 0;
    }
  }
  return line;
}

std::string ranks_text(const Ranks& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += format("{}{}", text.empty() ? "" : " ", rank.index());
  return text;
}

/// Bytes of `whole` are those of `share` for each member.
std::string shares_problem(const Slice& whole, const Slice& share, std::size_t members) {
  if (whole.bytes() == share.bytes() * static_cast<std::int64_t>(members)) return {};
  return format("{} bytes are not {} parts of {} bytes", whole.bytes(), members, share.bytes());
}

template <class Kind>
std::string sides_problem(const Program& program, const Slice& from, const Slice& to,
                          std::size_t members) {
  if (slice_dtype(program, from) != slice_dtype(program, to))
    return "both sides have different dtypes";
  if constexpr (AnyCollective<Kind>) {
    const CollectiveFacts& facts = facts_of(Kind::plain);
    if (facts.is_in_place()) return {};
    if (!facts.gathers()) return shares_problem(from, to, members);
    if (!facts.scatters()) return shares_problem(to, from, members);
    const std::int64_t element = size_bytes(program.buffer(from.buffer).dtype);
    if (from.bytes() % (static_cast<std::int64_t>(members) * element) != 0)
      return format("{} bytes are not {} equal parts", from.bytes(), members);
  }
  return shares_problem(to, from, 1);
}

template <class Kind>
std::string collective_problem(const Program& program, const Kind& what) {
  std::string problem;
  if constexpr (std::is_same_v<Kind, Copy>)
    problem = sides_problem<Kind>(program, what.from, what.to, 1);
  if constexpr (AnyCollective<Kind>) {
    const std::size_t members = program.groups[what.group.index()].members.size();
    std::optional<DType> dtype;
    for_each_tensor(what, [&](const Slice& from, const Slice& to) {
      if (problem.empty()) problem = sides_problem<Kind>(program, from, to, members);
      const auto own = slice_dtype(program, from);
      if (problem.empty() && dtype && own != dtype)
        problem = format("it takes {} and {}, expected tensors of one dtype",
                         fourfold::to_string(*dtype), own ? fourfold::to_string(*own) : "no field");
      dtype = own;
    });
  }
  return problem;
}

}  // namespace

void check_members(const Program& program, Report& report) {
  for (const Group& group : program.groups) {
    const Ranks line = line_of(program, group);
    if (group.members != line)
      report.fault("groups",
                   format("group {} has the ranks {}, expected {}: the line of rank {} along {}",
                          group.name, ranks_text(group.members), ranks_text(line),
                          program.rank.index(), program.axes_text(group)));
  }
}

void check_groups(const Program& program, Report& report) {
  check_members(program, report);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::string problem = std::visit(
        [&](const auto& what) { return collective_problem(program, what); }, instruction.what);
    if (problem.empty()) continue;
    const bool is_collective =
        std::visit([](const auto& what) { return requires { what.group; }; }, instruction.what);
    report.fault(is_collective ? "groups" : "operands", i, problem);
  }
}

}  // namespace fourfold::verify
