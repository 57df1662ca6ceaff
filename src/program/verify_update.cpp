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

class UpdateCheck {
 public:
  UpdateCheck(const Program& program, Report& report)
      : program_(program), report_(report), bytes_(Bytes{}) {}

  void run() {
    bool updates = false;
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const What& what = program_.instructions[i].what;
      const auto* compute = std::get_if<Compute>(&what);
      if (compute != nullptr && std::holds_alternative<op::AdamW>(compute->op)) {
        updates = true;
        update(*compute, i);
      } else if (compute != nullptr && std::holds_alternative<op::CountUpdate>(compute->op)) {
        count(*compute, i);
      } else if (compute == nullptr) {
        note_collective(i);
      }
    }
    if (updates) check_all();
  }

 private:
  struct Bytes {
    std::optional<std::size_t> updated_by;
    bool gathered = false;  // another rank updated it, a collective brought it here
  };

  void update(const Compute& compute, std::size_t index) {
    constexpr std::array<BufferRole, 3> roles = {BufferRole::parameter, BufferRole::moment,
                                                 BufferRole::moment};
    constexpr std::size_t first_update = 5;  // behind grad, lr, scale, applied, updates
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const Slice& slice = compute.slices[first_update + i];
      const Buffer& buffer = program_.buffer(slice.buffer);
      if (buffer.role != roles[i])
        report_.fault("update-once", index,
                      format("{} is a {}, expected a {}", buffer.name, to_string(buffer.role),
                             to_string(roles[i])));
      note_update(slice, index);
    }
    const BufferId counter = compute.slices[first_update - 1].buffer;
    if (const auto counted = counted_.find(counter); counted != counted_.end())
      report_.fault("update-once", index,
                    format("instruction {} has already counted the update in {}", counted->second,
                           program_.buffer(counter).name));
  }

  void note_update(const Slice& slice, std::size_t index) {
    std::optional<std::size_t> earlier;
    for_each_run(program_, slice, [&](const AddressRange& run) {
      bytes_.change(run.begin, run.end, [&](Bytes& bytes) {
        if (bytes.updated_by) earlier = bytes.updated_by;
        bytes.updated_by = index;
      });
    });
    if (earlier)
      report_.fault("update-once", index,
                    format("instruction {} has already updated {}", *earlier,
                           program_.buffer(slice.buffer).name));
  }

  void count(const Compute& compute, std::size_t index) {
    const BufferId counter = compute.slices[1].buffer;
    const auto [place, inserted] = counted_.try_emplace(counter, index);
    if (!inserted)
      report_.fault("update-once", index,
                    format("instruction {} has already counted the update in {}", place->second,
                           program_.buffer(counter).name));
  }

  void note_collective(std::size_t index) {
    for (const Access& access : accesses(program_.instructions[index])) {
      if (access.role == op::Role::read) continue;
      for_each_run(program_, access.slice, [&](const AddressRange& run) {
        bytes_.change(run.begin, run.end, [](Bytes& bytes) { bytes.gathered = true; });
      });
    }
  }

  void check_all() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const BufferId id(i);
      if (buffer.role == BufferRole::counter && !counted_.contains(id))
        report_.fault("update-once", format("the update is not counted in {}", buffer.name));
      if (buffer.role != BufferRole::parameter && buffer.role != BufferRole::moment) continue;
      bool complete = true;
      bytes_.visit(
          address(program_, id), address(program_, id) + buffer.size_bytes,
          [&](const Bytes& bytes) { complete = complete && (bytes.updated_by || bytes.gathered); });
      if (!complete)
        report_.fault("update-once", format("{} {} is not updated, or not all of it",
                                            to_string(buffer.role), buffer.name));
    }
  }

  const Program& program_;
  Report& report_;
  IntervalMap<Bytes> bytes_;
  std::map<BufferId, std::size_t> counted_;
};

// --- feeds

std::string_view kind_text(FeedKind kind) {
  return kind == FeedKind::tokens ? "tokens" : "labels";
}

/// Whether the fed buffer holds [samples, length] and its cut gives this rank the samples of the
/// table.
std::string feed_problem(const Program& program, const Feed& feed) {
  const Feeds& feeds = program.feeds;
  const Buffer& buffer = program.buffer(feed.to.buffer);
  const Mesh& mesh = mesh_of(program, feed.to);
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
  const op::Sharding claim = normalized(buffer.sharding, mesh);
  std::int64_t first = 0;
  if (!claim.dims.empty())
    first = block_start(claim.dims[0], feeds.samples, mesh, *own_coordinates(program, claim.mesh));
  if (first != feeds.first)
    return format("the cut of {} gives this rank samples from {} on, the feeds from {}",
                  buffer.name, first, feeds.first);
  return {};
}

}  // namespace

void check_updates(const Program& program, Report& report) {
  UpdateCheck(program, report).run();
}

void check_feeds(const Program& program, Report& report) {
  std::map<std::pair<FeedKind, std::int64_t>, std::size_t> fed;
  std::array<std::int64_t, 2> count = {};
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* feed = std::get_if<Feed>(&program.instructions[i].what);
    if (feed == nullptr) continue;
    if (const std::string problem = feed_problem(program, *feed); !problem.empty()) {
      report.fault("feeds", i, problem);
      continue;
    }
    const auto [place, inserted] = fed.try_emplace({feed->kind, feed->micro}, i);
    if (!inserted)
      report.fault("feeds", i,
                   format("instruction {} has fed {} of micro-batch {} before", place->second,
                          kind_text(feed->kind), feed->micro));
    else
      ++count[static_cast<std::size_t>(feed->kind)];
  }
  for (const FeedKind kind : {FeedKind::tokens, FeedKind::labels}) {
    const std::int64_t found = count[static_cast<std::size_t>(kind)];
    // Labels may be absent (a prefill has none), tokens not.
    if (found != program.feeds.micros && (found != 0 || kind == FeedKind::tokens))
      report.fault("feeds", format("{} of {} micro-batches are fed their {}", found,
                                   program.feeds.micros, kind_text(kind)));
  }
}

}  // namespace fourfold::program
