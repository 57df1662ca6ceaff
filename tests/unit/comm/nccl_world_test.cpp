// Ranks over NCCL, with an NCCL that is made up (support/fake_nccl.h): results, the order of calls,
// messages.
#include "comm/nccl_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/format.h"
#include "unit/comm/matrix.h"
#include "unit/comm/nccl_ranks.h"

namespace fourfold::comm {
namespace {

std::span<std::byte> writable(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// The group of a device as one of the host, which waits for each collective.
class OnDevice : public Group {
 public:
  OnDevice(const GroupSpec& group_spec, std::size_t position, DeviceGroup& group)
      : Group(group_spec, position), group_(group) {}

 private:
  void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                DType type, Reduction reduction) override {
    enqueue({kind, type, reduction, {writable(from)}, {to}});
  }
  void enqueue(const DeviceCollective& collective) {
    group_.enqueue(collective, stream_.get());
    stream_.synchronize();
  }

  DeviceGroup& group_;
  FakeStream stream_;
};

class NcclSizes : public testing::TestWithParam<std::size_t> {};

TEST_P(NcclSizes, every_collective_on_every_type_equals_the_serial_result) {
  const std::size_t count = GetParam();
  Ranks ranks(count);
  std::vector<std::string> errors(count);
  ranks.run([&](World& world, NcclWorld& device) {
    GroupSpec spec{"all", {}, 0};
    // Members count in the group's order, here from the last rank on.
    for (std::size_t i = count; i-- > 0;) spec.members.emplace_back(i);
    device.create_groups({&spec, 1});
    OnDevice group(spec, count - 1 - world.rank().index(), device.group(spec.members, "all"));
    for (const std::int64_t elements : {0, 1, 3, 17, 1000})
      errors[world.rank().index()] += check_collectives(group, elements, Rounding::once);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}
INSTANTIATE_TEST_SUITE_P(NcclWorld, NcclSizes, testing::Values(2, 3, 4),
                         [](const auto& size) { return std::to_string(size.param) + "_ranks"; });

/// Tensors of some sizes with numbers of a rank's own.
struct Tensors {
  Tensors(const std::vector<std::size_t>& sizes, std::size_t rank) {
    std::uint64_t number = rank * 1000;
    for (const std::size_t size : sizes) {
      values.emplace_back(size);
      for (float& value : values.back()) value = static_cast<float>(number++ * 7919 % 613) / 64;
    }
  }
  std::vector<Bytes> bytes() {
    std::vector<Bytes> list;
    for (auto& tensor : values) list.push_back(std::as_writable_bytes(std::span(tensor)));
    return list;
  }
  std::vector<std::vector<float>> values;
};

TEST(NcclWorld, several_tensors_are_one_group_of_calls_with_the_results_of_threads) {
  constexpr std::size_t count = 3;
  Ranks ranks(count);
  const GroupSpec spec = spec_of("all", {0, 1, 2});
  const std::vector<std::size_t> parts = {5, 0, 1, 64}, wholes = {15, 0, 3, 192};
  ranks.run([&](World& world, NcclWorld& device) {
    device.create_groups({&spec, 1});
    world.create_groups({&spec, 1});
    Group& host = world.group(spec.members, "all");
    DeviceGroup& group = device.group(spec.members, "all");
    const std::size_t me = world.rank().index();
    for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter,
                                  Collective::all_gather, Collective::all_to_all}) {
      const auto& from_sizes = kind == Collective::all_gather ? parts : wholes;
      const auto& to_sizes = kind == Collective::reduce_scatter ? parts : wholes;
      Tensors from(from_sizes, me), to(to_sizes, 77), host_from = from, host_to = to;
      const bool in_place = kind == Collective::all_reduce;
      const std::size_t before = ranks.nccl.calls(me).size();
      group.enqueue(
          {kind, DType::f32, Reduction::sum, from.bytes(), in_place ? from.bytes() : to.bytes()},
          nullptr);
      Calls calls = ranks.nccl.calls(me);
      calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before));
      // One for each tensor that has something, or a send and a receive for each member.
      EXPECT_EQ(calls.size(), kind == Collective::all_to_all ? 2 + 3 * 2 * count : 2 + 3);
      EXPECT_EQ(calls.front(), "group_start");
      EXPECT_EQ(calls.back(), "group_end");
      host.carry_out(kind, host_from.bytes(), in_place ? host_from.bytes() : host_to.bytes(),
                     DType::f32, Reduction::sum);
      EXPECT_EQ(from.values, host_from.values) << to_string(kind);
      EXPECT_EQ(to.values, host_to.values) << to_string(kind);
    }
  });
}

TEST(NcclWorld, a_rank_alone_keeps_what_it_has) {
  Ranks ranks(1);
  const GroupSpec spec = spec_of("all", {0});
  ranks.run([&](World&, NcclWorld& device) {
    device.create_groups({&spec, 1});
    for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter,
                                  Collective::all_gather, Collective::all_to_all}) {
      Tensors from({4, 9}, 1), to({4, 9}, 2);
      const bool in_place = kind == Collective::all_reduce;
      device.group(spec.members, "all")
          .enqueue({kind, DType::f32, Reduction::sum, from.bytes(),
                    in_place ? from.bytes() : to.bytes()},
                   nullptr);
      EXPECT_EQ((in_place ? from : to).values, Tensors({4, 9}, 1).values) << to_string(kind);
    }
  });
}

TEST(NcclWorld, a_single_tensor_is_one_call_in_elements_of_its_type) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("all", {0, 1});
  ranks.run([&](World& world, NcclWorld& device) {
    device.create_groups({&spec, 1});
    DeviceGroup& group = device.group(spec.members, "all");
    std::vector<std::byte> one(24), two(48);
    group.enqueue({Collective::all_reduce, DType::bf16, Reduction::max, {one}, {one}}, nullptr);
    group.enqueue({Collective::reduce_scatter, DType::f64, Reduction::sum, {two}, {one}}, nullptr);
    group.enqueue({Collective::all_gather, DType::f32, Reduction::sum, {one}, {two}}, nullptr);
    Calls calls = ranks.nccl.calls(world.rank().index());
    calls.erase(calls.begin(), calls.end() - 3);
    EXPECT_EQ(calls, (Calls{"all_reduce 12 bf16 max on 2 ranks",
                            "reduce_scatter 3 f64 sum on 2 ranks", "all_gather 24 u8 on 2 ranks"}));
  });
}

TEST(NcclWorld, all_ranks_split_together_in_one_order_whatever_the_order_of_their_lists) {
  // A grid of 2 x 2, with a group of three ranks beside.
  Ranks ranks(4);
  const std::vector<GroupSpec> specs = {spec_of("y", {0, 2}), spec_of("y", {1, 3}),
                                        spec_of("x", {0, 1}), spec_of("x", {2, 3}),
                                        spec_of("z", {3, 0, 1})};
  ranks.run([&](World& world, NcclWorld& device) {
    std::vector<GroupSpec> own;
    for (const GroupSpec& spec : specs)
      if (std::ranges::find(spec.members, world.rank()) != spec.members.end()) own.push_back(spec);
    if (world.rank() == Rank(3)) std::ranges::reverse(own);
    device.create_groups(own);
    // What is there stays: no call of NCCL.
    const std::size_t before = ranks.nccl.calls(world.rank().index()).size();
    device.create_groups(own);
    EXPECT_EQ(ranks.nccl.calls(world.rank().index()).size(), before);
  });
  const std::string first = "all_reduce 1 i64 max on 2 ranks";
  const std::string of_three = "all_reduce 1 i64 max on 3 ranks";
  const auto calls = [&](std::size_t rank) {
    Calls made = ranks.nccl.calls(rank);
    std::erase_if(made, [](const std::string& call) {
      return call == "get_unique_id" || call == "mem_alloc" || call == "destroy" ||
             call == "finalize";
    });
    return made;
  };
  EXPECT_EQ(calls(0),
            (Calls{"init 0 of 4", "split 0 0", "split 0 0", "split 0 1", first, first, of_three}));
  EXPECT_EQ(calls(1),
            (Calls{"init 1 of 4", "split 0 1", "split 1 0", "split 0 2", first, first, of_three}));
  EXPECT_EQ(calls(2), (Calls{"init 2 of 4", "split 1 0", "split 0 1", "split none", first, first}));
  EXPECT_EQ(calls(3),
            (Calls{"init 3 of 4", "split 1 1", "split 1 1", "split 0 0", first, first, of_three}));
}

TEST(NcclWorld, only_the_communicator_of_all_does_not_block_and_none_shares) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("all", {0, 1});
  ranks.run([&](World& world, NcclWorld& device) {
    device.create_groups({&spec, 1});
    const bool sends = world.rank() == Rank(0);
    const Channel channel{Rank(sends ? 1 : 0), 5, sends};
    device.create_channels({&channel, 1});
  });
  for (const std::size_t rank : {0U, 1U}) {
    const std::vector<NcclConfig> configs = ranks.nccl.configs(rank);
    ASSERT_EQ(configs.size(), 3);
    EXPECT_EQ(configs[0].blocking, 0);
    for (const std::size_t i : {1U, 2U}) {
      EXPECT_EQ(configs[i].blocking, 1);
      EXPECT_EQ(configs[i].split_share, 0);
    }
    EXPECT_EQ(configs[1].max_ctas, NcclConfig::undefined);
    EXPECT_EQ(configs[2].max_ctas, 8);
  }
}

// --- memory

/// Takes memory after a group and two channels were made, and exchanges in it.
void exchange_in_own_memory(World& world, NcclWorld& device) {
  const GroupSpec spec = spec_of("x", {0, 1}), later = spec_of("later", {0, 1});
  device.create_groups({&spec, 1});
  const Rank peer(1 - world.rank().index());
  const std::vector<Channel> channels = {{peer, 4, true}, {peer, 4, false}};
  device.create_channels(channels);
  std::byte* const memory = device.allocate(4096);
  ASSERT_NE(memory, nullptr);
  device.create_groups({&later, 1});
  auto* const values = reinterpret_cast<float*>(memory);
  values[1023] = static_cast<float>(1 + world.rank().index());
  const Bytes last(memory + 4092, 4);
  FakeStream stream;
  device.group(spec.members, "x")
      .enqueue({Collective::all_reduce, DType::f32, Reduction::sum, {last}, {last}}, stream.get());
  stream.synchronize();
  EXPECT_EQ(values[1023], 3);
}

TEST(NcclWorld, its_memory_is_registered_with_all_communicators_that_carry_tensors) {
  Ranks ranks(2);
  ranks.run([&](World& world, NcclWorld& device) {
    exchange_in_own_memory(world, device);
    // With the group, with both channels, and with the group that came later.
    const Calls calls = ranks.nccl.calls(world.rank().index());
    EXPECT_EQ(std::ranges::count(calls, "register 4096 on 2 ranks"), 4);
    world.barrier();
    EXPECT_EQ(ranks.nccl.num_registered(), 8);
  });
  EXPECT_EQ(ranks.nccl.num_alive(), 0);
  EXPECT_EQ(ranks.nccl.num_allocations(), 0);
  for (const std::size_t rank : {0U, 1U}) {
    const Calls calls = ranks.nccl.calls(rank);
    // Each communicator is rid of the memory before it goes itself.
    EXPECT_EQ(Calls(calls.end() - 10, calls.end()),
              (Calls{"deregister", "destroy", "deregister", "destroy", "deregister", "destroy",
                     "deregister", "destroy", "finalize", "destroy"}));
  }
}

TEST(NcclWorld, a_library_that_cannot_register_gives_memory_all_the_same) {
  Ranks ranks(2);
  ranks.can_register = false;
  ranks.run(exchange_in_own_memory);
  EXPECT_EQ(ranks.nccl.num_allocations(), 0);
  const Calls calls = ranks.nccl.calls(0);
  EXPECT_EQ(std::ranges::count(calls, "mem_alloc"), 2);  // for the first bytes, and this one
  EXPECT_TRUE(
      std::ranges::none_of(calls, [](const std::string& call) { return has(call, "register"); }));
}

TEST(NcclWorld, after_a_fault_its_memory_goes_when_the_communicators_are_gone) {
  Ranks ranks(2);
  const std::string text = ranks.fault_of([&](World& world, NcclWorld& device) {
    exchange_in_own_memory(world, device);
    world.barrier();
    if (world.rank() == Rank(1)) throw UserError(ExitCode::environment, "the GPU was lost");
    world.barrier();
  });
  EXPECT_TRUE(has(text, "the GPU was lost")) << text;
  EXPECT_EQ(ranks.nccl.num_alive(), 0);
  EXPECT_EQ(ranks.nccl.num_allocations(), 0);
}

// --- messages

TEST(NcclWorld, messages_pair_by_tag_and_ranks_that_both_send_first_do_not_wait_for_each_other) {
  Ranks ranks(2);
  ranks.run([&](World& world, NcclWorld& device) {
    const Rank peer(1 - world.rank().index());
    const std::vector<Channel> channels = {
        {peer, 1, true}, {peer, 2, true}, {peer, 1, false}, {peer, 2, false}};
    device.create_channels(channels);
    EXPECT_TRUE(device.can_be_captured());
    const auto number = [](std::size_t rank, int tag, int k) {
      return static_cast<std::int32_t>(rank * 100) + tag * 10 + k;
    };
    FakeStream out, in;
    std::int32_t sent[3][2], got[3][2];
    for (const int tag : {1, 2})
      for (const int k : {0, 1}) {
        sent[tag][k] = number(world.rank().index(), tag, k);
        device.send(peer, tag, std::as_bytes(std::span(&sent[tag][k], 1)), out.get());
      }
    // The other tag first.
    FakeStream in_of_two;
    for (const int k : {0, 1})
      device.recv(peer, 2, std::as_writable_bytes(std::span(&got[2][k], 1)), in_of_two.get());
    for (const int k : {0, 1})
      device.recv(peer, 1, std::as_writable_bytes(std::span(&got[1][k], 1)), in.get());
    device.send(peer, 1, {}, out.get());  // nothing, of which the peer knows
    out.synchronize();
    in.synchronize();
    in_of_two.synchronize();
    for (const int tag : {1, 2})
      for (const int k : {0, 1}) EXPECT_EQ(got[tag][k], number(peer.index(), tag, k));
    device.check();
  });
}

TEST(NcclWorld, a_channel_has_a_communicator_of_its_sender_and_receiver) {
  // A chain of three ranks, whose middle one passes on.
  Ranks ranks(3);
  ranks.run([&](World& world, NcclWorld& device) {
    const std::vector<std::vector<Channel>> channels = {
        {{Rank(1), 9, true}}, {{Rank(0), 9, false}, {Rank(2), 9, true}}, {{Rank(1), 9, false}}};
    device.create_channels(channels[world.rank().index()]);
    double value = 4.5;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    if (world.rank() == Rank(0)) device.send(Rank(1), 9, bytes, nullptr);
    if (world.rank() == Rank(1)) {
      value = 0;
      device.recv(Rank(0), 9, bytes, nullptr);
      device.send(Rank(2), 9, bytes, nullptr);
    }
    if (world.rank() == Rank(2)) {
      value = 0;
      device.recv(Rank(1), 9, bytes, nullptr);
    }
    EXPECT_EQ(value, 4.5);
  });
  // Neighbours in a chain take two rounds, in which the first bytes go the way of the messages.
  EXPECT_EQ(ranks.nccl.calls(1)[1], "split 0 1");
  EXPECT_EQ(ranks.nccl.calls(1)[2], "split 0 0");
  const Calls calls = ranks.nccl.calls(1);
  EXPECT_NE(std::ranges::find(calls, "recv 1 u8 from 0 on 2 ranks"), calls.end());
  EXPECT_NE(std::ranges::find(calls, "send 1 u8 to 1 on 2 ranks"), calls.end());
}

TEST(NcclWorld, a_message_without_a_channel_is_a_fault_of_ours_that_names_it) {
  Ranks ranks(2);
  std::string text;
  try {
    ranks.run([&](World& world, NcclWorld& device) {
      std::int32_t value = 0;
      if (world.rank() == Rank(1))
        device.send(Rank(0), 3, std::as_bytes(std::span(&value, 1)), nullptr);
    });
  } catch (const InternalError& error) {
    text = error.what();
  }
  EXPECT_TRUE(has(text, "messages of tag 3 to rank 0 have a channel")) << text;
}

TEST(NcclWorld, groups_that_only_one_rank_makes_end_the_job) {
  Ranks ranks(2);
  const GroupSpec spec = spec_of("x", {0, 1});
  const std::string text = ranks.fault_of(
      [&](World& world, NcclWorld& device) {
        device.create_groups(std::span(&spec, world.rank().index()));
      },
      ExitCode::ranks_disagree);
  EXPECT_TRUE(has(text, "rank 1 wants x of ranks 0 1, and rank 0 does not")) << text;
}

}  // namespace
}  // namespace fourfold::comm
