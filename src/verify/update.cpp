// update-once, feeds: whether each parameter learns once, and from each sample once.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/format.h"
#include "base/interval_map.h"
#include "op/blocks.h"
#include "verify/rules.h"
#include "verify/state.h"

namespace fourfold::verify {
namespace {

/// Each byte of a parameter is updated once, here or, where its moments are cut further than it, by
/// the rank that owns it; then the owners' rows are gathered in place.
class UpdateCheck {
 public:
  UpdateCheck(Claims& claims, Report& report)
      : program_(claims.program()), claims_(claims), report_(report), bytes_(std::nullopt) {}

  void run() {
    // An update task without any update is no program that has none.
    bool updates = std::any_of(program_.tasks.begin(), program_.tasks.end(),
                               [](const Task& task) { return task.kind == TaskKind::update; });
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const What& what = program_.instructions[i].what;
      const auto* compute = std::get_if<Compute>(&what);
      const auto* gather = std::get_if<AllGather>(&what);
      if (compute != nullptr) check_counters_read(*compute, i);
      if (compute != nullptr && is_update(compute->op)) {
        updates = true;
        for_each_piece(*compute, [&](const Compute& piece) { update(piece, i); });
      } else if (compute != nullptr && op::updates(compute->op, op::State::average)) {
        note_state(*compute, i);
      } else if (compute != nullptr && counted_by(*compute)) {
        count(*compute, *counted_by(*compute), i);
      } else if (gather != nullptr) {
        for_each_tensor(*gather, [&](const Slice& from, const Slice& to) {
          if (from.buffer == to.buffer) return complete(gather->group, to, i);
          check_untouched(from, i);
          check_untouched(to, i);
        });
      } else if (!incomplete_.empty()) {
        for (const Access& access : accesses(program_.instructions[i]))
          check_untouched(access.slice, i);
      }
    }
    if (updates) check_all();
  }

  /// Which counter a row adds to.
  static std::optional<op::State> counted_by(const Compute& compute) {
    for (const op::State state : {op::State::counter, op::State::non_finite})
      if (op::updates(compute.op, state)) return state;
    return std::nullopt;
  }

 private:
  void fault(std::size_t index, std::string_view message) {
    report_.fault("update-once", index, message);
  }

  /// The state that a row updates.
  void note_state(const Compute& compute, std::size_t index) {
    const op::Operands operands = op::operands(compute.op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role != op::Role::update || operands[i].state == op::State::none) continue;
      const Buffer& buffer = program_.buffer(compute.slices[i].buffer);
      const BufferRole expected = role_of(operands[i].state);
      if (buffer.role != expected)
        fault(index, format("{} is a {}, expected a {}", buffer.name, to_string(buffer.role),
                            to_string(expected)));
      note_update(compute.slices[i], index);
    }
  }

  void update(const Compute& compute, std::size_t index) {
    note_state(compute, index);
    const auto slice_of = [&](op::State state) {
      return compute.slices[op::operand_of(compute.op, state).value()];
    };
    if (const auto own = own_update(claims_, compute))
      incomplete_.try_emplace(slice_of(op::State::weight).buffer, Own{own->added, index});
  }

  /// Whoever reads a counter reads what the updates before this one have left.
  void check_counters_read(const Compute& compute, std::size_t index) {
    for (const op::State state : {op::State::counter, op::State::non_finite}) {
      const auto operand = op::operand_of(compute.op, state);
      if (!operand || op::updates(compute.op, state)) continue;
      const BufferId counter = compute.slices[*operand].buffer;
      read_as_.try_emplace({counter, state}, index);
      if (const auto counted = counted_.find(counter); counted != counted_.end())
        fault(index, format("instruction {} has already counted in {}", counted->second.index,
                            program_.buffer(counter).name));
    }
  }

  static BufferRole role_of(op::State state) {
    if (state == op::State::weight) return BufferRole::parameter;
    if (state == op::State::average) return BufferRole::average;
    if (state == op::State::rounded) return BufferRole::rounded;
    return state == op::State::moment ? BufferRole::moment : BufferRole::counter;
  }

  void note_update(const Slice& slice, std::size_t index) {
    std::optional<std::size_t> earlier;
    for_each_run(program_, slice, [&](const AddressRange& run) {
      bytes_.change(run.begin, run.end, [&](std::optional<std::size_t>& updated_by) {
        if (updated_by) earlier = updated_by;
        updated_by = index;
      });
    });
    if (earlier)
      fault(index, format("instruction {} has already updated {}", *earlier,
                          program_.buffer(slice.buffer).name));
  }

  void count(const Compute& compute, op::State state, std::size_t index) {
    const BufferId counter = compute.slices[op::operand_of(compute.op, state).value()].buffer;
    const auto [place, inserted] = counted_.try_emplace(counter, Counted{state, index});
    if (!inserted)
      fault(index, format("instruction {} has already counted in {}", place->second.index,
                          program_.buffer(counter).name));
  }

  /// A gather of the owners' rows along the axis by which they were cut.
  void complete(GroupId along, const Slice& rows, std::size_t index) {
    const Group& group = program_.groups[along.index()];
    const std::string& name = program_.buffer(rows.buffer).name;
    const auto own = incomplete_.find(rows.buffer);
    if (own == incomplete_.end()) {
      fault(index, format("no update of own rows of {} comes before", name));
      return;
    }
    const op::Cut& cut = own->second.added.back();
    if (own->second.added.size() != 1 || group.axes != std::vector{cut.axis})
      fault(index, format("instruction {} updates rows of {} cut by {}, this gathers along {}",
                          own->second.index, name, axis_name(rows.buffer, cut.axis),
                          program_.axes_text(group)));
    for_each_run(program_, rows, [&](const AddressRange& run) {
      bytes_.change(run.begin, run.end, [&](std::optional<std::size_t>& by) { by = index; });
    });
    incomplete_.erase(own);
  }

  const std::string& axis_name(BufferId id, AxisId axis) const {
    return claims_.mesh(id).axes[axis.index()].name;
  }

  /// Between an update of own rows and their gather, the other rows are of the step before.
  void check_untouched(const Slice& slice, std::size_t index) {
    if (const auto own = incomplete_.find(slice.buffer); own != incomplete_.end())
      fault(index, format("only this rank's rows of {} are up to date since instruction {}",
                          program_.buffer(slice.buffer).name, own->second.index));
  }

  void check_all() {
    for (const auto& [read, index] : read_as_)
      if (const auto counted = counted_.find(read.first);
          counted != counted_.end() && counted->second.state != read.second)
        fault(index, format("it takes {} for {}, but instruction {} counts in it {}",
                            program_.buffer(read.first).name, counted_text(read.second),
                            counted->second.index, counted_text(counted->second.state)));
    for (const auto& [id, own] : incomplete_)
      fault(own.index, format("the rows of {} that other ranks update are never gathered along {}",
                              program_.buffer(id).name, axis_name(id, own.added.back().axis)));
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const BufferId id(i);
      if (buffer.role == BufferRole::counter && !counted_.contains(id))
        report_.fault("update-once", format("nothing is counted in {}", buffer.name));
      if (!is_learned(buffer.role) || incomplete_.contains(id)) continue;
      bool complete = true;
      bytes_.visit(address(program_, id), address(program_, id) + buffer.size_bytes,
                   [&](const auto& updated_by) { complete = complete && updated_by; });
      if (!complete)
        report_.fault("update-once", format("{} {} is not updated, or not all of it",
                                            to_string(buffer.role), buffer.name));
    }
  }

  static std::string_view counted_text(op::State state) {
    return state == op::State::counter ? "the number of updates"
                                       : "the number of elements that are not finite";
  }

  struct Counted {
    op::State state = op::State::counter;
    std::size_t index = 0;  // instruction
  };
  struct Own {
    std::vector<op::Cut> added;
    std::size_t index = 0;
  };

  const Program& program_;
  Claims& claims_;
  Report& report_;
  IntervalMap<std::optional<std::size_t>> bytes_;  // which instruction updated or gathered them
  std::map<BufferId, Counted> counted_;
  std::map<std::pair<BufferId, op::State>, std::size_t> read_as_;  // by the first instruction
  std::map<BufferId, Own> incomplete_;
};

// --- feeds

/// Checks that the fed buffer holds a micro-batch of the input as it is declared, or a chunk of it,
/// and its cut gives this rank the samples of the table.
std::string feed_problem(Claims& claims, const Feed& feed) {
  const Feeds& feeds = claims.program().feeds;
  const Input& input = claims.program().inputs[feed.input.index()];
  const Buffer& buffer = claims.program().buffer(feed.to.buffer);
  if (buffer.dtype != input.dtype)
    return format("{} holds {}, expected {}", buffer.name, fourfold::to_string(buffer.dtype),
                  fourfold::to_string(input.dtype));
  const std::int64_t count = feeds.count / feeds.chunks;
  std::int64_t bytes = 0;
  if (count < 1 || __builtin_mul_overflow(input.sample_bytes(), count, &bytes) ||
      feed.to.bytes() != bytes)
    return format("{} bytes of {} do not hold {} samples of {} bytes", feed.to.bytes(), buffer.name,
                  count, input.sample_bytes());
  if (feed.micro < 0 || feed.micro >= feeds.micros)
    return format("micro-batch {} of {}", feed.micro, feeds.micros);
  if (feed.chunk < 0 || feed.chunk >= feeds.chunks)
    return format("chunk {} of {}", feed.chunk, feeds.chunks);
  Shape fed{feeds.samples / feeds.chunks};
  for (const std::int64_t size : input.sample_shape) fed.push_back(size);
  if (buffer.global != fed)
    return format("{} has shape {}, a {} {}", buffer.name, to_string(buffer.global),
                  feeds.chunks == 1 ? "micro-batch" : "chunk", to_string(fed));
  // A rank's rows lie among those of a chunk as its samples do among all of the micro-batch.
  std::int64_t first = claims.first(feed.to.buffer, 0);
  if (__builtin_mul_overflow(first, feeds.chunks, &first) || first != feeds.first)
    return format("the cut of {} gives this rank samples from {} on, the feeds from {}",
                  buffer.name, first, feeds.first);
  return {};
}

/// "micro-batch 3", "chunk 1 of micro-batch 3".
std::string text_of(const Feeds& feeds, const Feed& feed) {
  const std::string micro = format("micro-batch {}", feed.micro);
  return feeds.chunks == 1 ? micro : format("chunk {} of {}", feed.chunk, micro);
}

using FedBuffers = std::map<BufferId, InputId>;

/// Operands that are named after an input hold that input, where it is known what they hold.
void check_inputs_read(const Program& program, std::size_t index, const Compute& compute,
                       const FedBuffers& fed, Report& report) {
  const op::Operands operands = op::operands(compute.op);
  for (std::size_t i = 0; i < std::min(operands.size(), compute.slices.size()); ++i) {
    const auto held = fed.find(compute.slices[i].buffer);
    if (held == fed.end()) continue;
    const std::string& held_name = program.inputs[held->second.index()].name;
    if (held_name == operands[i].name) continue;
    for (const Input& input : program.inputs)
      if (input.name == operands[i].name)
        report.fault("feeds", index,
                     format("{} reads the {} in {} as {}", op::name(compute.op), held_name,
                            program.buffer(held->first).name, operands[i].name));
  }
}

/// Inputs may have one type and shape, and nothing else tells these apart. Follows them through the
/// copies that cut them further.
void check_inputs_read(const Program& program, Report& report) {
  FedBuffers fed;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const What& what = program.instructions[i].what;
    if (const auto* feed = std::get_if<Feed>(&what)) {
      fed[feed->to.buffer] = feed->input;
    } else if (const auto* copy = std::get_if<Copy>(&what)) {
      if (const auto from = fed.find(copy->from.buffer); from != fed.end())
        fed[copy->to.buffer] = from->second;
    } else if (const auto* compute = std::get_if<Compute>(&what)) {
      check_inputs_read(program, i, *compute, fed, report);
    }
  }
}

}  // namespace

void check_updates(Claims& claims, Report& report) {
  UpdateCheck(claims, report).run();
}

void check_feeds(Claims& claims, Report& report) {
  const Program& program = claims.program();
  check_inputs_read(program, report);
  std::map<std::tuple<InputId, std::int64_t, std::int64_t>, std::size_t> fed;
  std::vector<std::int64_t> count(program.inputs.size(), 0);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* feed = std::get_if<Feed>(&program.instructions[i].what);
    if (feed == nullptr) continue;
    if (const std::string problem = feed_problem(claims, *feed); !problem.empty()) {
      report.fault("feeds", i, problem);
      continue;
    }
    const std::size_t input = feed->input.index();
    const auto [place, inserted] = fed.try_emplace({feed->input, feed->micro, feed->chunk}, i);
    if (!inserted)
      report.fault("feeds", i,
                   format("instruction {} has fed {} of {} before", place->second,
                          program.inputs[input].name, text_of(program.feeds, *feed)));
    else
      ++count[input];
  }
  const Feeds& feeds = program.feeds;
  for (std::size_t i = 0; i < count.size(); ++i)
    if (count[i] % feeds.chunks != 0 || count[i] / feeds.chunks != feeds.micros)
      report.fault("feeds",
                   format("{} of {} micro-batches{} are fed their {}", count[i], feeds.micros,
                          feeds.chunks == 1 ? "" : format(" x {} chunks", feeds.chunks),
                          program.inputs[i].name));
  // Only where another mesh hands it what it computes on may a mesh be fed nothing.
  const bool receives =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& i) { return std::holds_alternative<Recv>(i.what); });
  if (program.inputs.empty() && program.feeds.micros > 0 && !receives)
    report.fault("feeds", format("{} micro-batches of nothing that is fed", program.feeds.micros));
}

}  // namespace fourfold::verify
