// update-once, feeds: whether each parameter learns once, and from each sample once.
#include <algorithm>
#include <array>
#include <map>

#include "base/format.h"
#include "op/blocks.h"
#include "program/interval_map.h"
#include "program/verify_rules.h"
#include "program/verify_state.h"

namespace fourfold::program {
namespace {

constexpr std::size_t counter_operand = 4, weight_operand = 5;  // of op::AdamW::operands

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
      if (compute != nullptr && is_update(compute->op)) {
        updates = true;
        for_each_part(*compute, [&](const Compute& part) { update(part, i); });
      } else if (compute != nullptr && std::holds_alternative<op::CountUpdate>(compute->op)) {
        count(*compute, i);
      } else if (gather != nullptr && gather->from.buffer == gather->to.buffer) {
        complete(*gather, i);
      } else if (!incomplete_.empty()) {
        check_untouched(i);
      }
    }
    if (updates) check_all();
  }

 private:
  void fault(std::size_t index, std::string_view message) {
    report_.fault("update-once", index, message);
  }

  void update(const Compute& compute, std::size_t index) {
    constexpr std::array<BufferRole, 3> roles = {BufferRole::parameter, BufferRole::moment,
                                                 BufferRole::moment};
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const Buffer& buffer = program_.buffer(compute.slices[weight_operand + i].buffer);
      if (buffer.role != roles[i])
        fault(index, format("{} is a {}, expected a {}", buffer.name, to_string(buffer.role),
                            to_string(roles[i])));
      note_update(compute.slices[weight_operand + i], index);
    }
    if (const auto own = own_update(claims_, compute))
      incomplete_.try_emplace(compute.slices[weight_operand].buffer, Own{own->added, index});
    const BufferId counter = compute.slices[counter_operand].buffer;
    if (const auto counted = counted_.find(counter); counted != counted_.end())
      fault(index, format("instruction {} has already counted the update in {}", counted->second,
                          program_.buffer(counter).name));
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

  void count(const Compute& compute, std::size_t index) {
    const BufferId counter = compute.slices[1].buffer;
    const auto [place, inserted] = counted_.try_emplace(counter, index);
    if (!inserted)
      fault(index, format("instruction {} has already counted the update in {}", place->second,
                          program_.buffer(counter).name));
  }

  /// A gather of the owners' rows along the axis by which they were cut.
  void complete(const AllGather& gather, std::size_t index) {
    const Group& group = program_.groups[gather.group.index()];
    const std::string& name = program_.buffer(gather.to.buffer).name;
    const auto own = incomplete_.find(gather.to.buffer);
    if (own == incomplete_.end()) {
      fault(index, format("no update of own rows of {} comes before", name));
      return;
    }
    const op::Cut& cut = own->second.added.back();
    if (own->second.added.size() != 1 || cut.axis != group.axis)
      fault(index, format("instruction {} updates rows of {} cut by {}, this gathers along {}",
                          own->second.index, name, axis_name(gather.to.buffer, cut.axis),
                          axis_name(gather.to.buffer, group.axis)));
    for_each_run(program_, gather.to, [&](const AddressRange& run) {
      bytes_.change(run.begin, run.end, [&](std::optional<std::size_t>& by) { by = index; });
    });
    incomplete_.erase(own);
  }

  const std::string& axis_name(BufferId id, AxisId axis) const {
    return claims_.mesh(id).axes[axis.index()].name;
  }

  /// Between an update of own rows and their gather, the other rows are of the step before.
  void check_untouched(std::size_t index) {
    for (const Access& access : accesses(program_.instructions[index]))
      if (const auto own = incomplete_.find(access.slice.buffer); own != incomplete_.end())
        fault(index, format("only this rank's rows of {} are up to date since instruction {}",
                            program_.buffer(access.slice.buffer).name, own->second.index));
  }

  void check_all() {
    for (const auto& [id, own] : incomplete_)
      fault(own.index, format("the rows of {} that other ranks update are never gathered along {}",
                              program_.buffer(id).name, axis_name(id, own.added.back().axis)));
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const BufferId id(i);
      if (buffer.role == BufferRole::counter && !counted_.contains(id))
        report_.fault("update-once", format("the update is not counted in {}", buffer.name));
      if ((buffer.role != BufferRole::parameter && buffer.role != BufferRole::moment) ||
          incomplete_.contains(id))
        continue;
      bool complete = true;
      bytes_.visit(address(program_, id), address(program_, id) + buffer.size_bytes,
                   [&](const auto& updated_by) { complete = complete && updated_by; });
      if (!complete)
        report_.fault("update-once", format("{} {} is not updated, or not all of it",
                                            to_string(buffer.role), buffer.name));
    }
  }

  struct Own {
    std::vector<op::Cut> added;
    std::size_t index = 0;
  };

  const Program& program_;
  Claims& claims_;
  Report& report_;
  IntervalMap<std::optional<std::size_t>> bytes_;  // which instruction updated or gathered them
  std::map<BufferId, std::size_t> counted_;
  std::map<BufferId, Own> incomplete_;
};

// --- feeds

/// Whether the fed buffer holds [samples, length] and its cut gives this rank the samples of the
/// table.
std::string feed_problem(Claims& claims, const Feed& feed) {
  const Feeds& feeds = claims.program().feeds;
  const Buffer& buffer = claims.program().buffer(feed.to.buffer);
  if (buffer.dtype != DType::i32)
    return format("{} holds {}, expected i32", buffer.name, fourfold::to_string(buffer.dtype));
  std::int64_t bytes = size_bytes(DType::i32);
  if (feeds.count < 1 || feeds.length < 1 || __builtin_mul_overflow(bytes, feeds.count, &bytes) ||
      __builtin_mul_overflow(bytes, feeds.length, &bytes) || feed.to.bytes() != bytes)
    return format("{} bytes of {} do not hold {} samples of {} tokens", feed.to.bytes(),
                  buffer.name, feeds.count, feeds.length);
  if (feed.micro < 0 || feed.micro >= feeds.micros)
    return format("micro-batch {} of {}", feed.micro, feeds.micros);
  if (buffer.global != Shape{feeds.samples, feeds.length})
    return format("{} has shape {}, a micro-batch {}", buffer.name, to_string(buffer.global),
                  to_string(Shape{feeds.samples, feeds.length}));
  const std::int64_t first = claims.first(feed.to.buffer, 0);
  if (first != feeds.first)
    return format("the cut of {} gives this rank samples from {} on, the feeds from {}",
                  buffer.name, first, feeds.first);
  return {};
}

using FedBuffers = std::map<BufferId, FeedKind>;

/// Operands that are named after a kind of feed hold that kind, where it is known what they hold.
void check_kinds_read(const Program& program, std::size_t index, const Compute& compute,
                      const FedBuffers& fed, Report& report) {
  const op::Operands operands = op::operands(compute.op);
  for (std::size_t i = 0; i < std::min(operands.size(), compute.slices.size()); ++i) {
    const auto held = fed.find(compute.slices[i].buffer);
    if (held == fed.end() || to_string(held->second) == operands[i].name) continue;
    for (const FeedKind kind : feed_kinds)
      if (to_string(kind) == operands[i].name)
        report.fault(
            "feeds", index,
            format("{} reads the {} in {} as {}", op::name(compute.op), to_string(held->second),
                   program.buffer(held->first).name, operands[i].name));
  }
}

/// All feeds have one type and shape, so nothing else tells them apart. Follows them through the
/// copies that cut them further.
void check_kinds(const Program& program, Report& report) {
  FedBuffers fed;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const What& what = program.instructions[i].what;
    if (const auto* feed = std::get_if<Feed>(&what)) {
      fed[feed->to.buffer] = feed->kind;
    } else if (const auto* copy = std::get_if<Copy>(&what)) {
      if (const auto from = fed.find(copy->from.buffer); from != fed.end())
        fed[copy->to.buffer] = from->second;
    } else if (const auto* compute = std::get_if<Compute>(&what)) {
      check_kinds_read(program, i, *compute, fed, report);
    }
  }
}

}  // namespace

void check_updates(Claims& claims, Report& report) {
  UpdateCheck(claims, report).run();
}

void check_feeds(Claims& claims, Report& report) {
  const Program& program = claims.program();
  check_kinds(program, report);
  std::map<std::pair<FeedKind, std::int64_t>, std::size_t> fed;
  std::array<std::int64_t, feed_kinds.size()> count = {};
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* feed = std::get_if<Feed>(&program.instructions[i].what);
    if (feed == nullptr) continue;
    if (const std::string problem = feed_problem(claims, *feed); !problem.empty()) {
      report.fault("feeds", i, problem);
      continue;
    }
    const auto [place, inserted] = fed.try_emplace({feed->kind, feed->micro}, i);
    if (!inserted)
      report.fault("feeds", i,
                   format("instruction {} has fed {} of micro-batch {} before", place->second,
                          to_string(feed->kind), feed->micro));
    else
      ++count[static_cast<std::size_t>(feed->kind)];
  }
  const bool receives =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& i) { return std::holds_alternative<Recv>(i.what); });
  for (const FeedKind kind : feed_kinds) {
    const std::int64_t found = count[static_cast<std::size_t>(kind)];
    // The others may be absent (a prefill has no labels), tokens only where another mesh has them.
    const bool may_be_absent = kind != FeedKind::tokens || receives;
    if (found != program.feeds.micros && (found != 0 || !may_be_absent))
      report.fault("feeds", format("{} of {} micro-batches are fed their {}", found,
                                   program.feeds.micros, to_string(kind)));
  }
}

}  // namespace fourfold::program
