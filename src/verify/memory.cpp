// race, defined, lost: what the bytes hold when they are touched; order: whom ranks meet when.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>

#include "base/format.h"
#include "base/interval_map.h"
#include "program/text.h"
#include "verify/box.h"
#include "verify/claims.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// A point of a stream: its n-th instruction, n from 1. Small, as bytes have many of them.
struct Mark {
  std::uint32_t stream = 0;
  std::uint32_t position = 0;
  std::uint32_t instruction = 0;
};

/// Vector clocks: for each stream, up to which position of every other stream it has waited.
class Clocks {
 public:
  explicit Clocks(const Program& program)
      : now_(program.streams.size(), std::vector<std::uint32_t>(program.streams.size(), 0)),
        recorded_(program.num_events * program.streams.size()) {}

  /// Takes the instruction's place in its stream. Call in order of the list.
  Mark advance(const Instruction& instruction, std::size_t index) {
    const std::size_t stream = instruction.stream.index();
    std::vector<std::uint32_t>& clock = now_[stream];
    ++clock[stream];
    if (const auto* record = std::get_if<Record>(&instruction.what))
      std::ranges::copy(clock, recorded(record->event));
    if (const auto* wait = std::get_if<Wait>(&instruction.what)) {
      const std::uint32_t* other = recorded(wait->event);
      for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
    }
    return {static_cast<std::uint32_t>(stream), clock[stream], static_cast<std::uint32_t>(index)};
  }
  bool happened_before(const Mark& mark, std::size_t stream) const {
    return now_[stream][mark.stream] >= mark.position;
  }

 private:
  std::uint32_t* recorded(EventId event) { return &recorded_[event.index() * now_.size()]; }

  std::vector<std::vector<std::uint32_t>> now_;
  std::vector<std::uint32_t> recorded_;  // of all streams, for one event after another
};

/// The history of a byte since it was last written.
struct History {
  std::optional<BufferId> owner;  // through which buffer it was written; none: never
  std::optional<Mark> writer;     // none: before the program, by the host
  std::vector<Mark> readers;      // the last one of each stream
  bool was_read = false;
  bool is_scratch = false;  // left by a kernel that used it as workspace
};

bool is_state(BufferRole role) {
  return is_learned(role) || role == BufferRole::rounded || role == BufferRole::counter ||
         role == BufferRole::cache;
}

class MemoryCheck {
 public:
  MemoryCheck(const Program& program, Report& report)
      : program_(program),
        report_(report),
        clocks_(program),
        bytes_(History{}),
        was_read_(program.instructions.size(), false) {}

  void run() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) define_at_start(BufferId(i));
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) step(i);
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) check_end(BufferId(i));
    for (const program::Task& task : program_.tasks) check_received(task.begin, task.end);
  }

 private:
  bool is_init() const { return program_.kind == op::ProgramKind::init; }

  void define_at_start(BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    const bool is_defined =
        buffer.role == BufferRole::step_block || (is_state(buffer.role) && !is_init());
    if (buffer.region != Region::persistent || !is_defined) return;
    bytes_.assign(address(program_, id), address(program_, id) + buffer.space_bytes(),
                  History{id, {}, {}, false, false});
  }

  void step(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    const Mark mark = clocks_.advance(instruction, index);
    const std::vector<Access> list = accesses(instruction);
    check_turn(instruction, mark);
    for (const Access& access : list) check_race(access, mark);
    for (const Access& access : list)
      if (access.role != op::Role::write) check_defined(access.slice, index, moves(instruction));
    for (const Access& access : list)
      if (access.role != op::Role::write) note_read(access.slice, mark);
    for (const Access& access : list)
      if (access.role != op::Role::read) note_write(access, mark);
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) return;
    if (compute->workspace) leave_scratch(*compute->workspace, mark);
    const op::Operands operands = op::operands(compute->op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].is_between) leave_scratch(compute->slices[i], mark);
  }

  /// The slice then holds what nobody may read.
  void leave_scratch(const Slice& slice, const Mark& mark) {
    for_each_run(program_, slice, [&](const AddressRange& run) {
      bytes_.assign(run.begin, run.end, History{slice.buffer, mark, {}, false, true});
    });
  }

  /// What ranks must meet in one order: the collectives of a group, the messages of one tag to or
  /// from one peer.
  using Meeting = std::tuple<std::string_view, std::size_t, std::int64_t>;

  static std::optional<Meeting> meeting(const Instruction& instruction) {
    return std::visit(
        []<class Kind>(const Kind& what) -> std::optional<Meeting> {
          if constexpr (requires { what.group; })
            return Meeting{"collective", what.group.index(), 0};
          else if constexpr (requires { what.peer; })
            return Meeting{Kind::name, what.peer.index(), what.tag};
          else
            return std::nullopt;
        },
        instruction.what);
  }

  void check_turn(const Instruction& instruction, const Mark& mark) {
    const auto key = meeting(instruction);
    if (!key) return;
    const auto [place, inserted] = met_.try_emplace(*key, mark);
    if (!inserted && !clocks_.happened_before(place->second, mark.stream)) {
      const Mark& earlier = place->second;
      report_.fault(
          "order", mark.instruction,
          format("no wait orders it after instruction {} ({}) on stream {}, which meets the same "
                 "ranks",
                 earlier.instruction,
                 short_text(program_, program_.instructions[earlier.instruction]),
                 program_.streams[earlier.stream]));
    }
    place->second = mark;
  }

  /// Reports the first earlier access that no path orders before this one.
  void check_race(const Access& access, const Mark& mark) {
    const bool writes = access.role != op::Role::read;
    std::optional<Mark> rival;
    const auto test = [&](const Mark& earlier) {
      if (earlier.instruction != mark.instruction && !clocks_.happened_before(earlier, mark.stream))
        rival = earlier;
    };
    for_each_run(program_, access.slice, [&](const AddressRange& run) {
      if (rival) return;
      bytes_.visit(run.begin, run.end, [&](const History& history) {
        if (history.writer) test(*history.writer);
        if (writes)
          for (const Mark& reader : history.readers) test(reader);
      });
    });
    if (!rival) return;
    const Instruction& other = program_.instructions[rival->instruction];
    report_.fault(
        "race", mark.instruction,
        format("no wait orders it after instruction {} ({}) on stream {}; both touch bytes of {}",
               rival->instruction, short_text(program_, other), program_.streams[rival->stream],
               program_.buffer(access.slice.buffer).name));
  }

  /// True for what computes with nothing: padding is passed on as padding, or left out.
  static bool moves(const Instruction& instruction) {
    return std::visit(
        []<class Kind>(const Kind&) {
          if constexpr (AnyCollective<Kind>)
            return !facts_of(Kind::plain).reduces();
          else
            return std::is_same_v<Kind, Copy> || std::is_same_v<Kind, Pack> ||
                   std::is_same_v<Kind, Unpack> || std::is_same_v<Kind, Send>;
        },
        instruction.what);
  }

  /// True if all that the slice has beside what was written through its buffer is padding: the tile
  /// of a value that came in messages, which bring none.
  bool is_padding_alone(const Slice& slice) const {
    if (program_.buffer(slice.buffer).blocked) return false;
    Claims claims(program_);
    const std::int64_t start = address(program_, slice.buffer);
    bool all = true;
    for_each_run(program_, slice, [&](const AddressRange& run) {
      const History* held = nullptr;
      std::int64_t from = run.begin;
      const auto close = [&](std::int64_t until) {
        if (held != nullptr && held->owner != slice.buffer)
          all = all && is_padding(claims, slice.buffer, from - start, until - start);
      };
      bytes_.visit_runs(run.begin, run.end, [&](std::int64_t begin, const History& history) {
        close(begin);
        from = std::max(run.begin, begin);
        held = &history;
      });
      close(run.end);
    });
    return all;
  }

  void check_defined(const Slice& slice, std::size_t index, bool is_moved) {
    const std::string& name = program_.buffer(slice.buffer).name;
    std::string problem;
    for_each_run(program_, slice, [&](const AddressRange& run) {
      bytes_.visit(run.begin, run.end, [&](const History& history) {
        if (!problem.empty() || (history.owner == slice.buffer && !history.is_scratch)) return;
        if (history.is_scratch && history.owner == slice.buffer)
          problem = format("bytes of {} hold the scratch of a kernel{}", name, written_by(history));
        else if (!history.owner)
          problem = format("{} is read before it is written", name);
        else
          problem = format("bytes of {} were overwritten through {}{}", name,
                           program_.buffer(*history.owner).name, written_by(history));
      });
    });
    if (problem.empty() || (is_moved && is_padding_alone(slice))) return;
    report_.fault("defined", index, problem);
  }

  std::string written_by(const History& history) const {
    if (!history.writer) return {};
    const std::size_t index = history.writer->instruction;
    return format(" by instruction {} ({})", index,
                  short_text(program_, program_.instructions[index]));
  }

  void note_read(const Slice& slice, const Mark& mark) {
    for_each_run(program_, slice, [&](const AddressRange& run) {
      bytes_.change(run.begin, run.end, [&](History& history) {
        history.was_read = true;
        if (history.writer) was_read_[history.writer->instruction] = true;
        const auto same = [&](const Mark& reader) { return reader.stream == mark.stream; };
        const auto place = std::find_if(history.readers.begin(), history.readers.end(), same);
        if (place == history.readers.end())
          history.readers.push_back(mark);
        else
          *place = mark;
      });
    });
  }

  void note_write(const Access& access, const Mark& mark) {
    const Buffer& buffer = program_.buffer(access.slice.buffer);
    const bool keeps =
        buffer.role == BufferRole::gradient || buffer.role == BufferRole::result_block;
    std::optional<std::size_t> lost;
    for_each_run(program_, access.slice, [&](const AddressRange& run) {
      if (keeps && access.role == op::Role::write)
        bytes_.visit(run.begin, run.end, [&](const History& history) {
          if (history.owner == access.slice.buffer && history.writer && !history.was_read)
            lost = history.writer->instruction;
        });
      bytes_.assign(run.begin, run.end, History{access.slice.buffer, mark, {}, false, false});
    });
    if (lost)
      report_.fault(
          "lost", mark.instruction,
          format("it overwrites what instruction {} ({}) wrote to {}, which nobody has read", *lost,
                 short_text(program_, program_.instructions[*lost]), buffer.name));
  }

  void check_end(BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.role != BufferRole::output && !is_state(buffer.role)) return;
    bool is_defined = true;
    bytes_.visit(address(program_, id), address(program_, id) + buffer.space_bytes(),
                 [&](const History& history) { is_defined = is_defined && history.owner == id; });
    if (!is_defined)
      report_.fault("defined",
                    format("{} {} is not defined at the end", to_string(buffer.role), buffer.name));
  }

  /// What the messages of a task bring to a buffer is one value, of which a rank may need a part.
  /// Hosts read outputs and the result block, and the next program reads state. A single integer
  /// may come for its time alone: it says whose turn it is at a port.
  void check_received(std::size_t begin, std::size_t end) {
    std::map<BufferId, std::size_t> unread;  // by buffer: the first recv
    std::set<BufferId> read;
    for (std::size_t i = begin; i < end; ++i)
      if (const auto* recv = std::get_if<Recv>(&program_.instructions[i].what)) {
        unread.emplace(recv->to.buffer, i);
        if (was_read_[i]) read.insert(recv->to.buffer);
      }
    for (const auto& [id, first] : unread) {
      const Buffer& buffer = program_.buffer(id);
      const bool is_turn = buffer.global.rank() == 0 && buffer.dtype == DType::i64;
      if (is_turn || read.contains(id) || buffer.role == BufferRole::output ||
          buffer.role == BufferRole::result_block || is_state(buffer.role))
        continue;
      report_.fault("lost", first, "nobody reads what it receives");
    }
  }

  const Program& program_;
  Report& report_;
  Clocks clocks_;
  IntervalMap<History> bytes_;
  std::vector<bool> was_read_;   // by instruction: some byte that it wrote
  std::map<Meeting, Mark> met_;  // the last one
};

}  // namespace

void check_memory(const Program& program, Report& report) {
  MemoryCheck(program, report).run();
}

}  // namespace fourfold::verify
