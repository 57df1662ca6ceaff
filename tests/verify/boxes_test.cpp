// Tensors that go from one mesh to another in boxes and along chains: sound jobs are found sound,
// and whoever breaks one is named.
#include "verify/box.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <random>

#include "program/jobs.h"
#include "program/text.h"
#include "verify/faults.h"
#include "verify/verify_job.h"

namespace fourfold::verify {
namespace {

using Bundles = std::vector<Bundle>;

// Ranks of a job come first from the meshes that send.
const HandOver rows_to_columns{.shape = {1, 4, 8},
                               .senders = 2,
                               .receivers = 2,
                               .sender_cuts = {"", "r", ""},
                               .receiver_cuts = {"", "", "r"}};
const HandOver samples_to_rows{.shape = {2, 4, 8},
                               .senders = 2,
                               .receivers = 2,
                               .sender_cuts = {"r", "", ""},
                               .receiver_cuts = {"", "r", ""}};
const HandOver chain{
    .shape = {2, 8, 4}, .senders = 1, .receivers = 3, .is_chain = true, .chunks = 4};
const HandOver four_to_two{.shape = {2, 7, 4},
                           .senders = 4,
                           .receivers = 2,
                           .sender_cuts = {"", "r", ""},
                           .receiver_cuts = {"", "r", ""},
                           .is_uneven = true};
const HandOver three_to_two_columns{.shape = {2, 7, 6},
                                    .senders = 3,
                                    .receivers = 2,
                                    .sender_cuts = {"", "r", ""},
                                    .receiver_cuts = {"", "", "r"},
                                    .is_uneven = true};
const HandOver whole_to_three{.shape = {2, 7, 4},
                              .senders = 2,
                              .receivers = 3,
                              .receiver_cuts = {"", "r", ""},
                              .is_uneven = true};

std::vector<Fault> faults_of(const Bundles& job) {
  return verify(job_of(job));
}
Program& train(Bundles& job, std::size_t rank) {
  return job[rank].programs[0];
}
/// The `count`-th send, or recv, of a program.
std::size_t send_at(const Program& program, std::size_t count) {
  return find_instruction(program, "send", count);
}
std::size_t recv_at(const Program& program, std::size_t count) {
  return find_instruction(program, "recv", count);
}
Slice& box_at(Program& program, std::size_t index) {
  What& what = program.instructions[index].what;
  if (auto* send = std::get_if<Send>(&what)) return send->from;
  return std::get<Recv>(what).to;
}

/// A fault of that rule at that rank, with these words.
void expect_one(const Bundles& job, std::string_view rule, std::size_t rank,
                std::string_view part_of_message) {
  const std::vector<Fault> faults = faults_of(job);
  const bool found = std::ranges::any_of(faults, [&](const Fault& fault) {
    return fault.rule == rule && fault.rank == Rank(rank) &&
           fault.message.find(part_of_message) != std::string::npos;
  });
  EXPECT_TRUE(found) << "expected " << rule << " at rank " << rank << ": " << part_of_message
                     << "; found\n"
                     << all(faults);
}

TEST(VerifyBoxes, tensors_that_are_cut_otherwise_on_each_mesh_are_handed_over_soundly) {
  for (const HandOver& edge :
       {rows_to_columns, samples_to_rows, chain, four_to_two, three_to_two_columns, whole_to_three})
    EXPECT_EQ(all(faults_of(hand_over_job(edge))), "")
        << edge.senders << " to " << edge.receivers << " of " << to_string(edge.shape);
}

TEST(VerifyBoxes, any_two_meshes_and_cuts_are_sound) {
  std::size_t jobs = 0;
  for (const std::int64_t senders : {1, 2, 3, 4})
    for (const std::int64_t receivers : {1, 2, 3, 5})
      for (const std::size_t from : {0U, 1U, 2U, 3U})
        for (const std::size_t to : {0U, 1U, 2U, 3U}) {
          if (receivers == 5 && to < 2) continue;  // a tile would be nothing but padding
          HandOver edge{.shape = {3, 6, 5}, .senders = senders, .receivers = receivers};
          edge.sender_cuts.resize(3);
          edge.receiver_cuts.resize(3);
          if (from < 3) edge.sender_cuts[from] = "r";
          if (to < 3) edge.receiver_cuts[to] = "r";
          edge.is_uneven = true;
          EXPECT_EQ(all(faults_of(hand_over_job(edge))), "")
              << senders << " ranks, cut in dim " << from << ", to " << receivers << ", cut in dim "
              << to;
          ++jobs;
        }
  EXPECT_EQ(jobs, 224U);
}

TEST(VerifyBoxes, a_job_of_boxes_reads_back_from_its_text) {
  const Job job = job_of(hand_over_job(chain));
  const Job read = parse_job(to_text(job), "job.txt");
  EXPECT_EQ(read, job);
  EXPECT_EQ(all(verify(read)), "");
}

// --- slices and boxes

/// The places of the elements of a slice, in its order.
std::vector<std::int64_t> places_of(const Slice& slice) {
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < slice.rows; ++row)
    for (std::int64_t byte = 0; byte < slice.row_bytes; byte += 4)
      places.push_back((slice.offset_bytes + row * slice.pitch_bytes + byte) / 4);
  return places;
}
std::vector<std::int64_t> places_of(const Shape& shape, const Box& box) {
  std::vector<std::int64_t> places = {0};
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    std::vector<std::int64_t> next;
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < box.count[dim]; ++i)
        next.push_back(place * shape[dim] + box.first[dim] + i);
    places = std::move(next);
  }
  return places;
}

/// A program with one buffer of that shape, whole on one rank.
Program with_buffer(const Shape& shape) {
  Builder b(op::ProgramKind::train, Rank(0), Mesh{"main", {{"r", 1}}, {Rank(0)}}, {"math"});
  b.buffer("h", shape, {});
  return b.finish();
}

TEST(Box, a_slice_is_a_box_where_its_elements_are_one_and_only_there) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
  };
  int boxes = 0, others = 0;
  for (int i = 0; i < 20000; ++i) {
    Shape shape;
    for (std::int64_t dim = below(4); dim >= 0; --dim) shape.push_back(1 + below(4));
    const Program program = with_buffer(shape);
    const std::int64_t elements = shape.elements();
    Slice slice{BufferId(0), 4 * below(elements), 1 + below(4), 4 * (1 + below(6)), 0};
    if (slice.rows > 1) slice.pitch_bytes = slice.row_bytes + 4 * below(8);
    if (slice.end_bytes() > 4 * elements) continue;
    const std::vector<std::int64_t> places = places_of(slice);
    // The only box that it may be reaches from its first to its last element.
    Box corners;
    std::int64_t first = places.front(), last = places.back(), count = 1;
    for (std::size_t dim = shape.rank(); dim-- > 0;) {
      corners.first.insert(corners.first.begin(), first % shape[dim]);
      corners.count.insert(corners.count.begin(), last % shape[dim] - first % shape[dim] + 1);
      count *= std::max<std::int64_t>(corners.count.front(), 0);
      first /= shape[dim];
      last /= shape[dim];
    }
    const bool is_box =
        count == static_cast<std::int64_t>(places.size()) && places_of(shape, corners) == places;
    const auto found = box_of(program, slice);
    ASSERT_EQ(found.has_value(), is_box)
        << to_string(shape) << " " << slice.offset_bytes << " " << slice.rows << " "
        << slice.row_bytes << " " << slice.pitch_bytes;
    if (found) {
      EXPECT_EQ(*found, corners);
    }
    ++(is_box ? boxes : others);
  }
  EXPECT_GT(boxes, 1000);
  EXPECT_GT(others, 1000);
}

TEST(Box, padding_is_what_lies_beyond_the_tensor_in_some_dim) {
  const Mesh mesh{"main", {{"r", 2}, {"c", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    Builder b(op::ProgramKind::train, Rank(rank), mesh, {"math"});
    const BufferId id = b.buffer("h", {2, 5, 3}, {}, {"", "r", "c"});  // tiles of 2 x 3 x 2
    const Program program = b.finish();
    Claims claims(program);
    const std::int64_t rows = rank < 2 ? 3 : 2, columns = rank % 2 == 0 ? 2 : 1;
    EXPECT_EQ(sizes_without_padding(claims, id), (std::vector<std::int64_t>{2, rows, columns}));
    for (std::int64_t begin = 0; begin < 12; ++begin)
      for (std::int64_t end = begin + 1; end <= 12; ++end) {
        bool only = true;
        for (std::int64_t place = begin; place < end; ++place)
          only = only && (place / 2 % 3 >= rows || place % 2 >= columns);
        EXPECT_EQ(is_padding(claims, id, 4 * begin, 4 * end), only) << rank << " " << begin;
      }
  }
}

// --- faults

TEST(VerifyBoxes, a_box_elsewhere_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  Slice& box = box_at(train(job, 0), send_at(train(job, 0), 0));
  box.offset_bytes += 4;
  expect_one(job, "matching", 2,
             "sends [0:1, 0:2, 1:5] of [1, 4, 8] f32, it takes [0:1, 0:2, 0:4]");
}

TEST(VerifyBoxes, a_box_of_another_length_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  box_at(train(job, 0), send_at(train(job, 0), 0)).row_bytes -= 4;
  expect_one(job, "matching", 2, "sends 24 bytes of f32, it takes 32");
}

TEST(VerifyBoxes, a_box_of_another_pitch_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  box_at(train(job, 0), send_at(train(job, 0), 0)).pitch_bytes += 4;
  expect_one(job, "layout", 0,
             "2 x 16 bytes from 0, 36 apart, are no box of h, which is [1, 2, 8]");
}

TEST(VerifyBoxes, equal_slices_of_different_tiles_are_different_boxes) {
  Bundles job = hand_over_job(samples_to_rows);
  Program &zero = train(job, 0), &one = train(job, 1);
  // Both senders have a sample of the same bytes; each now goes where the other one should.
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    std::get<Send>(zero.instructions[send_at(zero, i)].what).peer = Rank(i % 2 == 0 ? 3 : 2);
    std::get<Send>(one.instructions[send_at(one, i)].what).peer = Rank(i % 2 == 0 ? 3 : 2);
  }
  expect_one(job, "matching", 2,
             "sends [0:1, 2:4, 0:8] of [2, 4, 8] f32, it takes [0:1, 0:2, 0:8]");
}

/// Takes the `count`-th message from a rank to another out on both.
void drop_message(Bundles& job, std::size_t from, std::size_t to, std::size_t count) {
  for (const bool sends : {true, false}) {
    Program& program = train(job, sends ? from : to);
    std::size_t left = count;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const auto* send = std::get_if<Send>(&program.instructions[i].what);
      const auto* recv = std::get_if<Recv>(&program.instructions[i].what);
      const bool is_it = sends ? send != nullptr && send->peer == Rank(to)
                               : recv != nullptr && recv->peer == Rank(from);
      if (!is_it || left-- > 0) continue;
      erase_instruction(program, i);
      break;
    }
  }
}

TEST(VerifyBoxes, a_hole_that_nothing_has_filled_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  drop_message(job, 1, 2, 0);
  expect_one(job, "defined", 2, "h is read before it is written");
}

TEST(VerifyBoxes, a_hole_with_what_came_before_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  drop_message(job, 1, 2, 1);
  expect_one(job, "sum", 2, "h holds boxes of two values");
}

TEST(VerifyBoxes, a_hole_with_zero_is_a_fault) {
  Bundles job = hand_over_job(four_to_two);
  drop_message(job, 1, 4, 0);
  expect_one(job, "sum", 4, "no message has brought what h holds from byte 32 of h on");
}

TEST(VerifyBoxes, zero_may_stand_in_padding_alone) {
  // All but the last row of the last receiver is there; that one is padding.
  const Bundles job = hand_over_job(four_to_two);
  EXPECT_EQ(all(faults_of(job)), "");
  Bundles other = job;
  drop_message(other, 3, 5, 0);
  expect_one(other, "sum", 5, "no message has brought what h holds from byte 32 of h on");
}

TEST(VerifyBoxes, padding_that_nothing_writes_is_a_fault) {
  Bundles job = hand_over_job(four_to_two);
  Program& program = train(job, 5);
  erase_instruction(program, find_instruction(program, "fill", 0));
  expect_one(job, "defined", 5, "h is read before it is written");
}

TEST(VerifyBoxes, boxes_that_overlap_are_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  // Rank 0 sends its first row twice, the second time in place of rank 1's box.
  Program &sender = train(job, 0), &receiver = train(job, 2);
  drop_message(job, 1, 2, 0);
  const Instruction send = sender.instructions[send_at(sender, 0)];
  const Instruction recv = receiver.instructions[recv_at(receiver, 0)];
  insert_instruction(sender, send_at(sender, 0) + 1, send);
  insert_instruction(receiver, recv_at(receiver, 0) + 1, recv);
  Slice& first = box_at(sender, send_at(sender, 1));
  first = {first.buffer, first.offset_bytes, 1, first.row_bytes, 0};
  Slice& taken = box_at(receiver, recv_at(receiver, 1));
  taken = {taken.buffer, taken.offset_bytes, 1, first.row_bytes, 0};
  expect_one(job, "sum", 2, "h holds boxes of two values");
}

TEST(VerifyBoxes, a_message_sent_and_taken_twice_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  for (const std::size_t rank : {1U, 2U}) {
    Program& program = train(job, rank);
    const std::size_t at = rank == 1 ? send_at(program, 0) : recv_at(program, 1);
    const Instruction again = program.instructions[at];
    insert_instruction(program, at + 1, again);
  }
  expect_one(job, "sum", 2, "h holds boxes of two values");
}

TEST(VerifyBoxes, a_message_taken_twice_is_a_fault) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 3);
  const Instruction again = program.instructions[recv_at(program, 0)];
  insert_instruction(program, recv_at(program, 0), again);
  expect_one(job, "matching", 3, "rank 2 has no send of tag 7 to rank 3 for it");
}

TEST(VerifyBoxes, messages_in_swapped_order_are_a_fault) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 0);
  std::swap(program.instructions[send_at(program, 1)], program.instructions[send_at(program, 2)]);
  expect_one(job, "matching", 1,
             "sends [0:2, 4:6, 0:4] of [2, 8, 4] f32, it takes [0:2, 2:4, 0:4]");
}

TEST(VerifyBoxes, what_was_made_for_another_micro_batch_is_a_fault) {
  Bundles job = hand_over_job(samples_to_rows);
  Program& program = train(job, 1);
  // In the second micro-batch it sends what the first one has left, and then makes the next.
  const std::size_t gelu = find_instruction(program, "gelu", 1), first = send_at(program, 2),
                    last = send_at(program, 3);
  const Instruction make = program.instructions[gelu];
  Instruction moved = make;
  moved.stream = program.instructions[last].stream;
  insert_instruction(program, last + 1, moved);
  erase_instruction(program, gelu);
  ASSERT_EQ(send_at(program, 2), first - 1);
  expect_one(job, "matching", 2, "sends it for micro-batch 0, it is of 1");
}

TEST(VerifyBoxes, a_task_of_another_micro_batch_does_not_make_a_value_one_of_it) {
  Bundles job = hand_over_job(samples_to_rows);
  for (const std::size_t rank : {2U, 3U}) {
    Program& program = train(job, rank);
    std::swap(program.tasks[0].micro, program.tasks[1].micro);
  }
  expect_one(job, "matching", 2, "sends it for micro-batch 0, it is of 1");
}

TEST(VerifyBoxes, a_box_of_another_value_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  // Rank 1 alone sends what it has before the op.
  Program& program = train(job, 1);
  for (const std::size_t i : {0U, 1U, 2U, 3U})
    box_at(program, send_at(program, i)).buffer = *program.find_buffer("own");
  expect_one(job, "matching", 2, "sends a box of another value than rank 0 in instruction");
}

TEST(VerifyBoxes, another_value_in_one_micro_batch_alone_is_a_fault) {
  Bundles job = hand_over_job(rows_to_columns);
  for (const std::size_t rank : {0U, 1U}) {
    Program& program = train(job, rank);
    for (const std::size_t i : {2U, 3U})
      box_at(program, send_at(program, i)).buffer = *program.find_buffer("own");
  }
  expect_one(job, "matching", 2, "sends another value than rank 0 in instruction");
}

TEST(VerifyBoxes, what_is_passed_on_before_it_has_come_is_a_fault) {
  // Without the wait for the first chunk.
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 1);
  std::size_t wait = send_at(program, 0);
  while (!std::holds_alternative<Wait>(program.instructions[wait].what)) --wait;
  erase_instruction(program, wait);
  expect_one(job, "race", 1, "(send h[0:2x32/128]");
}

TEST(VerifyBoxes, what_is_passed_on_from_the_micro_batch_before_is_a_fault) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 1);
  // The first send of the second micro-batch goes before the recv that it should wait for.
  const std::size_t recv = recv_at(program, 4), send = send_at(program, 4);
  const Instruction early = program.instructions[send];
  erase_instruction(program, send);
  insert_instruction(program, recv - 3, early);
  expect_one(job, "matching", 2, "sends it for micro-batch 0, it is of 1");
}

TEST(VerifyBoxes, a_buffer_that_is_still_passed_on_may_not_be_received_in) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 1);
  // The second micro-batch is received while the last chunk of the first one may still be sent.
  std::size_t wait = recv_at(program, 4);
  while (!std::holds_alternative<Wait>(program.instructions[wait].what)) --wait;
  erase_instruction(program, wait);
  expect_one(job, "race", 1, "both touch bytes of h");
}

TEST(VerifyBoxes, what_is_used_before_its_last_box_is_there_is_a_fault) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 3);
  std::size_t wait = find_instruction(program, "gelu", 0);
  while (!std::holds_alternative<Wait>(program.instructions[wait].what)) --wait;
  erase_instruction(program, wait);
  expect_one(job, "race", 3, "both touch bytes of h");
}

TEST(VerifyBoxes, what_goes_wrong_at_the_head_of_a_chain_is_named_where_it_comes_first) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 0);
  box_at(program, send_at(program, 5)).buffer = *program.find_buffer("own");
  expect_one(job, "matching", 1, "sends a box of another value than rank 0");
}

TEST(VerifyBoxes, ranks_of_one_mesh_that_wait_for_each_other_are_a_fault) {
  Bundles job = hand_over_job(chain);
  // Ranks 1 and 2 each want the first chunk from the other one, who wants to pass it on.
  Program &one = train(job, 1), &two = train(job, 2);
  std::get<Recv>(one.instructions[recv_at(one, 0)].what).peer = Rank(2);
  std::get<Send>(two.instructions[send_at(two, 0)].what).peer = Rank(1);
  Program &zero = train(job, 0), &three = train(job, 3);
  erase_instruction(zero, send_at(zero, 0));
  erase_instruction(three, recv_at(three, 0));
  const std::vector<Fault> faults = faults_of(job);
  const bool found = std::ranges::any_of(faults, [](const Fault& fault) {
    return fault.rule == "deadlock" && fault.rank == Rank(1) &&
           fault.message.find("it waits for rank 2, which waits in") != std::string::npos;
  });
  EXPECT_TRUE(found) << all(faults);
}

TEST(VerifyBoxes, ranks_of_one_mesh_compute_the_same_whatever_their_messages_are) {
  Bundles job = hand_over_job(chain);
  Program& program = train(job, 3);
  compute_at(program, find_instruction(program, "gelu", 0)).op = op::Relu{};
  expect_one(job, "class", 3, "rank 1 of the same meshes computes instruction");
}

// --- classes

/// Ranks 1 and 2 of the chain, which have the same instructions, as one class.
Job folded_chain() {
  const Bundles bundles = hand_over_job(chain);
  Job job{{bundles[0], bundles[1], bundles[3]}, {}};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    Binding binding{rank == 2 ? 1U : rank == 3 ? 2U : static_cast<std::uint32_t>(rank), {}};
    for (const Channel& channel : channels_of(bundles[rank])) binding.peers.push_back(channel.peer);
    job.ranks.push_back(binding);
    EXPECT_EQ(bundle_of(job, Rank(rank)), bundles[rank]);
  }
  return job;
}

TEST(VerifyBoxes, links_of_a_chain_may_be_one_class) {
  EXPECT_EQ(all(verify(folded_chain())), "");
}

TEST(VerifyBoxes, a_wrong_peer_in_a_binding_is_a_fault) {
  for (const std::size_t channel : {0U, 1U})
    for (const std::size_t wrong : {0U, 1U, 3U}) {
      Job job = folded_chain();
      Rank& peer = job.ranks[2].peers[channel];
      if (peer == Rank(wrong)) continue;
      peer = Rank(wrong);
      const std::vector<Fault> faults = verify(job);
      EXPECT_TRUE(std::ranges::any_of(faults, [](const Fault& fault) {
        return fault.rule == "matching" && fault.message.find("rank 2") != std::string::npos;
      })) << all(faults);
    }
}

/// Ranks 0 and 1 of the first mesh send two messages of one tag, each on a stream of its own: rank
/// 0 to two ranks, rank 1 to one.
Job two_streams_to_one_peer(bool is_one_peer, bool is_read = true) {
  const std::vector<Mesh> meshes = {{"first", {{"r", 2}}, {Rank(0), Rank(1)}},
                                    {"second", {{"r", 4}}, {Rank(2), Rank(3), Rank(4), Rank(5)}}};
  const auto build = [&](std::size_t rank, std::array<std::size_t, 2> peers, bool sends) {
    Builder b(op::ProgramKind::train, Rank(rank), meshes, MeshId(sends ? 0 : 1), 6,
              {"math", "one", "two"});
    b.buffer("h", {4, 8}, {});
    b.buffer("kept", {4, 8}, {});
    b.task(TaskKind::forward);
    if (sends) {
      b.op("math", op::Fill{1, {4, 8}}, {"h"});
      b.order("math", "one");
      b.order("math", "two");
    }
    for (const std::size_t i : {0U, 1U}) {
      const Slice half{BufferId(0), static_cast<std::int64_t>(i) * 64, 1, 64, 0};
      if (peers[i] >= 6) continue;
      if (sends) {
        b.add(i == 0 ? "one" : "two", Send{Rank(peers[i]), 1, half});
        continue;
      }
      b.add("math", Recv{Rank(peers[i]), 1, half});
      Slice kept = half;
      kept.buffer = BufferId(1);
      if (is_read) b.add("math", Copy{half, kept});
    }
    const Program program = b.finish();
    return Bundle{{program}, program.persistent_bytes, program.transient_bytes};
  };
  Job job;
  job.classes = {build(0, {2, 3}, true), build(2, {0, 9}, false), build(3, {9, 0}, false)};
  job.ranks = {{0, {Rank(2), Rank(3)}}, {0, {Rank(4), Rank(5)}}, {1, {Rank(0)}},
               {2, {Rank(0)}},          {1, {Rank(1)}},          {2, {Rank(1)}}};
  if (is_one_peer) {
    job.classes.push_back(build(4, {1, 1}, false));
    job.ranks[1].peers = {Rank(4), Rank(4)};
    job.ranks[4] = {3, {Rank(1)}};
    job.ranks[5] = {2, {Rank(0)}};
  }
  return job;
}

TEST(VerifyBoxes, a_rank_with_one_peer_where_its_class_has_two_keeps_an_order_of_its_own) {
  EXPECT_EQ(all(verify(two_streams_to_one_peer(false))), "");
  const std::vector<Fault> faults = verify(two_streams_to_one_peer(true));
  EXPECT_TRUE(std::ranges::any_of(faults, [](const Fault& fault) {
    return fault.rule == "order" && fault.rank == Rank(1);
  })) << all(faults);
}

TEST(VerifyBoxes, a_value_that_nobody_reads_is_a_fault) {
  const std::vector<Fault> faults = verify(two_streams_to_one_peer(false, false));
  EXPECT_EQ(std::ranges::count_if(faults,
                                  [](const Fault& fault) {
                                    return fault.rule == "lost" &&
                                           fault.message.find("nobody reads what it receives") !=
                                               std::string::npos;
                                  }),
            2)
      << all(faults);
}

}  // namespace
}  // namespace fourfold::verify
