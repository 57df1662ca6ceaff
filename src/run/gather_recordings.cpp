#include "run/gather_recordings.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "run/clock_offset.h"

namespace fourfold::run {
namespace {

using Numbers = std::vector<std::int64_t>;
constexpr int recording_tag = 0;

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

/// Offset, runs, instructions of a run; then of each run its step and all intervals.
Numbers to_numbers(const trace::Recording& recording) {
  const std::size_t instructions = recording.runs.front().instructions.size();
  Numbers numbers{recording.clock_offset_ns, static_cast<std::int64_t>(recording.runs.size()),
                  static_cast<std::int64_t>(instructions)};
  const auto put = [&](const trace::Interval& interval) {
    numbers.push_back(interval.begin_ns);
    numbers.push_back(interval.end_ns);
  };
  for (const trace::RecordedRun& run : recording.runs) {
    numbers.push_back(run.step);
    put(run.whole);
    for (const trace::Interval& interval : run.instructions) put(interval);
  }
  return numbers;
}

trace::Recording from_numbers(const Numbers& numbers, std::string host) {
  auto next = numbers.begin();
  const auto get = [&] {
    const std::int64_t begin_ns = *next++;
    return trace::Interval{begin_ns, *next++};
  };
  trace::Recording recording{std::move(host), {}, *next++};
  recording.runs.resize(static_cast<std::size_t>(*next++));
  const auto instructions = static_cast<std::size_t>(*next++);
  require(numbers.size() == 3 + recording.runs.size() * (3 + 2 * instructions),
          "a recording arrives whole");
  for (trace::RecordedRun& run : recording.runs) {
    run.step = *next++;
    run.whole = get();
    for (std::size_t i = 0; i < instructions; ++i) run.instructions.push_back(get());
  }
  return recording;
}

void send_numbers(comm::World& world, const Numbers& numbers) {
  const std::array<std::int64_t, 1> count{static_cast<std::int64_t>(numbers.size())};
  world.send(Rank(0), recording_tag, std::as_bytes(std::span(count)));
  world.send(Rank(0), recording_tag, std::as_bytes(std::span(numbers)));
}

Numbers recv_numbers(comm::World& world, Rank from) {
  std::array<std::int64_t, 1> count{};
  world.recv(from, recording_tag, std::as_writable_bytes(std::span(count)));
  Numbers numbers(static_cast<std::size_t>(count[0]));
  world.recv(from, recording_tag, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

}  // namespace

std::vector<trace::Recording> gather_recordings(const trace::Recorder& recorder,
                                                comm::World* world) {
  trace::Recording own{host_name(), {recorder.runs().begin(), recorder.runs().end()}, 0};
  if (world == nullptr) return {own};
  own.clock_offset_ns = clock_offset_ns(*world, clock_of_host(), trace::now_ns);
  const std::vector<std::string> hosts = world->all_gather(own.host);
  if (world->rank().index() != 0) {
    send_numbers(*world, to_numbers(own));
    return {};
  }
  std::vector<trace::Recording> all{own};
  for (std::size_t rank = 1; rank < world->size(); ++rank)
    all.push_back(from_numbers(recv_numbers(*world, Rank(rank)), hosts[rank]));
  return all;
}

}  // namespace fourfold::run
