#include "compile/liveness.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/format.h"
#include "compile/departures.h"

namespace fourfold::compile {

namespace {

constexpr program::StreamId stream_of_math{std::size_t{0}};

/// By instruction of another stream than the first: before which instruction of the first stream
/// that one has waited for it, since it touches what the other or one after it on its stream wrote.
std::vector<std::size_t> first_awaited(const program::Program& program) {
  constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  struct Writer {
    std::size_t stream = 0, index = 0;
  };
  std::vector<std::size_t> awaited(program.instructions.size(), never);
  std::vector<Writer> writers(program.buffers.size());                // the last, by buffer
  std::vector<std::deque<std::size_t>> open(program.streams.size());  // not waited for yet
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const program::Instruction& instruction = program.instructions[i];
    const std::size_t stream = instruction.stream.index();
    for (const program::Access& access : program::accesses(instruction)) {
      Writer& writer = writers[access.slice.buffer.index()];
      if (instruction.stream == stream_of_math)
        for (auto& list = open[writer.stream]; !list.empty() && list.front() <= writer.index;
             list.pop_front())
          awaited[list.front()] = i;
      if (access.role != op::Role::read) writer = {stream, i};
    }
    if (instruction.stream != stream_of_math) open[stream].push_back(i);
  }
  return awaited;
}

/// A message leaves when its peer takes it. Its memory is not used again before the end of the next
/// tasks that compute, so that their work does not wait for the peer.
void keep_what_is_sent(const program::Program& program, std::vector<std::vector<Interval>>& lives) {
  for (std::size_t t = 0; t < program.tasks.size(); ++t) {
    std::size_t next = t;
    for (std::size_t tasks = 0; tasks < tasks_to_send && next + 1 < program.tasks.size();)
      if (program.tasks[++next].kind != program::TaskKind::receive) ++tasks;
    const std::size_t until = program.tasks[next].end - 1;
    for (std::size_t i = program.tasks[t].begin; i < program.tasks[t].end; ++i) {
      const auto* send = std::get_if<program::Send>(&program.instructions[i].what);
      if (send == nullptr) continue;
      auto& list = lives[send->from.buffer.index()];
      auto life = std::ranges::upper_bound(list, i, {}, &Interval::begin);
      if (life == list.begin()) continue;  // it lies in the persistent region
      const std::size_t limit = life == list.end() ? until : std::min(until, life->begin - 1);
      --life;
      life->end = std::max(life->end, limit);
    }
  }
}

/// A number that arrives, as the turn of a rank, has its few bytes to itself: no other
/// stream waits for it.
void keep_turns(const program::Program& program, std::size_t last,
                std::vector<std::vector<Interval>>& lives) {
  for (const program::Instruction& instruction : program.instructions) {
    const auto* recv = std::get_if<program::Recv>(&instruction.what);
    if (recv != nullptr && program.buffer(recv->to.buffer).global.rank() == 0 &&
        program.buffer(recv->to.buffer).region == program::Region::transient)
      lives[recv->to.buffer.index()] = {{0, last}};
  }
}

/// Lives that should end later.
class Extensions {
 public:
  void add(Interval& life, std::size_t until, std::int64_t bytes) {
    const auto [place, is_new] = places_.try_emplace(&life, list_.size());
    if (is_new) list_.push_back({&life, life.end, until, bytes});
    Extension& one = list_[place->second];
    one.until = std::max(one.until, until);
  }

  /// Extends them by so many bytes at a time: where that would be more, those that have been kept
  /// longest end.
  void carry_out(std::int64_t most_bytes) {
    std::ranges::stable_sort(list_, {}, &Extension::from);
    std::deque<Extension*> kept;
    std::int64_t bytes = 0;
    for (Extension& one : list_) {
      if (one.until <= one.from) continue;
      std::erase_if(kept, [&](const Extension* other) {
        if (other->life->end > one.from) return false;
        bytes -= other->bytes;
        return true;
      });
      one.life->end = std::max(one.life->end, one.until);
      kept.push_back(&one);
      for (bytes += one.bytes; bytes > most_bytes; kept.pop_front()) {
        kept.front()->life->end = one.from;
        bytes -= kept.front()->bytes;
      }
    }
  }

 private:
  struct Extension {
    Interval* life = nullptr;
    std::size_t from = 0, until = 0;  // where it would end otherwise, and where it should
    std::int64_t bytes = 0;
  };
  std::vector<Extension> list_;
  std::unordered_map<const Interval*, std::size_t> places_;  // in the list
};

}  // namespace

std::vector<std::vector<Interval>> live_intervals(const program::Program& program) {
  std::vector<std::vector<Interval>> lives(program.buffers.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const std::vector<program::Access> accesses = program::accesses(program.instructions[i]);
    const auto note = [&](const program::Access& access) {
      const program::Buffer& buffer = program.buffer(access.slice.buffer);
      if (buffer.region == program::Region::persistent) return;
      auto& list = lives[access.slice.buffer.index()];
      const bool begins = access.role == op::Role::write &&
                          (buffer.role == program::BufferRole::workspace ||
                           access.slice.bytes() == buffer.size_bytes || list.empty());
      if (begins) {
        list.push_back({i, i});
      } else {
        require(!list.empty(),
                [&] { return format("{} is written before it is read", buffer.name); });
        list.back().end = i;
      }
    };
    // Reads first: an instruction may read a buffer's old value and write its next one.
    for (const program::Access& access : accesses)
      if (access.role != op::Role::write) note(access);
    for (const program::Access& access : accesses)
      if (access.role == op::Role::write) note(access);
  }
  const std::size_t last = program.instructions.empty() ? 0 : program.instructions.size() - 1;
  keep_what_is_sent(program, lives);
  keep_turns(program, last, lives);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].empty()) continue;
    if (program.buffers[b].role == program::BufferRole::feed) lives[b] = {{0, last}};
    if (program.buffers[b].role == program::BufferRole::output) lives[b].back().end = last;
  }
  return lives;
}

void extend(std::vector<std::vector<Interval>>& lives, const program::Program& program,
            Reach reach) {
  if (reach == Reach()) return;
  const std::vector<std::size_t> awaited = first_awaited(program);
  Extensions of_gradients;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const program::Instruction& instruction = program.instructions[i];
      if (instruction.stream == stream_of_math) continue;
      const bool makes_gradients =
          program.streams[instruction.stream.index()] == program::gradient_stream;
      const std::size_t most = makes_gradients ? some_instructions : reach.instructions;
      const std::size_t until =
          std::max(std::min(i + std::min(task.end - 1 - i, most), awaited[i]), i);
      for (const program::Access& access : program::accesses(instruction)) {
        auto& list = lives[access.slice.buffer.index()];
        auto life = std::ranges::upper_bound(list, i, {}, &Interval::begin);
        if (life == list.begin()) continue;
        const std::size_t limit = life == list.end() ? until : std::min(until, life->begin - 1);
        --life;
        if (makes_gradients)
          of_gradients.add(*life, limit, program.buffer(access.slice.buffer).size_bytes);
        else if (life->end == i)
          life->end = limit;
      }
    }
  of_gradients.carry_out(reach.gradient_bytes);
}

bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].end < b[j].begin)
      ++i;
    else if (b[j].end < a[i].begin)
      ++j;
    else
      return true;
  }
  return false;
}

}  // namespace fourfold::compile
