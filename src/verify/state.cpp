// state: sharding and partial sums of every value, recomputed from the factor rules of op/.
#include "verify/state.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "op/blocks.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

class StateCheck {
 public:
  StateCheck(Claims& claims, Report& report)
      : program_(claims.program()), claims_(claims), report_(report), partial_(program_) {}

  void run() {
    check_claims_at_start();
    begin_votes();
    for (index_ = 0; index_ < program_.instructions.size(); ++index_)
      std::visit([&](const auto& what) { step(what); }, program_.instructions[index_].what);
    check_end();
  }

 private:
  using Partials = PartialMap::Partials;

  void fault(std::string_view message) { report_.fault("state", index_, message); }
  const std::string& name_of(const Slice& slice) const {
    return program_.buffer(slice.buffer).name;
  }

  /// What the host or an earlier program leaves is whole: nothing persistent and no feed is
  /// partial.
  void check_claims_at_start() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const bool given = buffer.region == Region::persistent || buffer.role == BufferRole::feed;
      const op::Sharding& claim = claims_.of(BufferId(i));
      if (given && !claim.partial.empty())
        report_.fault("state", format("{} claims to be {}, but nothing sums it up", buffer.name,
                                      partial_text(claim.partial, claims_.mesh(BufferId(i)))));
    }
  }

  /// The one thing of which each rank's host has its own: a term of the sum over all ranks.
  void begin_votes() {
    constexpr auto field = op::find_block_field("step.vote");
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.role != BufferRole::step_block) continue;
      const Mesh& mesh = claims_.mesh(BufferId(i));
      Partials partials;
      for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
        if (mesh.axes[axis].size > 1) partials.axes.push_back({AxisId(axis), op::Reduction::sum});
      const auto offset = static_cast<std::int64_t>(field->offset_bytes);
      partial_.write({BufferId(i), offset, 1, size_bytes(field->dtype), 0}, partials);
    }
  }

  /// What the host or a later program reads is whole.
  void check_end() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.role == BufferRole::step_block) continue;  // nobody writes it (rule read-only)
      if (buffer.region != Region::persistent && buffer.role != BufferRole::output) continue;
      for (const auto& [offset, axes] : partial_.sums(BufferId(i)))
        report_.fault("state", format("{} is {} at the end, from byte {} on", buffer.name,
                                      partial_text(axes, claims_.mesh(BufferId(i))), offset));
    }
  }

  /// The partial axes that an instruction finds in a slice; faults where its bytes differ.
  Partials found(const Slice& slice) {
    if (const auto partials = partial_.read(slice)) return *partials;
    fault(format("parts of {} are partial on different axes", name_of(slice)));
    return {};
  }

  // --- instructions that move values

  void take_over(const Slice& to, const Conversion& conversion) {
    if (!conversion.problem.empty()) report_.fault(conversion.rule, index_, conversion.problem);
    partial_.write(to, conversion.partials);
  }
  template <AnyCollective Kind>
  void step(const Kind& what) {
    for_each_tensor(what, [&](const Slice& from, const Slice& to) {
      take_over(to, convert(claims_, what, from, to, found(from)));
    });
  }
  void step(const Copy& what) { take_over(what.to, convert(claims_, what, found(what.from))); }
  void step(const Pack& what) { take_over(what.to, convert(claims_, what, found(what.from))); }
  void step(const Unpack& what) { take_over(what.to, convert(claims_, what, found(what.from))); }
  // What crosses meshes is whole: the axes of one mesh mean nothing on the other.
  void step(const Send& what) {
    const Partials partials = found(what.from);
    if (!partials.axes.empty())
      fault(format("{} is {}, and nobody over there can sum it up", name_of(what.from),
                   partial_text(partials.axes, claims_.mesh(what.from.buffer))));
  }
  void step(const Recv& what) {
    const op::Sharding& claim = claims_.of(what.to.buffer);
    if (!claim.partial.empty())
      fault(format("{} claims to be {}, but what is sent is whole", name_of(what.to),
                   partial_text(claim.partial, claims_.mesh(what.to.buffer))));
    partial_.write(what.to, {});
  }
  void step(const Feed& what) { partial_.write(what.to, {}); }
  void step(const Record&) {}
  void step(const Wait&) {}

  // --- ops

  DType dtype_of_operand(const Compute& what, const op::Operand& operand) const {
    return op::element_dtype(operand.element, what.dtype);
  }

  /// Claimed cuts of an operand; faults where its view has none.
  op::Sharding view(const Compute& what, const op::Operand& operand, const Slice& slice) {
    if (auto sharding = claims_.view(slice, dtype_of_operand(what, operand))) return *sharding;
    fault(format("the slice of {} mixes a cut dim with others", name_of(slice)));
    return {program_.buffer(slice.buffer).sharding.mesh, {}, {}};
  }

  void step(const Compute& what) {
    for_each_piece(what, [&](const Compute& piece) { compute(piece); });
  }

  void compute(const Compute& what) {
    const op::Operands operands = op::operands(what.op);
    std::vector<op::Sharding> reads, claims;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      op::Sharding sharding = view(what, operands[i], what.slices[i]);
      if (operands[i].role != op::Role::read) {
        claims.push_back(std::move(sharding));
        continue;
      }
      sharding.partial = found(what.slices[i]).axes;
      reads.push_back(std::move(sharding));
      shapes.push_back(program_.view_shape(what.slices[i], dtype_of_operand(what, operands[i])));
    }
    if (is_update(what.op)) cut_to_own_block(what, reads.size(), claims);
    const op::FactorRule rule = rule_of(what, shapes);
    if (const std::string problem = size_problem(what, rule); !problem.empty()) fault(problem);
    const op::Propagation result =
        op::propagate(rule, reads, claims, claims_.mesh(what.slices[0].buffer));
    if (!result.problem.empty()) report_problem(what, reads, result.problem);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const std::size_t operand = reads.size() + i;
      if (result.problem.empty())
        check_output(what, operands[operand], what.slices[operand], claims[i], result.outputs[i]);
      else
        partial_.write(what.slices[operand], {});
    }
  }

  /// The weight of an update whose moments are cut further is seen as its own block, cut like them.
  void cut_to_own_block(const Compute& what, std::size_t reads, std::vector<op::Sharding>& claims) {
    const auto own = own_update(claims_, what);
    if (!own) return;
    if (!own->problem.empty()) report_.fault("part", index_, own->problem);
    const std::size_t weight = op::operand_of(what.op, op::State::weight).value();
    auto& dims = claims[weight - reads].dims;
    dims.resize(program_.buffer(what.slices[weight].buffer).global.rank());
    dims[0].insert(dims[0].end(), own->added.begin(), own->added.end());
  }

  /// The rule of an op whose shapes here are these. Where a dim is a product of factors, their
  /// sizes are those over all ranks.
  op::FactorRule rule_of(const Compute& what, const std::vector<Shape>& shapes) const {
    op::FactorRule rule = op::factors(what.op, shapes);
    // Where the program says that gradients are rounded before collectives add them up, what was a
    // term of a sum is one when it has been rounded.
    if (op::is_rounding(what.op) && program_.reduce == what.dtype)
      rule.linear = op::FactorRule::Linear::all;
    if (rule.sizes.empty()) return rule;
    op::Op logical = what.op;
    op::for_each_place(logical, [&]<class T>(const op::Place& place, T& told) {
      const Shape& global = program_.buffer(what.slices[place.operand].buffer).global;
      if constexpr (std::is_same_v<T, std::int64_t>) {
        if (place.told == op::Place::Told::local_size) told = global[place.dim_of(global)];
      } else if constexpr (std::is_same_v<T, Shape>) {
        told = global;
      }
    });
    std::vector<Shape> globals;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      globals.push_back(program_.buffer(what.slices[i].buffer).global);
    return op::factors(logical, globals);
  }

  /// A factor has one logical size in all operands: what equal local sizes leave unsaid where the
  /// last block is padded.
  std::string size_problem(const Compute& what, const op::FactorRule& rule) const {
    std::array<const Buffer*, 128> seen = {};
    std::array<std::int64_t, 128> sizes = {};
    for (std::size_t i = 0; i < what.slices.size(); ++i) {
      const Buffer& buffer = program_.buffer(what.slices[i].buffer);
      if (rule.operands[i].size() != buffer.global.rank() ||
          what.slices[i] != program_.whole(what.slices[i].buffer))
        continue;
      for (std::size_t dim = 0; dim < buffer.global.rank(); ++dim) {
        const std::string_view factors = rule.operands[i][dim];
        if (factors.size() != 1) {
          if (product(factors, rule.sizes) != buffer.global[dim])
            return format("dim {} of {} has {} elements over all ranks, its factors {}", dim,
                          buffer.name, buffer.global[dim], product(factors, rule.sizes));
          continue;
        }
        const auto factor = static_cast<std::size_t>(factors[0]) % seen.size();
        if (seen[factor] == nullptr) {
          seen[factor] = &buffer;
          sizes[factor] = buffer.global[dim];
        } else if (sizes[factor] != buffer.global[dim]) {
          return format("dim {} of {} has {} elements over all ranks, that of {} {}", dim,
                        buffer.name, buffer.global[dim], seen[factor]->name, sizes[factor]);
        }
      }
    }
    return {};
  }
  static std::int64_t product(std::string_view factors, const op::FactorSizes& sizes) {
    std::int64_t total = 1;
    for (const char factor : factors)
      if (__builtin_mul_overflow(total, sizes.at(factor), &total)) return 0;
    return total;
  }

  void report_problem(const Compute& what, const std::vector<op::Sharding>& reads,
                      const std::string& problem) {
    std::string shardings;
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (!reads[i].partial.empty())
        shardings += format("{}{} is {}", shardings.empty() ? "" : ", ", name_of(what.slices[i]),
                            partial_text(reads[i].partial, claims_.mesh(what.slices[i].buffer)));
    const bool updates = is_update(what.op) && !reads[0].partial.empty();
    report_.fault(updates ? "update-once" : "state", index_,
                  shardings.empty() ? problem : shardings + ": " + problem);
  }

  void check_output(const Compute& what, const op::Operand& operand, const Slice& slice,
                    const op::Sharding& claim, const op::Sharding& computed) {
    const Mesh& mesh = claims_.mesh(slice.buffer);
    if (claim.mesh != computed.mesh) {
      fault(format("{} lies on another mesh than what is read", name_of(slice)));
      return;
    }
    if (claim.dims != computed.dims) {
      const Shape local = program_.view_shape(slice, dtype_of_operand(what, operand));
      op::Sharding whole = computed;
      whole.partial.clear();
      fault(format("{} claims the cuts of {}, but the op gives those of {} (local shape)",
                   name_of(slice), op::to_string(local, claim, mesh),
                   op::to_string(local, whole, mesh)));
    }
    Partials partials{computed.partial, is_zero(what)};
    if (operand.role == op::Role::update) {
      const Partials before = found(slice);
      if (!before.zero && before.axes != partials.axes)
        fault(format("{} is {}, what is added to it is {}", name_of(slice),
                     partial_text(before.axes, mesh), partial_text(partials.axes, mesh)));
    }
    partial_.write(slice, partials);
  }

  static bool is_zero(const Compute& what) { return op::constant_of(what.op) == 0.0; }

  const Program& program_;
  Claims& claims_;
  Report& report_;
  PartialMap partial_;
  std::size_t index_ = 0;
};

}  // namespace

void check_state(Claims& claims, Report& report) {
  StateCheck(claims, report).run();
}

// --- partial axes of slices

PartialMap::PartialMap(const Program& program) : program_(program) {}

std::size_t PartialMap::intern(const std::vector<op::Partial>& axes) {
  for (std::size_t i = 1; i < sets_.size(); ++i)
    if (sets_[i] == axes) return i;
  sets_.push_back(axes);
  return sets_.size() - 1;
}

std::optional<PartialMap::Partials> PartialMap::read(const Slice& slice) const {
  std::size_t set = zero;
  bool differ = false;
  for_each_run(program_, slice, [&](const AddressRange& run) {
    bytes_.visit(run.begin, run.end, [&](std::size_t other) {
      if (other == zero || other == set) return;
      differ = differ || set != zero;
      set = other;
    });
  });
  if (differ) return std::nullopt;
  return Partials{sets_[set], set == zero};
}

std::vector<std::pair<std::int64_t, std::vector<op::Partial>>> PartialMap::sums(BufferId id) const {
  std::vector<std::pair<std::int64_t, std::vector<op::Partial>>> found;
  const std::int64_t start = address(program_, id);
  bytes_.visit_runs(start, start + program_.buffer(id).size_bytes,
                    [&](std::int64_t begin, std::size_t set) {
                      if (!sets_[set].empty())
                        found.emplace_back(std::max(begin - start, std::int64_t{0}), sets_[set]);
                    });
  return found;
}

void PartialMap::write(const Slice& slice, const Partials& partials) {
  const std::size_t set = partials.zero ? zero : intern(partials.axes);
  for_each_run(program_, slice,
               [&](const AddressRange& run) { bytes_.assign(run.begin, run.end, set); });
}

std::string partial_text(const std::vector<op::Partial>& axes, const Mesh& mesh) {
  if (axes.empty()) return "not partial";
  std::string text = "partial";
  for (const op::Partial& partial : axes)
    text += format(" {}({})", partial.reduction == op::Reduction::sum ? "sum" : "max",
                   mesh.axes[partial.axis.index()].name);
  return text;
}

}  // namespace fourfold::verify
