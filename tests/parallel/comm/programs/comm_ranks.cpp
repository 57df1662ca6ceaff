// One rank of a job of the tests of this folder. Started by mpirun; prints one line on rank 0, or
// what is wrong, and exits with the code of the table in base/error.h.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "comm/monitor.h"
#include "comm/mpi.h"
#include "unit/comm/matrix.h"

namespace fourfold::comm {
namespace {

GroupSpec group_of(std::string name, std::vector<Rank> members) {
  return {std::move(name), std::move(members), 1 << 16};
}

/// All collectives, on all ranks, on rows and on columns of a grid of 2 columns, rows and columns
/// at the same time from two threads.
std::string check_all(World& world) {
  GroupSpec all = group_of("all", {}), row = group_of("x", {}), column = group_of("y", {});
  const std::size_t me = world.rank().index();
  for (std::size_t i = 0; i < world.size(); ++i) {
    all.members.emplace_back(i);
    if (i / 2 == me / 2) row.members.emplace_back(i);
    if (i % 2 == me % 2) column.members.emplace_back(i);
  }
  std::reverse(column.members.begin(), column.members.end());
  const GroupSpec specs[] = {column, all, row};
  world.create_groups(specs);
  std::string errors[3];
  const auto check = [&](const GroupSpec& spec, std::string& error) {
    Group& group = world.group(spec.members, spec.name);
    for (const std::int64_t count : {0, 1, 3, 17, 1000, 40000})
      error += check_collectives(group, count, Rounding::each_term);
  };
  check(all, errors[0]);
  if (world.concurrent()) {
    std::thread other([&] { check(row, errors[1]); });
    check(column, errors[2]);
    other.join();
  } else {
    check(row, errors[1]);
    check(column, errors[2]);
  }
  return errors[0] + errors[1] + errors[2];
}

/// Round a ring, larger than MPI sends without waiting for the receiver.
std::string check_messages(World& world) {
  const std::size_t me = world.rank().index(), n = world.size();
  std::vector<std::int32_t> from(100'000, static_cast<std::int32_t>(me)), to(from.size());
  const auto send = [&] { world.send(Rank((me + 1) % n), 9, std::as_bytes(std::span(from))); };
  const auto recv = [&] {
    world.recv(Rank((me + n - 1) % n), 9, std::as_writable_bytes(std::span(to)));
  };
  if (me % 2 == 0) send(), recv();
  if (me % 2 == 1) recv(), send();
  return to.front() == static_cast<std::int32_t>((me + n - 1) % n) && to.front() == to.back()
             ? ""
             : "a message brought other values";
}

std::string check_host(World& world) {
  const auto me = static_cast<std::int64_t>(world.rank().index());
  std::int64_t sum[] = {me};
  world.all_reduce(sum, Reduction::sum);
  const auto n = static_cast<std::int64_t>(world.size());
  if (sum[0] != n * (n - 1) / 2) return "the host's sum is wrong";
  const auto texts = world.all_gather(std::string(static_cast<std::size_t>(me), 'a'));
  if (texts.size() != world.size() || texts.at(1) != "a") return "all_gather is wrong";
  if (world.broadcast(me == 0 ? "hello" : "no") != "hello") return "broadcast is wrong";
  if (world.local_size() != world.size() || world.local_rank() != world.rank().index())
    return "all ranks are on this host";
  return "";
}

void matrix(MpiWorld& world) {
  const std::string error = check_all(world) + check_messages(world) + check_host(world);
  if (!error.empty()) throw InternalError(error);
}

/// A fault on one rank while the others wait for it.
void fault(MpiWorld& world) {
  if (world.rank() == Rank(1)) throw UserError(ExitCode::numeric_stop, "rank 1: the loss is NaN");
  world.barrier();
}

/// Steps for ever, each a short work and an all-reduce, and tells of them as run/ does.
void work(MpiWorld& world) {
  GroupSpec spec = group_of("data", {});
  for (std::size_t i = 0; i < world.size(); ++i) spec.members.emplace_back(i);
  world.create_groups({&spec, 1});
  Group& group = world.group(spec.members, "data");
  Progress& progress = world.progress();
  progress.set_workers({"math", "data"}, [](Place place) {
    return place.instruction == 0
               ? Progress::Description{"instruction 0 (contract a, b -> c) of train", false}
               : Progress::Description{"instruction 1 (all_reduce -> &c) of train", true};
  });
  std::vector<float> data(1000, 1.F);
  for (std::int64_t step = 0;; ++step) {
    progress.set_step(step);
    progress.begin_program();
    progress.begin(0, {0, 0});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    progress.end(0, {0, 0});
    progress.begin(1, {0, 1});
    group.all_reduce(std::as_writable_bytes(std::span(data)), DType::f32, Reduction::max);
    progress.end(1, {0, 1});
    progress.end_program();
    if (step == 5) {
      std::printf("rank %zu is process %d\n", world.rank().index(), getpid());
      std::fflush(stdout);
    }
  }
}

int run(const std::string& what, const std::string& folder, double watchdog_s) {
  MpiOptions options;
  if (what == "matrix-split") options.max_count = 1000;
  if (what == "matrix-one-thread") options.one_thread = true;
  const auto world = MpiWorld::start(options);
  std::optional<MpiMonitor> monitor;
  if (!folder.empty()) monitor.emplace(*world, MonitorOptions{watchdog_s, folder, {}, {}, {}});
  try {
    if (what == "fault") fault(*world);
    if (what == "work") work(*world);
    if (what.starts_with("matrix")) matrix(*world);
  } catch (const std::exception& exception) {
    const Fault reason = fault_of(exception);
    world->abort_all(reason.code, reason.message);
  }
  if (world->rank() == Rank(0))
    std::printf("%zu ranks, %s, several threads: %s\n", world->size(), world->library().c_str(),
                world->concurrent() ? "yes" : "no");
  if (monitor) monitor->finish();
  world->finish();
  if (monitor) monitor->part();
  return 0;
}

}  // namespace
}  // namespace fourfold::comm

// comm_ranks WHAT [STATUS_FOLDER [WATCHDOG_S]]
int main(int argc, char** argv) {
  return fourfold::comm::run(argc > 1 ? argv[1] : "matrix", argc > 2 ? argv[2] : "",
                             argc > 3 ? std::atof(argv[3]) : 0);
}
