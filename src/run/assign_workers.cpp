#include "run/assign_workers.h"

#include <algorithm>
#include <set>

#include "run/program_groups.h"

namespace fourfold::run {
namespace {

/// The streams that one thread serves.
std::set<std::string> streams_of_one_worker(std::span<PreparedProgram* const> programs) {
  std::set<std::string> streams;
  for (const PreparedProgram* prepared : programs)
    for (const program::Instruction& instruction : prepared->program->instructions)
      if (communicates(*prepared->program, instruction))
        streams.insert(prepared->program->streams[instruction.stream.index()]);
  return streams;
}

}  // namespace

std::vector<WorkerPlan> assign_workers(std::span<PreparedProgram* const> programs,
                                       const comm::World* world) {
  std::set<std::string> one_worker;
  if (world != nullptr && !world->concurrent()) one_worker = streams_of_one_worker(programs);
  std::vector<WorkerPlan> workers;
  for (PreparedProgram* prepared : programs) {
    std::vector<std::size_t> count(workers.size(), 0);
    for (std::size_t i = 0; i < prepared->instructions.size(); ++i) {
      const program::StreamId stream = prepared->program->instructions[i].stream;
      const std::string& own_name = prepared->program->streams[stream.index()];
      const std::string name = one_worker.contains(own_name) ? "comm" : own_name;
      const auto place = std::ranges::find(workers, name, &WorkerPlan::name);
      const auto worker = static_cast<std::size_t>(place - workers.begin());
      if (place == workers.end()) {
        workers.push_back({name, 0});
        count.push_back(0);
      }
      prepared->instructions[i].worker = worker;
      workers[worker].longest = std::max(workers[worker].longest, ++count[worker]);
    }
  }
  return workers;
}

}  // namespace fourfold::run
