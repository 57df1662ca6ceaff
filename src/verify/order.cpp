// The rules "events" and "deadlock": all streams, each running its instructions in order beside the
// others, come to their end.
#include <deque>
#include <limits>

#include "base/format.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

/// Position of each event's record; faults for events recorded never or twice.
std::vector<std::size_t> find_records(const Program& program, Report& report) {
  std::vector<std::size_t> records(program.num_events, nowhere);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* record = std::get_if<Record>(&program.instructions[i].what);
    if (record == nullptr) continue;
    std::size_t& place = records[record->event.index()];
    if (place != nowhere)
      report.fault(
          "events", i,
          format("event {} is recorded before, by instruction {}", record->event.index(), place));
    else
      place = i;
  }
  std::vector<bool> reported(program.num_events, false);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* wait = std::get_if<Wait>(&program.instructions[i].what);
    if (wait == nullptr || records[wait->event.index()] != nowhere) continue;
    report.fault("events", i, format("event {} is never recorded", wait->event.index()));
    reported[wait->event.index()] = true;
  }
  for (std::size_t event = 0; event < records.size(); ++event)
    if (records[event] == nowhere && !reported[event])
      report.fault("events", format("event {} is never recorded", event));
  return records;
}

/// Which instructions finish when streams run concurrently (Kahn's algorithm on streams and
/// events).
std::vector<bool> finishing(const Program& program, const std::vector<std::size_t>& records) {
  const std::size_t count = program.instructions.size();
  std::vector<std::vector<std::size_t>> after(count);
  std::vector<std::size_t> pending(count, 0), last(program.streams.size(), nowhere);
  const auto link = [&](std::size_t from, std::size_t to) {
    after[from].push_back(to);
    ++pending[to];
  };
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t& previous = last[program.instructions[i].stream.index()];
    if (previous != nowhere) link(previous, i);
    previous = i;
    if (const auto* wait = std::get_if<Wait>(&program.instructions[i].what))
      link(records[wait->event.index()], i);
  }
  std::deque<std::size_t> ready;
  for (std::size_t i = 0; i < count; ++i)
    if (pending[i] == 0) ready.push_back(i);
  std::vector<bool> done(count, false);
  for (; !ready.empty(); ready.pop_front()) {
    done[ready.front()] = true;
    for (const std::size_t next : after[ready.front()])
      if (--pending[next] == 0) ready.push_back(next);
  }
  return done;
}

}  // namespace

bool check_order(const Program& program, Report& report) {
  const std::size_t before = report.size();
  const std::vector<std::size_t> records = find_records(program, report);
  if (report.size() != before) return false;
  std::vector<bool> done;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* wait = std::get_if<Wait>(&program.instructions[i].what);
    if (wait == nullptr) continue;
    const std::size_t record = records[wait->event.index()];
    if (record < i) continue;  // all edges forward: no circle through here
    if (done.empty()) done = finishing(program, records);
    if (!done[i] && !done[record])
      report.fault("deadlock", i,
                   format("it waits for instruction {}, which waits for it", record));
    else
      report.fault("events", i,
                   format("it is issued before instruction {} records its event", record));
  }
  return report.size() == before;
}

}  // namespace fourfold::verify
