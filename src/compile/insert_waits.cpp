#include "compile/insert_waits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace fourfold::compile {
namespace {

using program::EventId;
using program::Instruction;
using program::Program;

/// Bytes that an instruction touches, in addresses of its region. For a part of a tensor that is
/// all of it: which part is a rank's own, and the waits are those of all ranks of the mesh.
struct Range {
  program::Region region;
  std::int64_t begin, end;
  bool writes;
};

Range range_of(const Program& program, const program::Slice& slice, bool writes) {
  const program::Buffer& buffer = program.buffer(slice.buffer);
  const bool is_block = buffer.role == program::BufferRole::step_block ||
                        buffer.role == program::BufferRole::result_block;
  const std::int64_t first = is_block ? slice.offset_bytes : 0,
                     last = is_block ? slice.end_bytes() : buffer.size_bytes;
  return {buffer.region, buffer.offset_bytes + first, buffer.offset_bytes + last, writes};
}

std::vector<Range> ranges(const Program& program, const Instruction& instruction) {
  std::vector<Range> list;
  for (const program::Access& access : program::accesses(instruction))
    list.push_back(range_of(program, access.slice, access.role != op::Role::read));
  return list;
}

/// By stream: how many of its instructions, from its first one on.
using Counts = std::vector<std::uint32_t>;

/// For all bytes of a region, by stream: how many instructions it had, with the last one that
/// touched the byte, and with the last one that wrote it. Bytes between two ends of ranges have one
/// history. Cost of a look: logarithmic, and the histories in the range.
class Histories {
 public:
  /// `ends` are those of all ranges that will be asked for.
  Histories(std::vector<std::int64_t> ends, std::size_t streams)
      : ends_(std::move(ends)), streams_(streams) {
    std::ranges::sort(ends_);
    const auto same = std::ranges::unique(ends_);
    ends_.erase(same.begin(), same.end());
    counts_.resize(2 * streams_ * ends_.size(), 0);
  }

  /// visit(accesses, writes) for each history of the range.
  template <class Visit>
  void for_each(const Range& range, Visit&& visit) {
    auto end = std::ranges::lower_bound(ends_, range.begin);
    for (; end != ends_.end() && *end < range.end; ++end) {
      const std::span both = std::span(counts_).subspan(
          2 * streams_ * static_cast<std::size_t>(end - ends_.begin()), 2 * streams_);
      visit(both.first(streams_), both.last(streams_));
    }
  }

 private:
  std::vector<std::int64_t> ends_;  // where a range begins or ends, in order
  std::size_t streams_;
  Counts counts_;  // from each of these ends on
};

std::size_t place_of(program::Region region) {
  return region == program::Region::persistent ? 0 : 1;
}

std::array<Histories, 2> histories_of(Program& program) {
  std::array<std::vector<std::int64_t>, 2> ends;
  for (Instruction& instruction : program.instructions)
    program::for_each_slice(instruction, [&](const program::Slice& slice) {
      const Range range = range_of(program, slice, false);
      std::vector<std::int64_t>& list = ends[place_of(range.region)];
      list.push_back(range.begin);
      list.push_back(range.end);
    });
  const std::size_t streams = program.streams.size();
  return {Histories(std::move(ends[0]), streams), Histories(std::move(ends[1]), streams)};
}

struct Stream {
  std::vector<std::size_t> instructions;
  Counts now;    // of all streams: how many instructions are known to be done by now
  Counts known;  // what was known after each wait, of all streams in turn
  std::vector<std::uint32_t> waits;  // of each instruction: how many of these came before it
};

/// An instruction before which its stream waits for the end of another one.
struct Wait {
  std::size_t before, until;
};

/// The stream of every program that computes.
constexpr std::size_t first_stream = 0;

/// True for a collective or a receipt that computation waits for where it stands.
bool stands_alone(const Instruction& instruction, const plan::Overlap& overlap) {
  return std::visit(
      Overloaded{[&](const program::AllReduce&) { return !overlap.all_reduce; },
                 [&](const program::AllToAll&) { return !overlap.all_reduce; },
                 [&](const program::ReduceScatter&) { return !overlap.reduce_scatter; },
                 [&](const program::AllGather&) { return !overlap.all_gather; },
                 [&](const program::Recv&) { return !overlap.send_recv; },
                 [](const auto&) { return false; }},
      instruction.what);
}

/// Which waits a program needs.
class Finder {
 public:
  Finder(Program& program, const plan::Overlap& overlap)
      : program_(program),
        overlap_(overlap),
        none_(program.streams.size(), 0),
        alone_(none_),
        sent_(none_),
        sent_before_(none_),
        streams_(program.streams.size(), Stream{{}, none_, none_, {}}),
        bytes_(histories_of(program)) {
    for (const std::string& stream : program.streams)
      computes_.push_back(program::computes(stream));
  }

  /// In the order of the instructions that wait.
  std::vector<Wait> run() {
    auto task = program_.tasks.begin();
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      for (; task != program_.tasks.end() && task->begin <= i; ++task) {
        sent_before_ = sent_;
        receives_ahead_ = overlap_.send_recv && task->kind == program::TaskKind::receive;
        begin_ = task->begin;
        is_update_ = task->kind == program::TaskKind::update;
      }
      scan(i);
    }
    return std::move(waits_);
  }

 private:
  void scan(std::size_t index) {
    const std::size_t own = program_.instructions[index].stream.index();
    const std::vector<Range> touched = ranges(program_, program_.instructions[index]);
    Counts conflicts = last_conflicts(touched);
    const bool alone = stands_alone(program_.instructions[index], overlap_);
    const bool is_late = is_sent_late(index, conflicts);
    if (receives_ahead_ && std::holds_alternative<program::Recv>(program_.instructions[index].what))
      conflicts[first_stream] = streams_[first_stream].now[first_stream];
    for (std::size_t other = 0; other < streams_.size(); ++other) {
      if ((alone || is_late) && computes_[other]) conflicts[other] = streams_[other].now[other];
      if (alone || computes_[own]) conflicts[other] = std::max(conflicts[other], alone_[other]);
      if (computes_[own]) conflicts[other] = std::max(conflicts[other], sent_before_[other]);
    }
    for (std::size_t other = 0; other < streams_.size(); ++other)
      if (other == own || conflicts[other] <= streams_[own].now[other]) conflicts[other] = 0;
    for (std::size_t other = 0; other < streams_.size(); ++other)
      if (conflicts[other] > 0 && !follows_from_others(other, conflicts))
        wait(index, own, other, conflicts[other]);
    Stream& stream = streams_[own];
    if (!waits_.empty() && waits_.back().before == index)
      stream.known.insert(stream.known.end(), stream.now.begin(), stream.now.end());
    stream.instructions.push_back(index);
    stream.waits.push_back(static_cast<std::uint32_t>(stream.known.size() / none_.size() - 1));
    const std::uint32_t count = ++stream.now[own];
    if (alone) alone_[own] = count;
    if (!overlap_.send_recv &&
        std::holds_alternative<program::Send>(program_.instructions[index].what))
      sent_[own] = count;
    for (const Range& range : touched)
      bytes_[place_of(range.region)].for_each(range, [&](auto accesses, auto writes) {
        accesses[own] = count;
        if (range.writes) writes[own] = count;
      });
  }

  /// True for what an earlier task made, where messages may not run beside computation: it leaves
  /// when the task has ended in which it stands. An update sends what all tasks before it made.
  bool is_sent_late(std::size_t index, const Counts& conflicts) const {
    if (overlap_.send_recv || is_update_ ||
        !std::holds_alternative<program::Send>(program_.instructions[index].what))
      return false;
    bool is_made = false;
    for (std::size_t s = 0; s < conflicts.size(); ++s) {
      if (conflicts[s] == 0) continue;
      is_made = true;
      if (streams_[s].instructions[conflicts[s] - 1] >= begin_) return false;
    }
    return is_made;
  }

  /// By stream, the last instruction of it with which one that touches these ranges conflicts.
  Counts last_conflicts(const std::vector<Range>& touched) {
    Counts last = none_;
    for (const Range& range : touched)
      bytes_[place_of(range.region)].for_each(range, [&](auto accesses, auto writes) {
        const auto counts = range.writes ? accesses : writes;
        for (std::size_t s = 0; s < last.size(); ++s) last[s] = std::max(last[s], counts[s]);
      });
    return last;
  }

  /// What a stream knows of all streams once `count` of its instructions are done.
  const std::uint32_t* known_after(std::size_t stream, std::uint32_t count) const {
    const Stream& its = streams_[stream];
    return &its.known[its.waits[count - 1] * none_.size()];
  }

  /// True if whoever waits for so many instructions of the other streams (0: for none) has waited
  /// for those of this one as well.
  bool follows_from_others(std::size_t stream, const Counts& awaited) const {
    for (std::size_t other = 0; other < awaited.size(); ++other)
      if (other != stream && awaited[other] > 0 &&
          known_after(other, awaited[other])[stream] >= awaited[stream])
        return true;
    return false;
  }

  /// The stream `own` waits until `count` instructions of `other` are done.
  void wait(std::size_t index, std::size_t own, std::size_t other, std::uint32_t count) {
    waits_.push_back({index, streams_[other].instructions[count - 1]});
    Counts& now = streams_[own].now;
    const std::uint32_t* known = known_after(other, count);
    for (std::size_t s = 0; s < now.size(); ++s) now[s] = std::max(now[s], known[s]);
    now[other] = count;
  }

  const Program& program_;
  const plan::Overlap& overlap_;
  Counts none_;
  Counts alone_;  // by stream: its last collective that stands alone
  // Where transfers may not run beside computation: by stream, its last send, and that of earlier
  // tasks. A task waits for what those before it sent, but receives meanwhile: two stages that send
  // to each other would wait for ever.
  Counts sent_, sent_before_;
  // What is received ahead begins when computation has come to its place, as what the mesh sends
  // then: messages of both directions slow down what runs beside them once, and not twice.
  bool receives_ahead_ = false;
  std::size_t begin_ = 0;  // of the task
  bool is_update_ = false;
  std::vector<bool> computes_;  // by stream
  std::vector<Stream> streams_;
  std::array<Histories, 2> bytes_;  // of each region
  std::vector<Wait> waits_;
};

}  // namespace

Program insert_waits(Program program, const plan::Overlap& overlap) {
  if (program.streams.size() < 2) return program;
  const std::vector<Wait> waits = Finder(program, overlap).run();
  std::vector<Instruction>& list = program.instructions;
  std::vector<bool> is_recorded(list.size(), false);
  for (const Wait& wait : waits) is_recorded[wait.until] = true;
  std::vector<EventId> event_of(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (is_recorded[i]) event_of[i] = EventId(program.num_events++);
  const auto num_recorded = static_cast<std::size_t>(std::ranges::count(is_recorded, true));

  // From the end on, so that each moves within the one list: two would be the peak of compiling.
  std::vector<std::size_t> moved(list.size() + 1);  // where each stands afterwards, with its waits
  std::size_t at = moved.back() = list.size() + waits.size() + num_recorded;
  auto wait = waits.end();
  list.reserve(at);
  list.resize(at);
  for (std::size_t i = moved.size() - 1; i-- > 0;) {
    const program::StreamId stream = list[i].stream;
    if (is_recorded[i]) list[--at] = {stream, program::Record{event_of[i]}};
    if (--at != i) list[at] = std::move(list[i]);
    for (; wait != waits.begin() && std::prev(wait)->before == i; --wait)
      list[--at] = {stream, program::Wait{event_of[std::prev(wait)->until]}};
    moved[i] = at;
  }
  for (program::Task& task : program.tasks)
    task.begin = moved[task.begin], task.end = moved[task.end];
  return program;
}

WaitCount count_waits(const Program& program) {
  constexpr std::size_t nothing = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last(program.streams.size(), nothing);  // by stream
  std::vector<std::size_t> recorded(program.num_events, nothing);  // by event: after what
  std::vector<std::vector<std::size_t>> waited(program.streams.size());
  const auto share_a_buffer = [&](std::size_t a, std::size_t b) {
    const std::vector<program::Access> others = program::accesses(program.instructions[b]);
    return std::ranges::any_of(
        program::accesses(program.instructions[a]), [&](const program::Access& one) {
          return std::ranges::any_of(others, [&](const program::Access& other) {
            return one.slice.buffer == other.slice.buffer;
          });
        });
  };
  WaitCount count;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const std::size_t stream = program.instructions[i].stream.index();
    if (const auto* record = std::get_if<program::Record>(&program.instructions[i].what)) {
      recorded[record->event.index()] = last[stream];
    } else if (const auto* wait = std::get_if<program::Wait>(&program.instructions[i].what)) {
      waited[stream].push_back(recorded[wait->event.index()]);
    } else {
      for (const std::size_t until : waited[stream]) {
        ++count.all;
        if (until != nothing && !share_a_buffer(i, until)) ++count.for_memory;
      }
      waited[stream].clear();
      last[stream] = i;
    }
  }
  return count;
}

}  // namespace fourfold::compile
