// What ran when, on which stream of which rank: a value that needs no program to be understood.
// Made from measured intervals (make_timeline.h) or read back from a file (chrome_format.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op/program_kind.h"
#include "trace/interval.h"

namespace fourfold::trace {

/// What an instruction does to the time of a step.
enum class WorkClass : std::uint8_t {
  gemm,
  attention,
  elementwise,  // norms, activations, embeddings, loss, dropout, and whatever else is computed
  optimizer,    // computed in the update, its norm and its decision too
  communication,
  copy,  // within the rank's memory; packing and unpacking too
  feed,
  wait
};
std::string_view to_string(WorkClass work_class);
std::optional<WorkClass> find_work_class(std::string_view name);

/// One instruction of a program.
struct Work {
  std::size_t instruction = 0;  // its index in the program
  std::size_t stream = 0;       // index into RankTimeline::streams
  WorkClass work_class = WorkClass::elementwise;
  std::string name;  // "contract", "all_reduce", "wait"
  std::string text;  // "contract h1, w -> p1"; of a wait: what it waits for
  std::string task;  // "forward(0)"
  std::string implementation;
  std::string axis;  // of a collective: its group
  /// The class of what is exchanged: the axes and the purpose, "z.weights"; of messages their
  /// stream. A wait has that of what it waits for. Empty: neither exchanges nor waits for what
  /// does.
  std::string traffic;
  std::string awaited;  // of a wait: the stream it waits for
  double flops = 0;     // of a computation
  double bytes = 0;     // read and written, each operand once; of communication: the payload
  /// The same on all ranks that meet in it, and different for all others of a step: members of a
  /// collective, sender and receiver. Empty: meets nobody.
  std::string meeting;
  bool operator==(const Work&) const = default;
};

struct Span {
  std::size_t work = 0;  // index into RankTimeline::works
  Interval when;
  bool operator==(const Span&) const = default;
};

struct Step {
  std::int64_t number = 0;  // 1, 2, ... as everywhere people see it
  Interval whole;
  std::vector<Span> spans;  // in the order of their works; on one stream they do not overlap
  bool operator==(const Step&) const = default;
};

struct RankTimeline {
  std::size_t rank = 0;
  std::string place;  // "rank 1 (data 0, z 0, y 0, x 1)"
  std::string host;
  std::vector<std::string> streams;
  std::vector<Work> works;  // by instruction; records are left out
  std::vector<Step> steps;
  bool operator==(const RankTimeline&) const = default;
};

/// All times are on one clock, whose zero is the beginning of the first step of all ranks.
struct Timeline {
  op::ProgramKind program = op::ProgramKind::train;
  std::vector<RankTimeline> ranks;  // by rank
  bool operator==(const Timeline&) const = default;
};

}  // namespace fourfold::trace
