// state: sharding and partial sums of every value, recomputed from the factor rules of op/.
#include "program/verify_state.h"

#include "base/format.h"
#include "program/verify_rules.h"

namespace fourfold::program {
namespace {

class StateCheck {
 public:
  StateCheck(const Program& program, Report& report)
      : program_(program), report_(report), partial_(program) {}

  void run() {
    check_claims_at_start();
    for (index_ = 0; index_ < program_.instructions.size(); ++index_)
      std::visit([&](const auto& what) { step(what); }, program_.instructions[index_].what);
  }

 private:
  using State = PartialMap::State;

  void fault(std::string_view message) { report_.fault("state", index_, message); }
  const std::string& name_of(const Slice& slice) const {
    return program_.buffer(slice.buffer).name;
  }

  /// What the host or an earlier program leaves is whole: nothing persistent and no feed is
  /// partial.
  void check_claims_at_start() {
    for (const Buffer& buffer : program_.buffers) {
      const Mesh& mesh = program_.meshes[buffer.sharding.mesh.index()];
      const bool given = buffer.region == Region::persistent || buffer.role == BufferRole::feed;
      const op::Sharding claim = normalized(buffer.sharding, mesh);
      if (given && !claim.partial.empty())
        report_.fault("state", format("{} claims to be {}, but nothing sums it up", buffer.name,
                                      partial_text(claim.partial, mesh)));
    }
  }

  /// The state in which an instruction finds a slice; faults where it has none.
  State found(const Slice& slice) {
    if (const auto state = partial_.read(slice)) return *state;
    fault(format("parts of {} are partial on different axes", name_of(slice)));
    return {};
  }

  // --- instructions that move values

  template <class Kind>
  void move(const Kind& what, const Slice& from, const Slice& to) {
    const Conversion conversion = convert(program_, what, found(from));
    if (!conversion.problem.empty()) fault(conversion.problem);
    partial_.write(to, conversion.state);
  }
  void step(const AllReduce& what) { move(what, what.data, what.data); }
  void step(const ReduceScatter& what) { move(what, what.from, what.to); }
  void step(const AllGather& what) { move(what, what.from, what.to); }
  void step(const AllToAll& what) { move(what, what.from, what.to); }
  void step(const Copy& what) { move(what, what.from, what.to); }
  void step(const Send& what) { found(what.from); }
  void step(const Recv& what) {
    // What the peer sends is proved over there; here its claim is all there is.
    const Buffer& buffer = program_.buffer(what.to.buffer);
    partial_.write(what.to,
                   {normalized(buffer.sharding, mesh_of(program_, what.to)).partial, false});
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
    if (auto sharding = view_sharding(program_, slice, dtype_of_operand(what, operand)))
      return *sharding;
    fault(format("the slice of {} mixes a cut dim with others", name_of(slice)));
    return {program_.buffer(slice.buffer).sharding.mesh, {}, {}};
  }

  void step(const Compute& what) {
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
    const op::Propagation result = op::propagate(op::factors(what.op, shapes), reads, claims);
    if (!result.problem.empty()) report_problem(what, reads, result.problem);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const std::size_t operand = reads.size() + i;
      if (result.problem.empty())
        check_output(what, operands[operand], what.slices[operand], claims[i], result.outputs[i]);
      else
        partial_.write(what.slices[operand], {});
    }
    check_part(what);
  }

  void report_problem(const Compute& what, const std::vector<op::Sharding>& reads,
                      const std::string& problem) {
    std::string states;
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (!reads[i].partial.empty())
        states += format("{}{} is {}", states.empty() ? "" : ", ", name_of(what.slices[i]),
                         partial_text(reads[i].partial, mesh_of(program_, what.slices[i])));
    const bool is_update = std::holds_alternative<op::AdamW>(what.op) && !reads[0].partial.empty();
    report_.fault(is_update ? "update-once" : "state", index_,
                  states.empty() ? problem : states + ": " + problem);
  }

  void check_output(const Compute& what, const op::Operand& operand, const Slice& slice,
                    const op::Sharding& claim, const op::Sharding& computed) {
    const Mesh& mesh = mesh_of(program_, slice);
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
    State state{computed.partial, is_zero(what)};
    if (operand.role == op::Role::update) {
      const State before = found(slice);
      if (!before.zero && before.axes != state.axes)
        fault(format("{} is {}, what is added to it is {}", name_of(slice),
                     partial_text(before.axes, mesh), partial_text(state.axes, mesh)));
    }
    partial_.write(slice, state);
  }

  static bool is_zero(const Compute& what) {
    const auto* fill = std::get_if<op::Fill>(&what.op);
    return fill != nullptr && fill->value == 0;
  }

  // --- attributes that say which part of a cut dim this rank computes

  void check_part(const Compute& what) {
    if (const auto* embedding = std::get_if<op::Embedding>(&what.op))
      check_first("first_row", embedding->first_row, what.slices[1], 0);
    if (const auto* gradient = std::get_if<op::EmbeddingGradient>(&what.op))
      check_first("first_row", gradient->first_row, what.slices[2], 0);
    if (const auto* attention = std::get_if<op::Attention>(&what.op);
        attention != nullptr && attention->rate > 0)
      check_first("first_head", attention->first_head, what.slices[0], 3);
    if (const auto* gradient = std::get_if<op::AttentionGradient>(&what.op);
        gradient != nullptr && gradient->rate > 0)
      check_first("first_head", gradient->first_head, what.slices[0], 3);
  }

  void check_first(std::string_view attribute, std::int64_t first, const Slice& slice,
                   std::size_t dim) {
    const Buffer& buffer = program_.buffer(slice.buffer);
    const Mesh& mesh = mesh_of(program_, slice);
    const op::Sharding claim = normalized(buffer.sharding, mesh);
    if (slice != program_.whole(slice.buffer) || dim >= buffer.global.rank()) return;
    std::int64_t expected = 0;
    if (dim < claim.dims.size())
      expected = block_start(claim.dims[dim], buffer.global[dim], mesh,
                             *own_coordinates(program_, claim.mesh));
    if (first != expected)
      fault(format("{} is {}, but this rank's part of {} begins at {}", attribute, first,
                   buffer.name, expected));
  }

  const Program& program_;
  Report& report_;
  PartialMap partial_;
  std::size_t index_ = 0;
};

}  // namespace

void check_state(const Program& program, Report& report) {
  StateCheck(program, report).run();
}

// --- states of slices

PartialMap::PartialMap(const Program& program) : program_(program) {}

std::size_t PartialMap::intern(const std::vector<op::Partial>& axes) {
  for (std::size_t i = 1; i < sets_.size(); ++i)
    if (sets_[i] == axes) return i;
  sets_.push_back(axes);
  return sets_.size() - 1;
}

std::optional<PartialMap::State> PartialMap::read(const Slice& slice) const {
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
  return State{sets_[set], set == zero};
}

void PartialMap::write(const Slice& slice, const State& state) {
  const std::size_t set = state.zero ? zero : intern(state.axes);
  for_each_run(program_, slice,
               [&](const AddressRange& run) { bytes_.assign(run.begin, run.end, set); });
}

const Mesh& mesh_of(const Program& program, const Slice& slice) {
  return program.meshes[program.buffer(slice.buffer).sharding.mesh.index()];
}

op::Sharding normalized(const op::Sharding& sharding, const Mesh& mesh) {
  const auto is_one = [&](AxisId axis) { return mesh.axes[axis.index()].size == 1; };
  op::Sharding result{sharding.mesh, {}, {}};
  bool any_cut = false;
  for (const auto& cuts : sharding.dims) {
    auto& dim = result.dims.emplace_back();
    for (const op::Cut& cut : cuts)
      if (!is_one(cut.axis)) dim.push_back(cut);
    any_cut = any_cut || !dim.empty();
  }
  if (!any_cut) result.dims.clear();
  for (const op::Partial& partial : sharding.partial)
    if (!is_one(partial.axis)) result.partial.push_back(partial);
  return result;
}

std::optional<op::Sharding> view_sharding(const Program& program, const Slice& slice, DType dtype) {
  op::Sharding claim = normalized(program.buffer(slice.buffer).sharding, mesh_of(program, slice));
  claim.partial.clear();
  if (claim.dims.empty()) return claim;
  const Shape local = program.local_shape(slice.buffer), view = program.view_shape(slice, dtype);
  if (view.rank() == local.rank() &&
      view.elements(1, view.rank()) == local.elements(1, local.rank()))
    return claim;
  for (std::size_t dim = 1; dim < claim.dims.size(); ++dim)
    if (!claim.dims[dim].empty()) return std::nullopt;
  if (view.rank() == 0) return std::nullopt;
  claim.dims.resize(1);
  claim.dims.resize(view.rank());
  return claim;
}

std::string partial_text(const std::vector<op::Partial>& axes, const Mesh& mesh) {
  if (axes.empty()) return "not partial";
  std::string text = "partial";
  for (const op::Partial& partial : axes)
    text += format(" {}({})", partial.reduction == op::Reduction::sum ? "sum" : "max",
                   mesh.axes[partial.axis.index()].name);
  return text;
}

}  // namespace fourfold::program
