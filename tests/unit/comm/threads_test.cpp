// Ranks as threads: results, bits, endings. Runs under ThreadSanitizer too.
#include "comm/threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/format.h"
#include "base/random.h"
#include "unit/comm/matrix.h"

namespace fourfold::comm {
namespace {

using namespace std::chrono_literals;

GroupSpec all_ranks(std::size_t count, std::string name = "all") {
  GroupSpec spec{std::move(name), {}, 0};
  for (std::size_t i = 0; i < count; ++i) spec.members.emplace_back(i);
  return spec;
}

Group& make_group(World& world, const GroupSpec& spec) {
  world.create_groups({&spec, 1});
  return world.group(spec.members, spec.name);
}

class Sizes : public testing::TestWithParam<std::size_t> {};

TEST_P(Sizes, every_collective_on_every_type_equals_the_serial_result) {
  const std::size_t ranks = GetParam();
  ThreadJob job(ranks);
  std::vector<std::string> errors(ranks);
  job.run([&](World& world) {
    Group& group = make_group(world, all_ranks(ranks));
    for (const std::int64_t count : {0, 1, 3, 16, 17, 1000, 4099})
      errors[world.rank().index()] += check_collectives(group, count, Rounding::once);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}
INSTANTIATE_TEST_SUITE_P(ThreadWorld, Sizes, testing::Values(1, 2, 3, 4, 5, 7, 8),
                         [](const auto& size) { return std::to_string(size.param) + "_ranks"; });

TEST(ThreadWorld, ranks_run_on_any_core_or_each_on_its_share) {
  const std::vector<int> all = usable_cores();
  // Twice as many ranks as cores: two to a core.
  const std::size_t ranks = 2 * all.size();
  std::vector<std::vector<int>> cores(ranks);
  const auto note = [&](World& world) { cores[world.rank().index()] = usable_cores(); };
  ThreadJob(ranks).run(note);
  for (const std::vector<int>& of_rank : cores) EXPECT_EQ(of_rank, all);
  ThreadJob(ranks).run(note, ThreadJob::Cores::own_share);
  std::map<std::vector<int>, std::size_t> counts;
  for (const std::vector<int>& of_rank : cores) ++counts[of_rank];
  EXPECT_EQ(counts.size(), all.size());
  for (const auto& [of_rank, count] : counts) {
    EXPECT_EQ(of_rank.size(), 1U);
    EXPECT_EQ(count, 2U);
  }
}

TEST(ThreadWorld, members_count_in_the_order_of_the_group) {
  ThreadJob job(3);
  job.run([&](World& world) {
    GroupSpec spec{"odd", {Rank(2), Rank(0)}, 0};
    world.create_groups({&spec, 1});
    if (world.rank() == Rank(1)) return;
    Group& group = world.group(spec.members, "odd");
    const auto mine = static_cast<std::int32_t>(10 + world.rank().index());
    std::int32_t all[2] = {};
    group.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    EXPECT_EQ(all[0], 12);
    EXPECT_EQ(all[1], 10);
  });
}

TEST(ThreadWorld, groups_work_side_by_side_on_threads_of_their_own) {
  // A grid of 2 x 3: each rank uses its row and its column at the same time, in a different order
  // on each, many times over.
  ThreadJob job(6);
  std::vector<std::string> errors(12);
  job.run([&](World& world) {
    const std::size_t me = world.rank().index(), row = me / 3, column = me % 3;
    const GroupSpec specs[] = {{"x", {Rank(3 * row), Rank(3 * row + 1), Rank(3 * row + 2)}, 0},
                               {"y", {Rank(column), Rank(column + 3)}, 0}};
    world.create_groups(specs);
    std::thread other([&] {
      for (int i = 0; i < 20; ++i)
        errors[2 * me] += check_collectives(world.group(specs[0].members, "x"), 33, Rounding::once);
    });
    for (int i = 0; i < 20; ++i)
      errors[2 * me + 1] +=
          check_collectives(world.group(specs[1].members, "y"), 50, Rounding::once);
    other.join();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(ThreadWorld, sums_have_the_same_bits_whatever_the_timing) {
  constexpr std::size_t ranks = 5, count = 5000;
  std::vector<float> first;
  for (std::uint64_t run = 0; run < 50; ++run) {
    ThreadJob job(ranks);
    std::vector<std::vector<float>> results(ranks);
    job.run([&](World& world) {
      const std::size_t me = world.rank().index();
      const Random random(me, random_stream("test.terms"));
      std::vector<float>& data = results[me];
      for (std::size_t i = 0; i < count; ++i)
        data.push_back(static_cast<float>(random.normal(i, 0)));
      const Random delay(run, random_stream("test.delay"));
      std::this_thread::sleep_for(std::chrono::microseconds(delay.below(2000, me, 0)));
      make_group(world, all_ranks(ranks))
          .all_reduce(std::as_writable_bytes(std::span(data)), DType::f32, Reduction::sum);
    });
    if (run == 0) {
      // In the order of the members.
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (std::size_t m = 0; m < ranks; ++m) {
          const Random random(m, random_stream("test.terms"));
          const auto term = static_cast<float>(random.normal(i, 0));
          sum = m == 0 ? term : sum + term;
        }
        first.push_back(sum);
      }
    }
    for (const auto& result : results)
      ASSERT_EQ(std::memcmp(result.data(), first.data(), count * sizeof(float)), 0);
  }
}

TEST(ThreadWorld, messages_arrive_by_sender_and_tag) {
  ThreadJob job(3);
  job.run([&](World& world) {
    const auto send = [&](std::size_t to, int tag, int value) {
      world.send(Rank(to), tag, std::as_bytes(std::span(&value, 1)));
    };
    const auto recv = [&](std::size_t from, int tag) {
      int value = 0;
      world.recv(Rank(from), tag, std::as_writable_bytes(std::span(&value, 1)));
      return value;
    };
    if (world.rank() == Rank(0)) {
      std::thread late([&] { send(2, 7, 70); });
      send(2, 8, 80);
      send(2, 8, 81);
      late.join();
      EXPECT_EQ(world.sent().calls, 3);
      EXPECT_EQ(world.sent().payload_bytes, 12);
    } else if (world.rank() == Rank(1)) {
      send(2, 8, 18);
    } else {
      EXPECT_EQ(recv(1, 8), 18);
      EXPECT_EQ(recv(0, 8), 80);
      EXPECT_EQ(recv(0, 8), 81);
      EXPECT_EQ(recv(0, 7), 70);
    }
  });
}

TEST(ThreadWorld, the_hosts_reduce_gather_and_broadcast) {
  ThreadJob job(4);
  job.run([&](World& world) {
    const auto me = static_cast<std::int64_t>(world.rank().index());
    double values[] = {0.5, static_cast<double>(me)};
    world.all_reduce(values, Reduction::max);
    EXPECT_EQ(values[1], 3);
    std::int64_t counts[] = {me, 1};
    world.all_reduce(counts, Reduction::sum);
    EXPECT_EQ(counts[0], 6);
    EXPECT_EQ(counts[1], 4);
    EXPECT_EQ(world.all_gather(std::string(static_cast<std::size_t>(me), 'a')),
              (std::vector<std::string>{"", "a", "aa", "aaa"}));
    EXPECT_EQ(world.broadcast(me == 0 ? "from rank zero" : "ignored"), "from rank zero");
    EXPECT_EQ(world.broadcast(""), "");
    world.barrier();
  });
}

/// Runs a job that must fail; the text of its error.
std::string error_of(ThreadJob& job, const std::function<void(World&)>& body, ExitCode code) {
  try {
    job.run(body);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "the job ended without an error";
  return "";
}

TEST(ThreadWorld, a_fault_of_one_rank_releases_all_and_is_what_the_job_reports) {
  // Rank 3 breaks while the others wait in different ways.
  ThreadJob job(4);
  const auto body = [&](World& world) {
    Group& group = make_group(world, all_ranks(4));
    float x = 1;
    switch (world.rank().index()) {
      case 0:
        group.all_reduce(std::as_writable_bytes(std::span(&x, 1)), DType::f32, Reduction::sum);
        break;
      case 1:
        world.recv(Rank(3), 0, std::as_writable_bytes(std::span(&x, 1)));
        break;
      case 2:
        world.send(Rank(3), 0, std::as_bytes(std::span(&x, 1)));
        break;
      default:
        std::this_thread::sleep_for(20ms);
        throw UserError(ExitCode::storage, "the disk is full");
    }
    ADD_FAILURE() << "rank " << world.rank().index() << " was not released";
  };
  EXPECT_EQ(error_of(job, body, ExitCode::storage), "rank 3: the disk is full");
}

TEST(ThreadWorld, after_an_abort_nothing_waits_any_more) {
  ThreadJob job(2);
  const auto body = [&](World& world) {
    if (world.rank() == Rank(0)) {
      world.abort_all(ExitCode::numeric_stop, "first");
      world.abort_all(ExitCode::storage, "second");
    }
    float x = 0;
    EXPECT_THROW(
        make_group(world, all_ranks(2))
            .all_reduce(std::as_writable_bytes(std::span(&x, 1)), DType::f32, Reduction::sum),
        Aborted);
    const Rank peer(1 - world.rank().index());
    EXPECT_THROW(world.send(peer, 0, std::as_bytes(std::span(&x, 1))), Aborted);
    EXPECT_THROW(world.recv(peer, 0, std::as_writable_bytes(std::span(&x, 1))), Aborted);
    EXPECT_THROW(world.barrier(), Aborted);
  };
  EXPECT_EQ(error_of(job, body, ExitCode::numeric_stop), "first");
}

TEST(ThreadWorld, a_group_made_after_an_abort_waits_for_nobody) {
  ThreadJob job(2);
  job.world(1).abort_all(ExitCode::storage, "stop");
  float x = 0;
  EXPECT_THROW(
      make_group(job.world(0), all_ranks(2, "late"))
          .all_reduce(std::as_writable_bytes(std::span(&x, 1)), DType::f32, Reduction::sum),
      Aborted);
}

TEST(ThreadWorld, an_abort_never_frees_memory_that_a_peer_still_reads) {
  // Whoever enters the work of a collective leaves it with all others: under a sanitizer a buffer
  // that goes too early shows.
  for (std::uint64_t run = 0; run < 200; ++run) {
    ThreadJob job(3);
    EXPECT_THROW(job.run([&](World& world) {
      Group& group = make_group(world, all_ranks(3));
      const Random delay(run, random_stream("test.abort"));
      std::thread breaker;
      if (world.rank() == Rank(2))
        breaker = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(delay.below(300, 0, 0)));
          world.abort_all(ExitCode::storage, "stop");
        });
      try {
        for (;;) {
          std::vector<float> data(20000, 1.F);
          group.all_reduce(std::as_writable_bytes(std::span(data)), DType::f32, Reduction::sum);
        }
      } catch (const Aborted&) {
        if (breaker.joinable()) breaker.join();
        throw;
      }
    }),
                 UserError);
  }
}

TEST(ThreadWorld, members_that_call_different_collectives_are_told) {
  ThreadJob job(2);
  const auto body = [&](World& world) {
    Group& group = make_group(world, all_ranks(2));
    std::vector<float> data(world.rank() == Rank(0) ? 4 : 6);
    group.all_reduce(std::as_writable_bytes(std::span(data)), DType::f32, Reduction::sum);
  };
  const std::string error = error_of(job, body, ExitCode::ranks_disagree);
  EXPECT_NE(error.find("rank 0 all_reduce sum of f32 from 16 to 16 bytes, rank 1 all_reduce sum of "
                       "f32 from 24 to 24 bytes"),
            std::string::npos)
      << error;
}

TEST(ThreadWorld, a_message_of_another_size_is_told) {
  ThreadJob job(2);
  const auto body = [&](World& world) {
    std::byte bytes[8] = {};
    if (world.rank() == Rank(0))
      world.send(Rank(1), 3, bytes);
    else
      world.recv(Rank(0), 3, std::span(bytes).first(4));
  };
  EXPECT_EQ(error_of(job, body, ExitCode::ranks_disagree).substr(0, 8), "rank 1: ");
}

TEST(ThreadWorld, an_error_that_all_ranks_meet_is_told_once_and_without_a_rank) {
  ThreadJob job(3);
  const auto body = [](World&) { throw UserError(ExitCode::numeric_stop, "the loss is NaN"); };
  EXPECT_EQ(error_of(job, body, ExitCode::numeric_stop), "the loss is NaN");
}

TEST(ThreadWorld, a_broken_invariant_stays_one) {
  ThreadJob job(2);
  EXPECT_THROW(job.run([](World& world) { require(world.rank() == Rank(0), "holds on rank 0"); }),
               InternalError);
}

TEST(Group, counts_calls_and_bytes) {
  ThreadJob job(4);
  job.run([&](World& world) {
    Group& group = make_group(world, all_ranks(4));
    std::vector<float> part(10), whole(40), other(40);
    const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
    group.all_reduce(bytes(whole), DType::f32, Reduction::sum);
    group.all_reduce(bytes(part), DType::f32, Reduction::max);
    group.reduce_scatter(bytes(whole), bytes(part), DType::f32, Reduction::sum);
    group.all_gather(bytes(part), bytes(whole));
    group.all_to_all(bytes(whole), bytes(other));
    EXPECT_EQ(group.traffic(Collective::all_reduce).calls, 2);
    EXPECT_EQ(group.traffic(Collective::all_reduce).payload_bytes, 200);
    EXPECT_EQ(group.traffic(Collective::all_reduce).ring_bytes, 300);
    for (const auto kind :
         {Collective::reduce_scatter, Collective::all_gather, Collective::all_to_all}) {
      EXPECT_EQ(group.traffic(kind).calls, 1);
      EXPECT_EQ(group.traffic(kind).payload_bytes, 160);
      EXPECT_EQ(group.traffic(kind).ring_bytes, 120);
    }
  });
}

TEST(Group, refuses_sizes_and_overlaps_that_make_no_sense) {
  ThreadJob job(1);
  job.run([&](World& world) {
    Group& group = make_group(world, all_ranks(1));
    std::vector<std::byte> bytes(16);
    const std::span<std::byte> all(bytes);
    EXPECT_THROW(group.all_reduce(all.first(6), DType::f32, Reduction::sum), InternalError);
    EXPECT_THROW(group.reduce_scatter(all.first(8), all.last(4), DType::f32, Reduction::sum),
                 InternalError);
    EXPECT_THROW(group.all_gather(all.first(8), all.subspan(4, 8)), InternalError);
    EXPECT_THROW(group.all_to_all(all.first(8), all.subspan(4, 8)), InternalError);
    EXPECT_NO_THROW(group.all_gather(all.first(8), all.first(8)));
  });
}

TEST(World, finds_only_groups_that_were_made) {
  ThreadJob job(2);
  job.run([&](World& world) {
    const GroupSpec spec = all_ranks(2, "x");
    Group& group = make_group(world, spec);
    EXPECT_EQ(&group, &make_group(world, spec));
    EXPECT_EQ(world.groups().size(), 1U);
    EXPECT_THROW(world.group(spec.members, "y"), InternalError);
  });
}

}  // namespace
}  // namespace fourfold::comm
