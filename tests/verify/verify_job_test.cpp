// Jobs of several ranks: sound ones are found sound, and whoever breaks one is named.
#include "verify/verify_job.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>

#include "program/jobs.h"
#include "program/text.h"
#include "verify/faults.h"
#include "verify/mutations.h"

namespace fourfold::verify {
namespace {

std::vector<Fault> verify_all(const std::vector<Bundle>& job) {
  return verify(job_of(job));
}

TEST(VerifyJob, grids_are_sound) {
  for (const Grid& grid : {Grid{1, 1, 1, 1}, Grid{2, 2, 1, 1}, Grid{1, 1, 2, 2}, Grid{1, 2, 2, 2},
                           Grid{2, 1, 2, 2}, Grid{2, 2, 2, 2}, Grid{3, 1, 1, 1}})
    EXPECT_EQ(all(verify_all(grid_job(grid))), "")
        << format("{} {} {} {}", grid.data, grid.z, grid.y, grid.x);
}

TEST(VerifyJob, two_meshes_are_sound) {
  for (const std::int64_t width : {1, 2, 4}) EXPECT_EQ(all(verify_all(pipeline_job(width))), "");
}

/// Two classes, one for each mesh of the pipeline.
Job folded_pipeline(std::int64_t width) {
  const std::vector<Bundle> bundles = pipeline_job(width);
  const auto per_mesh = static_cast<std::size_t>(width);
  Job job{{bundles[0], bundles[per_mesh]}, {}};
  for (std::size_t rank = 0; rank < bundles.size(); ++rank) {
    Binding binding{rank < per_mesh ? 0U : 1U, {}};
    for (const Channel& channel : channels_of(bundles[rank])) binding.peers.push_back(channel.peer);
    job.ranks.push_back(binding);
    EXPECT_EQ(bundle_of(job, Rank(rank)), bundles[rank]);
  }
  return job;
}

TEST(VerifyJob, classes_of_several_ranks_are_sound_and_so_is_their_text) {
  for (const std::int64_t width : {1, 2, 4}) {
    const Job job = folded_pipeline(width);
    EXPECT_EQ(all(verify(job)), "");
    const std::string text = to_text(job);
    const Job read = parse_job(text, "job.txt");
    EXPECT_EQ(read, job);
    EXPECT_EQ(all(verify(read)), "");
  }
}

/// What the verifier says first of a job whose bindings were changed.
std::string first_fault(const std::function<void(Job&)>& change) {
  Job job = folded_pipeline(4);
  change(job);
  const std::vector<Fault> faults = verify(job);
  return faults.empty() ? "nothing" : faults[0].rule + ": " + faults[0].message;
}

TEST(VerifyJob, bindings_that_do_not_fit_are_named) {
  EXPECT_EQ(first_fault([](Job& job) { job.ranks[2].of_class = 1; }),
            "bundle: rank 2: init is the program of rank 4");
  EXPECT_EQ(first_fault([](Job& job) { job.ranks[6] = {0, job.ranks[2].peers}; }),
            "binding: rank 6: it does not stand on the meshes of its class, as rank 0 does");
  EXPECT_EQ(first_fault([](Job& job) { job.ranks[2].of_class = 7; }),
            "binding: rank 2: it is of class 7 of 2");
  EXPECT_EQ(first_fault([](Job& job) { job.classes.push_back(job.classes[0]); }),
            "binding: class 2 has no rank");
  EXPECT_EQ(first_fault([](Job& job) { job.ranks[2].peers.pop_back(); }),
            "binding: rank 2: it has 7 peers, its class has 8 channels");
  EXPECT_EQ(first_fault([](Job& job) { job.ranks[0].peers[0] = Rank(5); }),
            "binding: rank 0: its peer 0 is rank 5, that of its class is rank 4");
  EXPECT_NE(first_fault([](Job& job) { job.ranks[2].peers[0] = Rank(99); }).find("bounds: rank 2"),
            std::string::npos);
  EXPECT_NE(first_fault([](Job& job) {
              std::swap(job.ranks[2].peers[0], job.ranks[3].peers[0]);
            }).find("matching: rank"),
            std::string::npos);
  EXPECT_EQ(first_fault([](Job& job) { job.classes.clear(); }),
            "binding: rank 0: it is of class 0 of 0");
}

/// The first fault is of that rule and rank, and says so.
void expect_job_fault(const std::vector<Bundle>& job, std::string_view rule, std::size_t rank,
                      std::string_view part_of_message) {
  const std::vector<Fault> faults = verify_all(job);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front().rule, rule) << all(faults);
  EXPECT_EQ(faults.front().rank, Rank(rank)) << all(faults);
  EXPECT_TRUE(faults.front().message.starts_with(format("rank {}: ", rank))) << all(faults);
  EXPECT_NE(faults.front().message.find(part_of_message), std::string::npos) << all(faults);
}

TEST(VerifyJob, a_group_that_nobody_uses_is_checked_on_every_rank) {
  std::vector<Bundle> job = grid_job({1, 2, 2, 1});
  Group& z = job[3].programs[0].groups[1];  // init has no collectives
  z.members = {z.members[1], z.members[0]};
  expect_job_fault(job, "groups", 3, "init: group z has the ranks 3 1, expected 1 3");
}

TEST(VerifyJob, a_message_of_another_micro_batch_is_a_fault) {
  std::vector<Bundle> job = pipeline_job(2);
  for (const std::size_t rank : {2U, 3U}) {
    Program& program = job[rank].programs[1];
    std::swap(program.tasks[0].micro, program.tasks[2].micro);
    for (Instruction& instruction : program.instructions)
      if (auto* feed = std::get_if<Feed>(&instruction.what)) feed->micro = 1 - feed->micro;
  }
  expect_job_fault(job, "matching", 2, "sends it for micro-batch 0, it is of 1");
}

/// Whoever runs a program tells groups apart by the names of streams: the two ranks would wait for
/// each other for ever.
TEST(VerifyJob, a_collective_on_a_stream_of_another_name_is_a_fault) {
  std::vector<Bundle> job = pipeline_job(2);
  Program& program = job[1].programs[1];
  program.instructions[find_instruction(program, "all_reduce")].stream = StreamId(0);
  expect_job_fault(job, "matching", 1, "on stream data, not all_reduce sum");
}

/// Four ranks gather one tensor along axis a, and another along the axes `second`, on streams of
/// their own, which do not wait for each other. `crossed`: ranks that issue the second one first.
std::vector<Bundle> two_gathers(const std::vector<std::string>& second,
                                const std::vector<std::size_t>& crossed = {}) {
  const Mesh mesh{"main", {{"a", 2}, {"b", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  std::vector<Bundle> job;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::vector<std::vector<std::string>> groups = {{"a"}, second};
    const auto name_of = [](const std::vector<std::string>& axes) {
      return axes.size() == 1 ? axes[0] : axes[0] + "-" + axes[1];
    };
    Builder b(op::ProgramKind::train, Rank(rank), mesh, {"math", "a", name_of(second)});
    for (const auto& axes : groups) {
      const std::string cut = axes.size() == 1 ? axes[0] : axes[0] + "," + axes[1];
      b.group(axes);
      b.buffer("part." + name_of(axes), {4}, {}, {cut});
      b.buffer("whole." + name_of(axes), {4}, {BufferRole::output, DType::f32});
    }
    b.task(TaskKind::forward);
    for (const auto& axes : groups) {
      const std::string part = "part." + name_of(axes);
      b.op("math", op::Fill{1, {b.local(part, 0)}}, {part});
      b.order("math", name_of(axes));
    }
    if (std::ranges::count(crossed, rank) > 0) std::swap(groups[0], groups[1]);
    for (const auto& axes : groups)
      b.all_gather(name_of(axes), "part." + name_of(axes), "whole." + name_of(axes));
    const Program program = b.finish();
    job.push_back({{program}, program.persistent_bytes, program.transient_bytes});
  }
  return job;
}

/// What rule launch says of a job; nothing where it is content.
std::string launch_fault(const std::vector<Bundle>& job) {
  std::string text;
  for (const Fault& fault : verify_all(job)) {
    if (fault.rule == "launch") text += fault.message;
    EXPECT_NE(fault.rule, "deadlock") << fault.message;
  }
  return text;
}

TEST(VerifyJob, collectives_that_no_order_of_launches_serves_are_a_fault) {
  EXPECT_EQ(all(verify_all(two_gathers({"b"}))), "");
  EXPECT_EQ(all(verify_all(two_gathers({"a", "b"}))), "");
  // Whichever ranks of one line do otherwise than the others: one order is still that of all.
  for (const std::vector<std::size_t>& crossed : {std::vector<std::size_t>{1}, {0, 1}, {0, 2}})
    EXPECT_EQ(launch_fault(two_gathers({"b"}, crossed)), "");
  const std::string across = launch_fault(two_gathers({"b"}, {0, 3}));
  EXPECT_TRUE(across.starts_with("rank 0: train: forward: instruction 7 (all_gather part.a"))
      << across;
  EXPECT_NE(across.find("it waits for rank 0, which waits in instruction 6 (all_gather part.b"),
            std::string::npos)
      << across;
  EXPECT_TRUE(across.ends_with("; 4 ranks never end")) << across;
  // Two ranks that meet in both are enough.
  EXPECT_NE(launch_fault(two_gathers({"a", "b"}, {1})), "");
}

/// Rank 0 sends a table, or what it looked up for one micro-batch; rank 1 takes it once and uses it
/// with the tokens of two.
std::vector<Bundle> one_message_for_two_micro_batches(bool sends_table) {
  const std::vector<Mesh> meshes = {{"first", {{"data", 1}}, {Rank(0)}},
                                    {"second", {{"data", 1}}, {Rank(1)}}};
  std::vector<Bundle> job;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Builder b(op::ProgramKind::train, Rank(rank), meshes, MeshId(rank), 2, {"math", "feed"});
    b.serialize();
    b.buffer("tokens", {2, 4}, {BufferRole::feed, DType::i32});
    b.buffer("table", {16, 8}, {});
    b.buffer("looked.up", {2, 4, 8}, {});
    b.buffer("a", {2, 4, 8}, {});
    b.buffer("sum", {16, 8}, {BufferRole::output, DType::f32});
    b.program.feeds = {2, 2, 0, 2};
    for (const std::int64_t micro : {0, 1}) {
      b.task(TaskKind::forward, micro);
      b.feed(micro, "tokens");
      if (rank == 0) {
        b.op("math", op::Fill{1, {16, 8}}, {"table"});
        b.op("math", op::Fill{1, {2, 4, 8}}, {"a"});
        b.op("math", op::Embedding{}, {"tokens", "table", "looked.up"});
        if (micro == 0) b.add("math", Send{Rank(1), 0, b.slice(sends_table ? "a" : "looked.up")});
      } else {
        if (micro == 0) b.add("math", Recv{Rank(0), 0, b.slice("a")});
        b.op("math", op::EmbeddingGradient{16, 0, micro > 0}, {"tokens", "a", "sum"});
      }
    }
    if (rank == 0) b.op("math", op::Fill{0, {16, 8}}, {"sum"});
    const Program program = b.finish();
    job.push_back({{program}, program.persistent_bytes, program.transient_bytes});
  }
  return job;
}

TEST(VerifyJob, what_comes_once_for_several_micro_batches_may_not_be_of_one) {
  EXPECT_EQ(all(verify_all(one_message_for_two_micro_batches(true))), "");
  expect_job_fault(one_message_for_two_micro_batches(false), "matching", 1,
                   "sends what is of one micro-batch, it is used for several");
}

/// Ranks 0 and 1 send a and b, ranks 2 and 3 take them; rank 1 with the tags of `tags`.
std::vector<Bundle> two_messages(const std::array<std::int64_t, 2>& tags) {
  const std::vector<Mesh> meshes = {{"first", {{"data", 2}}, {Rank(0), Rank(1)}},
                                    {"second", {{"data", 2}}, {Rank(2), Rank(3)}}};
  std::vector<Bundle> job;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const bool sends = rank < 2;
    Builder b(op::ProgramKind::train, Rank(rank), meshes, MeshId(sends ? 0 : 1), 4, {"math"});
    for (const std::string_view name : {"a", "b", "kept"}) b.buffer(name, {4, 8}, {}, {"data", ""});
    b.task(TaskKind::forward);
    if (sends)
      for (const std::string_view name : {"a", "b"})
        b.op("math", op::Fill{name == "a" ? 1.0 : 2.0, {2, 8}}, {name});
    const auto tag = [&](std::size_t i) {
      return rank == 1 ? tags[i] : static_cast<std::int64_t>(i);
    };
    for (std::size_t i = 0; i < 2; ++i) {
      const Slice slice = b.slice(i == 0 ? "a" : "b");
      if (sends)
        b.add("math", Send{Rank(rank + 2), tag(i), slice});
      else
        b.add("math", Recv{Rank(rank - 2), static_cast<std::int64_t>(i), slice});
      if (!sends) b.add("math", Copy{slice, b.slice("kept")});
    }
    const Program program = b.finish();
    job.push_back({{program}, program.persistent_bytes, program.transient_bytes});
  }
  return job;
}

TEST(VerifyJob, siblings_that_receive_different_values_are_a_fault) {
  EXPECT_EQ(all(verify_all(two_messages({0, 1}))), "");
  expect_job_fault(two_messages({1, 0}), "matching", 3,
                   "sends another value than rank 0 in instruction 3 (send b peer 2 tag 1)");
}

TEST(VerifyJob, a_part_of_another_place_is_a_fault) {
  std::vector<Bundle> job = two_messages({0, 1});
  for (const std::size_t rank : {2U, 3U})
    for (Instruction& instruction : job[rank].programs[0].instructions)
      if (auto* recv = std::get_if<Recv>(&instruction.what)) recv->peer = Rank(3 - rank);
  for (const std::size_t rank : {0U, 1U})
    for (Instruction& instruction : job[rank].programs[0].instructions)
      if (auto* send = std::get_if<Send>(&instruction.what)) send->peer = Rank(3 - rank);
  expect_job_fault(job, "matching", 3, "sends [0:2, 0:8] of [4, 8] f32, it takes [2:4, 0:8]");
}

/// Rank i of the first mesh sends i + 1 messages, all to rank i of the second one: as many kinds of
/// programs on a mesh as it has ranks.
std::vector<Bundle> job_of_many_kinds(std::size_t width) {
  std::vector<Mesh> meshes = {{"first", {{"data", static_cast<std::int64_t>(width)}}, {}},
                              {"second", {{"data", static_cast<std::int64_t>(width)}}, {}}};
  for (std::size_t rank = 0; rank < 2 * width; ++rank)
    meshes[rank / width].ranks.push_back(Rank(rank));
  std::vector<Bundle> job;
  for (std::size_t rank = 0; rank < 2 * width; ++rank) {
    const std::size_t place = rank % width, mesh = rank / width;
    Builder b(op::ProgramKind::train, Rank(rank), meshes, MeshId(mesh),
              static_cast<std::int64_t>(2 * width), {"math"});
    const Shape shape{static_cast<std::int64_t>(4 * width), 8};
    b.buffer("a", shape, {}, {"data", ""});
    for (std::size_t i = 0; i <= place && mesh == 1; ++i)
      b.buffer(format("a{}", i), shape, {}, {"data", ""});
    b.task(TaskKind::forward);
    if (mesh == 0) b.op("math", op::Fill{0, {4, 8}}, {"a"});
    for (std::size_t i = 0; i <= place; ++i) {
      if (mesh == 0) {
        b.add("math", Send{Rank(width + place), 0, b.slice("a")});
      } else {
        const Slice box = b.slice(format("a{}", i));
        b.add("math", Recv{Rank(place), 0, box});
        b.add("math", Copy{box, b.slice("a")});
      }
    }
    const Program program = b.finish();
    job.push_back({{program}, program.persistent_bytes, program.transient_bytes});
  }
  return job;
}

TEST(VerifyJob, any_number_of_kinds_of_programs_on_a_mesh_is_held_against_each_other) {
  for (const std::size_t kinds : {8U, 9U, 10U, 24U}) {
    std::vector<Bundle> job = job_of_many_kinds(kinds);
    EXPECT_EQ(all(verify_all(job)), "");
    const std::size_t last = 2 * kinds - 1;
    Program& program = job[last].programs[0];
    for (int last_two = 0; last_two < 2; ++last_two)  // a recv, and who reads what it brings
      erase_instruction(program, program.instructions.size() - 1);
    expect_job_fault(job, "matching", kinds - 1, format("rank {}", last));
  }
}

/// Seeds every mutation in every job, each time elsewhere; all are caught.
void seed_faults(const std::vector<std::vector<Bundle>>& jobs, std::uint32_t times) {
  std::map<std::string, int> seeded_by_kind;
  int seeded_faults = 0, caught = 0;
  for (const std::vector<Bundle>& sound : jobs)
    for (const Mutation& mutation : mutations())
      for (std::uint32_t seed = 0; seed < times; ++seed) {
        std::mt19937 random(seed);
        std::vector<Bundle> job = sound;
        const auto seeded = mutation.apply(job, random);
        if (!seeded) continue;
        ++seeded_faults;
        ++seeded_by_kind[mutation.kind];
        const std::string problem = uncaught(mutation, *seeded, verify_all(job));
        EXPECT_EQ(problem, "") << mutation.kind << " in " << seeded->what << " of " << job.size();
        caught += problem.empty() ? 1 : 0;
      }
  std::printf("%d faults of %zu kinds seeded, %d caught and named\n", seeded_faults,
              seeded_by_kind.size(), caught);
  for (const Mutation& mutation : mutations())
    if (!seeded_by_kind.contains(mutation.kind))
      std::printf("no place for: %s\n", mutation.kind.c_str());
  EXPECT_GE(seeded_faults, 60);
  EXPECT_GE(seeded_by_kind.size(), 20U);
}

TEST(VerifyJob, seeded_faults_are_caught_and_named) {
  seed_faults({grid_job({2, 1, 2, 1}), grid_job({1, 2, 2, 2}), grid_job({2, 2, 2, 2}),
               grid_job({2, 2, 1, 1}), pipeline_job(1), pipeline_job(2), job_of_many_kinds(12),
               two_gathers({"b"}), two_gathers({"a", "b"})},
              3);
}

/// Two ranks to two, cut otherwise; one to three along a chain; four to two, unevenly.
TEST(VerifyJob, seeded_faults_of_boxes_are_caught_and_named) {
  const std::vector<std::string> rows = {"", "r", ""}, columns = {"", "", "r"},
                                 samples = {"r", "", ""};
  seed_faults({hand_over_job({{2, 4, 8}, 2, 2, rows, columns}),
               hand_over_job({{2, 4, 8}, 2, 2, samples, rows}),
               hand_over_job({.shape = {2, 8, 4}, .receivers = 3, .is_chain = true, .chunks = 4}),
               hand_over_job({{2, 7, 4}, 4, 2, rows, rows, true})},
              20);
}

/// Whatever the bundles hold: no exception, and in the sanitizer builds no bad access.
TEST(VerifyJob, several_faults_at_once_are_no_error_of_the_verifier) {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    std::vector<Bundle> job = seed % 2 == 0 ? grid_job({1, 2, 2, 1}) : pipeline_job(2);
    for (int i = 0; i < 4; ++i) mutations()[random() % mutations().size()].apply(job, random);
    for (const Fault& fault : verify_all(job)) EXPECT_TRUE(fault.rank) << fault.message;
  }
}

}  // namespace
}  // namespace fourfold::verify
