#include "compile/insert_waits.h"

#include <algorithm>
#include <map>

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

std::vector<Range> ranges(const Program& program, const Instruction& instruction) {
  std::vector<Range> list;
  for (const program::Access& access : program::accesses(instruction)) {
    const program::Buffer& buffer = program.buffer(access.slice.buffer);
    const bool is_block = buffer.role == program::BufferRole::step_block ||
                          buffer.role == program::BufferRole::result_block;
    const std::int64_t first = is_block ? access.slice.offset_bytes : 0,
                       last = is_block ? access.slice.end_bytes() : buffer.size_bytes;
    list.push_back({buffer.region, buffer.offset_bytes + first, buffer.offset_bytes + last,
                    access.role != op::Role::read});
  }
  return list;
}

bool conflict(const std::vector<Range>& a, const std::vector<Range>& b) {
  for (const Range& p : a)
    for (const Range& q : b)
      if (p.region == q.region && (p.writes || q.writes) && p.begin < q.end && q.begin < p.end)
        return true;
  return false;
}

/// By stream: how many of its instructions are known to be done.
using Clock = std::vector<std::size_t>;

struct Issued {
  std::size_t instruction;
  std::vector<Range> ranges;
  Clock known;  // what its stream knew when it ran
};

class Inserter {
 public:
  explicit Inserter(const Program& program) : program_(program), issued_(program.streams.size()) {
    now_.assign(program.streams.size(), Clock(program.streams.size(), 0));
  }

  void scan() {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const std::size_t stream = program_.instructions[i].stream.index();
      Issued entry{i, ranges(program_, program_.instructions[i]), {}};
      for (std::size_t other = 0; other < issued_.size(); ++other)
        if (other != stream) synchronise(stream, other, entry);
      entry.known = now_[stream];
      issued_[stream].push_back(std::move(entry));
      now_[stream][stream] = issued_[stream].size();
    }
  }

  Program build() const {
    Program result = program_;
    result.instructions.clear();
    std::vector<std::size_t> moved(program_.instructions.size() + 1);
    std::map<std::size_t, EventId> event_of;
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      moved[i] = result.instructions.size();
      const program::StreamId stream = program_.instructions[i].stream;
      if (const auto place = waits_.find(i); place != waits_.end())
        for (const std::size_t earlier : place->second)
          result.instructions.push_back({stream, program::Wait{event_of.at(earlier)}});
      result.instructions.push_back(program_.instructions[i]);
      if (recorded_.contains(i)) {
        const EventId event(event_of.size());
        event_of.emplace(i, event);
        result.instructions.push_back({stream, program::Record{event}});
      }
    }
    moved.back() = result.instructions.size();
    result.num_events = event_of.size();
    for (program::Task& task : result.tasks)
      task.begin = moved[task.begin], task.end = moved[task.end];
    return result;
  }

 private:
  /// Makes `stream` wait for the latest conflicting instruction of `other`, if it does not know
  /// that to be done.
  void synchronise(std::size_t stream, std::size_t other, const Issued& entry) {
    const auto& list = issued_[other];
    for (std::size_t k = list.size(); k > now_[stream][other]; --k) {
      if (!conflict(list[k - 1].ranges, entry.ranges)) continue;
      waits_[entry.instruction].push_back(list[k - 1].instruction);
      recorded_[list[k - 1].instruction] = true;
      for (std::size_t s = 0; s < now_[stream].size(); ++s)
        now_[stream][s] = std::max(now_[stream][s], list[k - 1].known[s]);
      now_[stream][other] = k;
      return;
    }
  }

  const Program& program_;
  std::vector<std::vector<Issued>> issued_;  // by stream
  std::vector<Clock> now_;                   // by stream
  std::map<std::size_t, std::vector<std::size_t>> waits_;
  std::map<std::size_t, bool> recorded_;
};

}  // namespace

Program insert_waits(Program program) {
  if (program.streams.size() < 2) return program;
  Inserter inserter(program);
  inserter.scan();
  return inserter.build();
}

}  // namespace fourfold::compile
