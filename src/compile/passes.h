// The passes from a graph to a rank's program as a list: each has a name, what it makes prints, and
// some may be left out. What a pass does stands in its own pair of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compile/departures.h"
#include "compile/liveness.h"
#include "compile/persistent_region.h"
#include "compile/recompute.h"
#include "compile/sharded_graph.h"
#include "compile/transfers.h"
#include "compile/use_cut_forms.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// What stands after `recompute`: the shardings are those of the graph before it.
struct RecomputedGraph {
  Recomputed recomputed;
  plan::GraphShardings shardings;
};

/// What stands between two passes.
using Form = std::variant<graph::Graph, CutGraph, RecomputedGraph, ShardedGraph, program::Program>;
/// The kind of the program that it is or becomes.
op::ProgramKind kind_of(const Form& form);
/// For people; a program prints as program::to_text does.
std::string to_text(const Form& form, const plan::Plan& plan);

/// What a program does with memory so that computation waits less: gathers go ahead, and memory
/// stays as it is for a while after other streams than math have used it.
struct Room {
  bool gathers_ahead = false;
  Reach reach;
  bool operator==(const Room&) const = default;
};

/// A small part of what a layer has.
inline constexpr std::size_t few_instructions = 10;
/// A program may grow by one part in so many, persistent memory included, for the stream of
/// gradients to lag.
inline constexpr std::int64_t most_growth = 32;
/// As much room as this reach is, for what may run beside computation.
Room room_of(const plan::Overlap& overlap, std::size_t instructions);

/// What passes may ask. All of it outlives the passes.
struct PassContext {
  const plan::Plan& plan;
  const machine::Target& target;
  const PersistentRegion& persistent;
  const Transfers& transfers;    // of the plan
  const Departures& departures;  // likewise
  Rank rank;
  Room room = {};  // set by run_passes, before the pass that uses it first
};

struct Pass {
  std::string_view name;  // of its file: "fuse_sums"
  bool is_optional = false;
  Form (*run)(Form form, const PassContext& context) = nullptr;
};

/// All passes in their order. Each takes the form that the one before it makes.
std::span<const Pass> passes();

/// How a compilation differs from the usual one.
struct PassOptions {
  std::vector<std::string> without = {};  // names of optional passes
  /// Sees what each pass has made; empty: nobody looks.
  std::function<void(const Pass& pass, const Form& form, const PassContext& context)> observer = {};
  std::optional<op::ProgramKind> only = {};  // the one graph that is compiled; none: all
  std::optional<Room> room = {};             // none: as much as the plan's limit on memory allows
  /// Only the memory of the programs is asked for: no pass after place_buffers but that of the
  /// rank.
  bool until_placed = false;
};

/// The passes fall into four stretches, one after another.
enum class Stretch : std::uint8_t {
  graph,     // those before `lower` make the same of a graph for all ranks of its mesh
  program,   // from `lower` on, those that ask of the target only what no kernel table changes
  kernels,   // from `choose_kernels` on: kernels and addresses, with the most room that the plan's
             // limit on memory allows, or with none where even that is beyond it
  complete,  // from `insert_waits` on
};
/// Runs the passes of a stretch on what those before it have made, but those that are left out.
/// Errors: InternalError for names of passes that must not be left out, or that there are none of.
Form run_passes(Stretch stretch, Form form, const PassContext& context, const PassOptions& options);

/// A program that no pass has finished, as one that can be verified: addresses of their own where
/// `place_buffers` has not been, one stream where `insert_waits` has not, some kernel where none is
/// chosen, and the attributes of the rank.
program::Program plainly_finished(program::Program program, Rank rank);

}  // namespace fourfold::compile
