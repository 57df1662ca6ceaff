// NCCL where something is wrong: errors of every call, ranks that never come, the end of a job and
// of its communicators. With an NCCL that is made up (support/fake_nccl.h).
#include "comm/nccl_communicators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "comm/nccl_world.h"
#include "comm/split_rounds.h"
#include "unit/comm/nccl_ranks.h"

namespace fourfold::comm {
namespace {

/// All that a rank may do.
void do_all(World& world, NcclWorld& device, const std::function<void()>& when_made = [] {}) {
  const GroupSpec spec = spec_of("x", {0, 1});
  device.create_groups({&spec, 1});
  const Rank peer(1 - world.rank().index());
  const std::vector<Channel> channels = {{peer, 4, true}, {peer, 4, false}};
  device.create_channels(channels);
  when_made();
  device.allocate(4096);
  DeviceGroup& group = device.group(spec.members, "x");
  std::vector<std::byte> one(8), two(16), other(16), sent(8);
  FakeStream out, in;
  try {
    group.enqueue({Collective::all_reduce, DType::f32, Reduction::sum, {one}, {one}}, in.get());
    group.enqueue({Collective::all_reduce, DType::f32, Reduction::sum, {one, two}, {one, two}},
                  in.get());
    group.enqueue({Collective::reduce_scatter, DType::f32, Reduction::sum, {two}, {one}}, in.get());
    group.enqueue({Collective::all_gather, DType::f32, Reduction::sum, {one}, {two}}, in.get());
    group.enqueue({Collective::all_to_all, DType::f32, Reduction::sum, {two}, {other}}, in.get());
    device.send(peer, 4, sent, out.get());
    device.recv(peer, 4, one, in.get());
    in.synchronize();
    out.synchronize();
    device.check();
  } catch (const std::exception&) {
    device.abort();  // as backends do before their streams go: one of them may wait for the peer
    throw;
  }
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(NcclFaults, an_error_of_any_call_is_told_with_rank_call_and_words) {
  // What fails from the start, and with which words for what it was done.
  struct Case {
    std::string function, what;
    bool when_made = true;
  };
  const std::vector<Case> cases = {
      {"ncclCommInitRankConfig", "all 2 ranks", false},
      {"ncclCommSplit", "x of ranks 0 1", false},
      {"ncclMemAlloc", "x of ranks 0 1", false},
      {"ncclMemAlloc", "4096 bytes of tensors"},
      {"ncclCommRegister", "x of ranks 0 1"},
      {"ncclAllReduce", "x of ranks 0 1", false},
      {"ncclSend", "messages of tag 4 of ranks", false},
      {"ncclRecv", "messages of tag 4 of ranks", false},
      {"ncclAllReduce", "x of ranks 0 1"},
      {"ncclReduceScatter", "x of ranks 0 1"},
      {"ncclAllGather", "x of ranks 0 1"},
      {"ncclSend", "x of ranks 0 1"},
      {"ncclRecv", "x of ranks 0 1"},
  };
  for (const auto& [function, what, when_made] : cases) {
    Ranks ranks(2);
    const auto break_it = [&] { ranks.nccl.fail(1, function, NcclResult::system_error); };
    if (!when_made) break_it();
    const std::string text = ranks.fault_of([&](World& world, NcclWorld& device) {
      do_all(world, device, [&] {
        if (when_made && world.rank() == Rank(1)) break_it();
      });
    });
    const bool is_exchange = when_made && (function == "ncclSend" || function == "ncclRecv");
    EXPECT_TRUE(has(text, format("NCCL on rank 1: {} for {}",
                                 is_exchange ? "ncclSend and ncclRecv" : function, what)))
        << text;
    EXPECT_TRUE(has(text, ": unhandled system error: the fake says why; NCCL_DEBUG=INFO")) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(ranks.nccl.num_alive(), 0) << function;
    EXPECT_EQ(ranks.nccl.num_allocations(), 0) << function;
  }
}

TEST(NcclFaults, an_error_of_the_unique_id_or_of_a_group_of_calls_is_told_too) {
  {
    Ranks ranks(2);
    ranks.nccl.fail(0, "ncclGetUniqueId", NcclResult::internal_error);
    const std::string text =
        ranks.fault_of([](World& world, NcclWorld& device) { do_all(world, device); });
    EXPECT_TRUE(has(text, "NCCL on rank 0: ncclGetUniqueId for all 2 ranks: ")) << text;
  }
  for (const std::string function : {"ncclGroupStart", "ncclGroupEnd"}) {
    Ranks ranks(2);
    const std::string text = ranks.fault_of([&](World& world, NcclWorld& device) {
      do_all(world, device, [&] {
        if (world.rank() == Rank(0)) ranks.nccl.fail(0, function, NcclResult::invalid_usage);
      });
    });
    EXPECT_TRUE(has(text, "NCCL on rank 0: ncclAllReduce for x of ranks 0 1: ")) << text;
    // What was begun was ended.
    const Calls calls = ranks.nccl.calls(0);
    EXPECT_EQ(std::ranges::count(calls, "group_start"), std::ranges::count(calls, "group_end"));
  }
}

TEST(NcclFaults, a_peer_that_is_gone_ends_the_job_with_the_code_for_it) {
  Ranks ranks(2);
  const std::string text = ranks.fault_of(
      [&](World& world, NcclWorld& device) {
        device.check();
        world.barrier();
        if (world.rank() == Rank(0)) return world.barrier();
        ranks.nccl.break_down(1, NcclResult::remote_error);
        device.check();
      },
      ExitCode::peer_lost);
  EXPECT_TRUE(has(text, "NCCL on rank 1: what was enqueued for all 2 ranks: remote process exited"))
      << text;
}

/// CUDA's words as NCCL 2.28.9 passes them on (ncclMemAlloc: cuMemCreate; and cudaMalloc, where
/// communicators are made).
TEST(NcclFaults, a_gpu_without_room_for_tensors_ends_with_the_code_for_it_and_the_bytes) {
  for (const char* words : {"Cuda failure 2 'out of memory'", "Cuda failure 'out of memory'"}) {
    Ranks ranks(2);
    ranks.nccl.fail(1, "ncclMemAlloc", NcclResult::unhandled_cuda_error);
    ranks.nccl.say(words);
    const std::string text = ranks.fault_of(
        [](World&, NcclWorld& device) { device.allocate(123'456'789); }, ExitCode::out_of_memory);
    EXPECT_TRUE(has(text, "NCCL on rank 1: ncclMemAlloc for 123456789 bytes of tensors")) << text;
    EXPECT_TRUE(has(text, "memory.limit")) << text;
  }
  Ranks ranks(2);
  ranks.nccl.fail(0, "ncclCommSplit", NcclResult::unhandled_cuda_error);
  ranks.nccl.say("Cuda failure 2 'out of memory'");
  EXPECT_NE(ranks.fault_of(
                [](World&, NcclWorld& device) {
                  const GroupSpec spec = spec_of("x", {0, 1});
                  device.create_groups({&spec, 1});
                },
                ExitCode::out_of_memory),
            "");
}

TEST(NcclFaults, an_error_on_the_device_is_told_by_check) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  const std::string text = ranks.fault_of([&](World& world, NcclWorld& device) {
    device.create_groups({&spec, 1});
    // Other sizes on each rank, of which the real one says nothing.
    std::vector<std::byte> data(8 * (1 + world.rank().index()));
    FakeStream stream;
    device.group(spec.members, "x")
        .enqueue({Collective::all_reduce, DType::f64, Reduction::sum, {data}, {data}},
                 stream.get());
    stream.synchronize();
    device.check();
  });
  EXPECT_TRUE(has(text, "what was enqueued for x of ranks 0 1: ")) << text;
}

TEST(NcclFaults, sizes_that_do_not_fit_are_a_fault_of_ours) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  ranks.run([&](World&, NcclWorld& device) {
    device.create_groups({&spec, 1});
    DeviceGroup& group = device.group(spec.members, "x");
    std::vector<std::byte> six(6), eight(8), sixteen(16);
    const auto refuses = [&](const DeviceCollective& collective) {
      EXPECT_THROW(group.enqueue(collective, nullptr), InternalError) << to_string(collective.kind);
    };
    refuses({Collective::all_reduce, DType::f32, Reduction::sum, {eight}, {sixteen}});
    refuses({Collective::all_reduce, DType::f32, Reduction::sum, {six}, {six}});
    refuses({Collective::all_reduce, DType::f32, Reduction::sum, {eight, eight}, {eight}});
    refuses({Collective::reduce_scatter, DType::f32, Reduction::sum, {eight}, {eight}});
    refuses({Collective::all_gather, DType::f32, Reduction::sum, {eight}, {eight}});
    refuses({Collective::all_to_all, DType::f32, Reduction::sum, {eight}, {sixteen}});
  });
}

TEST(NcclFaults, ranks_with_different_versions_are_named_with_them) {
  FakeNccl nccl;
  ThreadJob job(3);
  std::string text;
  try {
    job.run([&](World& world) {
      NcclApi api = nccl.api();
      if (world.rank() == Rank(2))
        api.get_version = [](int* version) {
          *version = 22703;
          return NcclResult::success;
        };
      const NcclWorld device(world, api);
    });
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::ranks_disagree);
    text = error.what();
  }
  EXPECT_EQ(text,
            "rank 0 has loaded NCCL 2.28.9 and rank 2 NCCL 2.27.3; put the same one into "
            "LD_LIBRARY_PATH on all hosts");
}

TEST(NcclFaults, a_rank_that_never_comes_is_not_waited_for_for_ever) {
  FakeNccl nccl;
  std::string text;
  const double took_s = seconds_of([&] {
    ThreadJob job(2);
    try {
      job.run([&](World& world) {
        if (world.rank() == Rank(1)) {
          // The version and the unique id, and no more.
          world.all_gather("2.28.9");
          world.broadcast("");
          return;
        }
        const NcclWorld device(world, nccl.api(), {.time_out_s = 0.1});
      });
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      text = error.what();
    }
  });
  EXPECT_LT(took_s, 8);
  EXPECT_TRUE(has(text,
                  "NCCL on rank 0: all 2 ranks did not all connect within 0.1 s; check that "
                  "every rank has a GPU of its own"))
      << text;
  EXPECT_EQ(nccl.num_alive(), 0);
}

TEST(NcclFaults, a_split_or_first_bytes_that_hang_end_after_the_time_out) {
  const GroupSpec spec = spec_of("x", {0, 1});
  for (const std::string function : {"ncclAllReduce", "ncclSend"}) {
    Ranks ranks(2);
    ranks.options.time_out_s = 0.2;
    ranks.nccl.block(1, function);
    std::string text;
    const double took_s = seconds_of([&] {
      text = ranks.fault_of([](World& world, NcclWorld& device) { do_all(world, device); });
    });
    EXPECT_TRUE(has(text, "did not all connect within 0.2 s")) << text;
    EXPECT_LT(took_s, 8);
  }
}

TEST(NcclFaults, a_rank_that_waits_for_others_hears_of_the_end_of_the_job) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  const double took_s = seconds_of([&] {
    const std::string text = ranks.fault_of(
        [&](World& world, NcclWorld& device) {
          if (world.rank() == Rank(0)) return device.create_groups({&spec, 1});
          parties_of_all(world, std::vector<Party>{{"x", {Rank(0), Rank(1)}}});
          throw UserError(ExitCode::bad_data, "the data is bad");
        },
        ExitCode::bad_data);
    EXPECT_EQ(text, "rank 1: the data is bad");
  });
  EXPECT_LT(took_s, 8);
  EXPECT_EQ(ranks.nccl.num_alive(), 0);
}

TEST(NcclFaults, a_rank_whose_call_blocks_hears_of_the_end_of_the_job) {
  Ranks ranks(2);
  ranks.nccl.block(0, "ncclAllReduce");
  ranks.nccl.fail(1, "ncclAllReduce", NcclResult::system_error);
  const double took_s = seconds_of([&] {
    const std::string text =
        ranks.fault_of([](World& world, NcclWorld& device) { do_all(world, device); });
    EXPECT_TRUE(has(text, "NCCL on rank 1: ncclAllReduce for x of ranks 0 1")) << text;
  });
  EXPECT_LT(took_s, 8);
  EXPECT_EQ(ranks.nccl.num_alive(), 0);
}

TEST(NcclFaults, a_rank_that_connects_for_a_later_call_hears_of_the_end_of_the_job) {
  // NCCL connects for the first large tensor, say, when its peer is gone already.
  for (const char* function : {"ncclReduceScatter", "ncclSend", "ncclRecv"}) {
    Ranks ranks(2);
    const GroupSpec spec = spec_of("x", {0, 1});
    const std::vector<std::vector<Channel>> channels = {{{Rank(1), 1, true}, {Rank(1), 2, false}},
                                                        {{Rank(0), 1, false}, {Rank(0), 2, true}}};
    const double took_s = seconds_of([&] {
      const std::string text = ranks.fault_of([&](World& world, NcclWorld& device) {
        device.create_groups({&spec, 1});
        device.create_channels(channels[world.rank().index()]);
        world.barrier();
        if (world.rank() == Rank(1)) throw UserError(ExitCode::environment, "rank 1 has gone");
        ranks.nccl.block(0, function);
        std::vector<std::byte> data(16);
        const std::span<std::byte> all(data), half = all.first(8);
        FakeStream stream;
        if (std::string_view(function) == "ncclSend") device.send(Rank(1), 1, all, stream.get());
        if (std::string_view(function) == "ncclRecv") device.recv(Rank(1), 2, all, stream.get());
        device.group(spec.members, "x")
            .enqueue({Collective::reduce_scatter, DType::f64, Reduction::sum, {all}, {half}},
                     stream.get());
      });
      EXPECT_TRUE(has(text, "rank 1 has gone")) << function << ": " << text;
    });
    EXPECT_LT(took_s, 8) << function;
    EXPECT_EQ(ranks.nccl.num_alive(), 0);
  }
}

TEST(NcclFaults, abort_from_another_thread_releases_streams_and_ends_all_calls) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  ranks.run([&](World& world, NcclWorld& device) {
    device.create_groups({&spec, 1});
    world.barrier();
    if (world.rank() == Rank(1)) return;
    std::vector<std::byte> data(8);
    FakeStream stream;
    const DeviceCollective collective{
        Collective::all_reduce, DType::f64, Reduction::sum, {data}, {data}};
    DeviceGroup& group = device.group(spec.members, "x");
    group.enqueue(collective, stream.get());  // rank 1 never does
    std::thread([&] { device.abort(); }).join();
    stream.synchronize();
    EXPECT_THROW(group.enqueue(collective, stream.get()), Aborted);
    EXPECT_THROW(device.check(), Aborted);
    device.abort();  // again, which does nothing
    const Calls calls = ranks.nccl.calls(0);
    EXPECT_EQ(std::ranges::count(calls, "abort"), 2);
  });
}

TEST(NcclFaults, check_ends_a_rank_that_waits_for_its_device_when_the_job_ends) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  const double took_s = seconds_of([&] {
    const std::string text = ranks.fault_of(
        [&](World& world, NcclWorld& device) {
          device.create_groups({&spec, 1});
          if (world.rank() == Rank(1)) throw UserError(ExitCode::storage, "the disk is full");
          std::vector<std::byte> data(8);
          FakeStream stream;
          device.group(spec.members, "x")
              .enqueue({Collective::all_reduce, DType::f64, Reduction::sum, {data}, {data}},
                       stream.get());
          // As whoever waits for a device does: it asks, and takes what it enqueued away.
          try {
            for (;;) {
              device.check();
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          } catch (const Aborted&) {
            device.abort();
            stream.synchronize();
            throw;
          }
        },
        ExitCode::storage);
    EXPECT_EQ(text, "rank 1: the disk is full");
  });
  EXPECT_LT(took_s, 8);
}

TEST(NcclFaults, an_end_in_order_destroys_all_and_aborts_nothing) {
  Ranks ranks(2);
  ranks.run([](World& world, NcclWorld& device) { do_all(world, device); });
  EXPECT_EQ(ranks.nccl.num_alive(), 0);
  EXPECT_EQ(ranks.nccl.num_allocations(), 0);
  for (const std::size_t rank : {0U, 1U}) {
    const Calls calls = ranks.nccl.calls(rank);
    EXPECT_EQ(std::ranges::count(calls, "abort"), 0);
    EXPECT_EQ(Calls(calls.end() - 5, calls.end()),
              (Calls{"destroy", "deregister", "destroy", "finalize", "destroy"}));
  }
}

}  // namespace
}  // namespace fourfold::comm
