#include "compile/passes.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "base/overloaded.h"
#include "compile/branch_gradients.h"
#include "compile/choose_blocks.h"
#include "compile/choose_kernels.h"
#include "compile/fill_buckets.h"
#include "compile/fuse_averages.h"
#include "compile/fuse_casts.h"
#include "compile/fuse_neighbours.h"
#include "compile/fuse_norms.h"
#include "compile/fuse_sums.h"
#include "compile/fuse_update.h"
#include "compile/gather_ahead.h"
#include "compile/insert_conversions.h"
#include "compile/insert_waits.h"
#include "compile/join_collectives.h"
#include "compile/keep_rounded.h"
#include "compile/lower.h"
#include "compile/place_buffers.h"
#include "program/bind.h"
#include "program/text.h"

namespace fourfold::compile {
namespace {

using program::Program;

Form run_use_cut_forms(Form form, const PassContext& context) {
  return use_cut_forms(std::get<graph::Graph>(form), context.plan);
}

Form run_recompute(Form form, const PassContext& context) {
  CutGraph cut = std::get<CutGraph>(std::move(form));
  const plan::Checkpointing& checkpointing = context.plan.checkpointing_on(cut.graph.mesh);
  return RecomputedGraph{recompute(std::move(cut.graph), checkpointing,
                                   {context.target.repeated, context.target.repeated_for}),
                         std::move(cut.shardings)};
}

Form run_insert_conversions(Form form, const PassContext& context) {
  const auto& [recomputed, shardings] = std::get<RecomputedGraph>(form);
  return insert_conversions(recomputed, shardings, context.plan);
}

Form run_keep_rounded(Form form, const PassContext& context) {
  return keep_rounded(std::get<ShardedGraph>(std::move(form)), context.persistent);
}

Form run_choose_blocks(Form form, const PassContext& context) {
  return choose_blocks(std::get<ShardedGraph>(std::move(form)), context.plan);
}

Form run_lower(Form form, const PassContext& context) {
  return lower(std::get<ShardedGraph>(form), context.plan, context.persistent, context.transfers,
               context.departures, context.rank);
}

/// A pass that looks at the target.
template <Program (*pass)(Program, const machine::Target&)>
Form run_for_target(Form form, const PassContext& context) {
  return pass(std::get<Program>(std::move(form)), context.target);
}

Form run_fill_buckets(Form form, const PassContext& context) {
  return fill_buckets(std::get<Program>(std::move(form)), context.plan.bucket_bytes);
}

Form run_branch_gradients(Form form, const PassContext& context) {
  return branch_gradients(std::get<Program>(std::move(form)), context.plan, context.target);
}

Form run_gather_ahead(Form form, const PassContext& context) {
  Program program = std::get<Program>(std::move(form));
  if (!context.room.gathers_ahead) return program;
  return gather_ahead(std::move(program));
}

Form run_place_buffers(Form form, const PassContext& context) {
  return place_buffers(std::get<Program>(std::move(form)), context.room.reach);
}

Form run_insert_waits(Form form, const PassContext& context) {
  return insert_waits(std::get<Program>(std::move(form)), context.plan.overlap);
}

/// Ranks of one mesh must join alike, but those of several meshes differ in the messages they send,
/// and with them in what may move.
Form run_join_collectives(Form form, const PassContext& context) {
  Program program = std::get<Program>(std::move(form));
  if (!context.plan.edges.empty()) return program;
  return join_collectives(std::move(program));
}

Form run_bind(Form form, const PassContext& context) {
  Program program = std::get<Program>(std::move(form));
  program::bind(program, context.rank);
  return program;
}

constexpr bool optional = true;

constexpr Pass all_passes[] = {
    {"use_cut_forms", false, run_use_cut_forms},
    {"recompute", false, run_recompute},
    {"insert_conversions", false, run_insert_conversions},
    {"keep_rounded", optional, run_keep_rounded},
    {"choose_blocks", false, run_choose_blocks},
    {"lower", false, run_lower},
    {"fuse_norms", optional, run_for_target<fuse_norms>},
    {"fuse_neighbours", optional, run_for_target<fuse_neighbours>},
    {"fuse_sums", optional, run_for_target<fuse_sums>},
    {"fuse_update", optional, run_for_target<fuse_update>},
    {"fuse_averages", optional, run_for_target<fuse_averages>},
    {"fuse_casts", optional, run_for_target<fuse_casts>},
    {"fill_buckets", optional, run_fill_buckets},
    {"join_collectives", optional, run_join_collectives},
    {"branch_gradients", optional, run_branch_gradients},
    {"choose_kernels", false, run_for_target<choose_kernels>},
    {"gather_ahead", optional, run_gather_ahead},
    {"place_buffers", false, run_place_buffers},
    {"insert_waits", false, run_insert_waits},
    {"bind", false, run_bind},
};

// --- text

class ShardedText {
 public:
  ShardedText(const ShardedGraph& graph, const plan::Plan& plan) : graph_(graph), plan_(plan) {}

  std::string print() const {
    std::string text = format("graph {}\n", op::to_string(graph_.kind));
    for (const Step& step : graph_.steps)
      text += std::visit([&](const auto& what) { return line(what); }, step);
    return text;
  }

 private:
  std::string line(const graph::Node& node) const {
    const std::string attributes = op::attributes_text(node.op, std::nullopt);
    return format("{:<9}{:<28}{} -> {}{}{}\n", graph::to_string(node.phase), op::name(node.op),
                  names(node.reads), sharded(node.outputs), attributes.empty() ? "" : "  ",
                  attributes);
  }
  std::string line(const Move& move) const {
    const Mesh& mesh = plan_.meshes[graph_.mesh.index()];
    std::string along;
    for (const AxisId axis : move.conversion.axes)
      along += format("{}{}", along.empty() ? "" : ", ", mesh.axes[axis.index()].name);
    return format("{:<9}{:<28}{} -> {}  along {}{}\n", graph::to_string(move.phase),
                  to_string(move.conversion.kind), graph_.value(move.from).name, sharded({move.to}),
                  along, move.sum ? format(", added to {}", graph_.value(*move.sum).name) : "");
  }
  std::string line(const Handover& handover) const {
    return format("{:<9}{:<28}{}\n", graph::to_string(handover.phase),
                  handover.sends ? "send" : "recv", graph_.value(handover.value).name);
  }

  std::string names(const std::vector<ValueId>& ids) const {
    std::string text;
    for (const ValueId id : ids)
      text += format("{}{}", text.empty() ? "" : ", ", graph_.value(id).name);
    return text;
  }
  /// "h1 [12 (data), 64 (y)]".
  std::string sharded(const std::vector<ValueId>& ids) const {
    std::string text;
    for (const ValueId id : ids) {
      const ShardedValue& value = graph_.value(id);
      const Mesh& mesh = plan_.meshes[value.sharding.mesh.index()];
      text += format("{}{} {}", text.empty() ? "" : ", ", value.name,
                     op::to_string(value.shape, value.sharding, mesh));
    }
    return text;
  }

  const ShardedGraph& graph_;
  const plan::Plan& plan_;
};

bool is_left_out(const Pass& pass, const PassOptions& options) {
  return std::ranges::find(options.without, pass.name) != options.without.end();
}

/// How much room a program that has no addresses yet is given.
class RoomChooser {
 public:
  RoomChooser(const Form& form, const PassContext& context, const PassOptions& options)
      : form_(form), context_(context), options_(options) {}

  Room choose() const {
    Room room = for_exchanges();
    room.reach.gradient_bytes = for_gradients(room);
    return room;
  }

 private:
  /// The most room with which it is within the limit. Without one what is sent stays while the next
  /// layer computes, and not longer: the gradients of a whole model, before they are scattered,
  /// would fill any memory.
  Room for_exchanges() const {
    if (std::get<Program>(form_).groups.empty()) return {};
    const plan::Overlap& overlap = context_.plan.overlap;
    if (!context_.plan.memory_limit) return room_of(overlap, some_instructions);
    constexpr std::size_t whole_task = std::numeric_limits<std::size_t>::max();
    for (const std::size_t reach :
         {whole_task, some_instructions, few_instructions, std::size_t{0}}) {
      const Room room = room_of(overlap, reach);
      if (bytes_with(room) <= *context_.plan.memory_limit) return room;
    }
    return {};
  }

  /// What the stream of gradients may keep so that it can lag: a small part of all memory. It is
  /// less where buffers that lie elsewhere for it leave gaps.
  std::int64_t for_gradients(Room room) const {
    const std::vector<std::string>& streams = std::get<Program>(form_).streams;
    if (std::ranges::find(streams, program::gradient_stream) == streams.end()) return 0;
    const std::int64_t least = bytes_with(room);
    std::int64_t most = least + least / most_growth;
    if (context_.plan.memory_limit) most = std::min(most, *context_.plan.memory_limit);
    for (const std::int64_t divisor : {1, 2, 4}) {
      room.reach.gradient_bytes = least / most_growth / divisor;
      if (bytes_with(room) <= most) return room.reach.gradient_bytes;
    }
    return 0;
  }

  std::int64_t bytes_with(const Room& room) const {
    PassContext with_room = context_;
    with_room.room = room;
    Form tried = form_;
    for (const Pass& pass : all_passes)
      if ((pass.run == run_gather_ahead && !is_left_out(pass, options_)) ||
          pass.run == run_place_buffers)
        tried = pass.run(std::move(tried), with_room);
    return context_.persistent.bytes + std::get<Program>(tried).transient_bytes;
  }

  const Form& form_;
  const PassContext& context_;
  const PassOptions& options_;
};

void check_names(const std::vector<std::string>& without) {
  for (const std::string& name : without) {
    const auto* pass = std::ranges::find(all_passes, name, &Pass::name);
    require(pass != std::end(all_passes) && pass->is_optional,
            format("{} is a pass that may be left out", name));
  }
}

std::span<const Pass> passes_of(Stretch stretch) {
  const auto* const lower = std::ranges::find(all_passes, &run_lower, &Pass::run);
  const auto* const kernels =
      std::ranges::find(all_passes, &run_for_target<choose_kernels>, &Pass::run);
  const auto* const waits = std::ranges::find(all_passes, &run_insert_waits, &Pass::run);
  switch (stretch) {
    case Stretch::graph:
      return {std::begin(all_passes), lower};
    case Stretch::program:
      return {lower, kernels};
    case Stretch::kernels:
      return {kernels, waits};
    case Stretch::complete:
      return {waits, std::end(all_passes)};
  }
  fail_internal("every stretch has its passes");
}

void run_pass(const Pass& pass, Form& form, const PassContext& context,
              const PassOptions& options) {
  if (is_left_out(pass, options)) return;
  form = pass.run(std::move(form), context);
  if (options.observer) options.observer(pass, form, context);
}

}  // namespace

std::string_view to_string(MoveKind kind) {
  if (const auto collective = kind.collective()) return to_string(*collective);
  switch (kind.own()) {
    case OwnMove::slice:
      return "slice";
    case OwnMove::copy:
      return "copy";
    case OwnMove::pack:
      return "pack";
    case OwnMove::unpack:
      return "unpack";
  }
  fail_internal("a move has a kind");
}

Room room_of(const plan::Overlap& overlap, std::size_t instructions) {
  return {overlap.all_gather, {overlap.reduce_scatter ? instructions : 0}};
}

op::ProgramKind kind_of(const Form& form) {
  return std::visit(
      Overloaded{[](const CutGraph& cut) { return cut.graph.kind; },
                 [](const RecomputedGraph& made) { return made.recomputed.graph.kind; },
                 [](const auto& graph_or_program) { return graph_or_program.kind; }},
      form);
}

std::string to_text(const Form& form, const plan::Plan& plan) {
  return std::visit(
      Overloaded{[](const graph::Graph& graph) { return graph::to_text(graph); },
                 [](const CutGraph& cut) { return graph::to_text(cut.graph); },
                 [](const RecomputedGraph& made) { return graph::to_text(made.recomputed.graph); },
                 [&](const ShardedGraph& graph) { return ShardedText(graph, plan).print(); },
                 [](const Program& program) { return program::to_text(program); }},
      form);
}

std::span<const Pass> passes() {
  return all_passes;
}

Form run_passes(Stretch stretch, Form form, const PassContext& context,
                const PassOptions& options) {
  check_names(options.without);
  PassContext with_room = context;
  for (const Pass& pass : passes_of(stretch)) {
    if (pass.run == run_gather_ahead)
      with_room.room = options.room ? *options.room : RoomChooser(form, context, options).choose();
    if (options.until_placed && pass.run == run_insert_waits) continue;
    run_pass(pass, form, with_room, options);
  }
  return form;
}

Program plainly_finished(Program program, Rank rank) {
  const auto is = [&]<class Kind>(const Kind&) {
    return std::ranges::any_of(program.instructions, [](const program::Instruction& instruction) {
      return std::holds_alternative<Kind>(instruction.what);
    });
  };
  if (program.transient_bytes == 0) {
    for (program::Buffer& buffer : program.buffers) {
      if (buffer.region == program::Region::persistent) continue;
      buffer.offset_bytes = program.transient_bytes;
      program.transient_bytes += align_up(buffer.space_bytes());
    }
  }
  if (!is(program::Record())) {
    program.streams = {"math"};
    for (program::Instruction& instruction : program.instructions)
      instruction.stream = program::StreamId(std::size_t{0});
  }
  for (program::Instruction& instruction : program.instructions)
    if (auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (compute->implementation.empty()) compute->implementation = "any";
  program::bind(program, rank);
  return program;
}

}  // namespace fourfold::compile
