// Passes from plan to programs: what they promise about order, memory and waits.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.h"
#include "compile/choose_kernels.h"
#include "compile/insert_waits.h"
#include "compile/liveness.h"
#include "compile/lower.h"
#include "compile/place_buffers.h"
#include "compile/recompute.h"
#include "model/gpt.h"
#include "program/text.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

struct RunSetup {
  model::GptSpec gpt{.num_layers = 3,
                     .num_attention_heads = 2,
                     .hidden_size = 8,
                     .ffn_hidden_size = 32,
                     .max_position_embeddings = 6,
                     .vocab_size = 11,
                     .dropout = 0.1};
  plan::PlanSpec plan{.global_batch_size = 6, .micro_batch_size = 2, .seq_length = 6};
  graph::OptimizerSpec optimizer;

  graph::ModelGraphs graphs() const {
    return model::build(gpt, {plan.micro_batch_size, plan.seq_length, plan.global_batch_size},
                        optimizer);
  }
  plan::Plan solved() const { return std::get<plan::Plan>(plan::make_plan(graphs(), plan)); }
};

/// A target whose attention asks for scratch, so that workspaces take part.
machine::Target test_target() {
  machine::Target target{
      "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
  target.workspace_bytes = [](const std::string&, const op::Op& op, op::Shapes all, DType) {
    return std::holds_alternative<op::Attention>(op) ? all[0].elements() * 4 : std::int64_t{0};
  };
  return target;
}

program::Bundle bundle_of(const RunSetup& setup) {
  return compile(setup.graphs(), setup.solved(), test_target()).classes[0];
}

std::size_t count_ops(const program::Program& program, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(program.instructions.begin(), program.instructions.end(),
                    [&](const auto& i) { return program::name(i) == name; }));
}

TEST(Compile, every_program_of_the_bundle_passes_the_verifier) {
  for (const std::int64_t blocks : {0, 1, 2, 3})
    for (const bool tied : {true, false})
      for (const std::int64_t micro : {1, 2, 6}) {
        RunSetup setup;
        setup.plan.checkpointing.layers = blocks;
        setup.gpt.tied_head = tied;
        setup.plan.micro_batch_size = micro;
        for (const auto& fault : verify::verify(bundle_of(setup)))
          ADD_FAILURE() << "checkpointing " << blocks << ": " << fault.rule << ": "
                        << fault.message;
      }
}

TEST(Compile, the_bundle_round_trips_as_text) {
  const program::Bundle bundle = bundle_of({});
  const std::string text = program::to_text(bundle);
  EXPECT_EQ(program::parse_bundle(text, "text"), bundle);
}

TEST(Compile, a_gpt_of_one_layer_compiles_to_the_golden_programs) {
  RunSetup setup;
  setup.gpt.num_layers = 1;
  setup.plan.checkpointing.layers = 1;
  const std::string text = program::to_text(bundle_of(setup));
  const std::string path = FOURFOLD_SOURCE_DIR "/tests/unit/compile/golden/gpt-1-layer.txt";
  if (std::getenv("FOURFOLD_UPDATE_GOLDEN") != nullptr) write_file_atomic(path, text);
  EXPECT_EQ(text, read_file(path)) << "set FOURFOLD_UPDATE_GOLDEN=1 to accept the change";
}

TEST(Compile, later_micro_batches_print_as_the_earlier_ones) {
  RunSetup setup;
  setup.plan.global_batch_size = 12;
  const std::string text = program::to_text(bundle_of(setup).at("train"));
  EXPECT_NE(text.find("task backward(3) = backward(1)"), std::string::npos) << text;
}

TEST(Compile, the_first_producer_of_a_sum_overwrites_and_all_others_add) {
  const RunSetup setup;
  const program::Program train = bundle_of(setup).at("train");
  std::map<std::size_t, std::vector<bool>> accumulates;  // by gradient buffer
  for (const auto& instruction : train.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr || !op::can_accumulate(compute->op) || program::is_update(compute->op))
      continue;
    for (const program::Slice& slice : compute->slices)
      if (train.buffer(slice.buffer).role == program::BufferRole::gradient &&
          !std::holds_alternative<op::SquaredNorm>(compute->op))
        accumulates[slice.buffer.index()].push_back(compute->op !=
                                                    op::with_accumulate(compute->op, false));
  }
  ASSERT_FALSE(accumulates.empty());
  for (const auto& [buffer, list] : accumulates) {
    EXPECT_FALSE(list.front()) << train.buffers[buffer].name;
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_TRUE(list[i]) << train.buffers[buffer].name;
  }
  // A tied table gets two contributions of every micro-batch: from the head and from the embedding.
  const auto wte = train.find_buffer("gradient/wte.weight");
  ASSERT_TRUE(wte.has_value());
  EXPECT_EQ(accumulates.at(wte->index()).size(), 6U);
}

TEST(Recompute, full_checkpointing_repeats_each_block_once_and_saves_memory) {
  RunSetup plain, full;
  full.plan.checkpointing.layers = 1;
  plain.gpt.num_layers = full.gpt.num_layers = 8;
  const auto without = bundle_of(plain).at("train"), with = bundle_of(full).at("train");
  const std::size_t micros = 3, layers = 8;
  EXPECT_EQ(count_ops(without, "attention"), layers * micros);
  EXPECT_EQ(count_ops(with, "attention"), 2 * layers * micros);
  EXPECT_EQ(count_ops(with, "attention_gradient"), layers * micros);
  EXPECT_LT(with.transient_bytes, without.transient_bytes * 2 / 3);
  // Nothing is repeated that the backward pass does not read: the last product of a block is not.
  EXPECT_EQ(count_ops(with, "contract"), count_ops(without, "contract") + 3 * layers * micros);
}

TEST(Recompute, selective_checkpointing_repeats_what_is_cheap_and_no_product) {
  RunSetup plain, selective, full;
  selective.plan.checkpointing = {.layers = 1, .keeps_products = true};
  full.plan.checkpointing.layers = 1;
  for (RunSetup* setup : {&plain, &selective, &full}) setup->gpt.num_layers = 8;
  const auto without = bundle_of(plain).at("train"), some = bundle_of(selective).at("train"),
             all = bundle_of(full).at("train");
  const std::size_t layers = 8, micros = 3;
  EXPECT_EQ(count_ops(some, "contract"), count_ops(without, "contract"));
  for (const auto name : {"attention", "gelu"})
    EXPECT_EQ(count_ops(some, name), 2 * layers * micros) << name;
  EXPECT_EQ(count_ops(some, "layer_norm"), count_ops(all, "layer_norm"));
  EXPECT_EQ(count_ops(some, "dropout"), count_ops(all, "dropout"));
  EXPECT_LT(some.transient_bytes, without.transient_bytes * 3 / 4);
  EXPECT_GT(some.transient_bytes, all.transient_bytes);
}

TEST(Recompute, selective_programs_pass_the_verifier) {
  for (const bool tied : {true, false}) {
    RunSetup setup;
    setup.gpt.tied_head = tied;
    setup.plan.checkpointing = {.layers = 1, .keeps_products = true};
    for (const auto& fault : verify::verify(bundle_of(setup)))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
  }
}

TEST(Recompute, a_segment_of_all_blocks_repeats_as_much_as_full_checkpointing) {
  RunSetup full, whole;
  full.plan.checkpointing.layers = 1;
  whole.plan.checkpointing.layers = 3;
  EXPECT_EQ(count_ops(bundle_of(full).at("train"), "attention"),
            count_ops(bundle_of(whole).at("train"), "attention"));
}

TEST(Placement, live_buffers_never_share_bytes_and_the_region_is_near_the_lower_bound) {
  RunSetup setup;
  setup.gpt.num_layers = 6;
  for (const program::Program& program : bundle_of(setup).programs) {
    const auto lives = live_intervals(program);
    for (std::size_t a = 0; a < program.buffers.size(); ++a)
      for (std::size_t b = a + 1; b < program.buffers.size(); ++b) {
        const program::Buffer &p = program.buffers[a], &q = program.buffers[b];
        if (p.region != program::Region::transient || q.region != program::Region::transient)
          continue;
        const bool meet = p.offset_bytes < q.offset_bytes + q.size_bytes &&
                          q.offset_bytes < p.offset_bytes + p.size_bytes;
        if (!meet || !overlap(lives[a], lives[b])) continue;
        // Only a takeover: same address, and one ends where the other begins.
        EXPECT_EQ(p.offset_bytes, q.offset_bytes) << p.name << " and " << q.name;
      }
    EXPECT_GE(program.transient_bytes, live_bytes_bound(program)) << program.name;
    EXPECT_LE(program.transient_bytes, live_bytes_bound(program) * 5 / 4) << program.name;
  }
}

TEST(Placement, elementwise_outputs_take_over_the_memory_of_dying_reads) {
  const program::Program evaluate = bundle_of({}).at("evaluate");
  const auto up = evaluate.find_buffer("blocks.0.mlp.up.biased");
  const auto gelu = evaluate.find_buffer("blocks.0.mlp.gelu");
  ASSERT_TRUE(up && gelu);
  EXPECT_EQ(evaluate.buffer(*up).offset_bytes, evaluate.buffer(*gelu).offset_bytes);
  const program::Program train = bundle_of({}).at("train");  // here the backward pass reads it
  EXPECT_NE(train.buffer(*train.find_buffer("blocks.0.mlp.up.biased")).offset_bytes,
            train.buffer(*train.find_buffer("blocks.0.mlp.gelu")).offset_bytes);
}

TEST(Waits, the_math_stream_waits_for_its_feed_and_a_slot_is_refilled_only_after_its_last_reader) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at("train");
  // Six micro-batches through two slots. The math waits for tokens and for labels of each. From the
  // third on a feed waits until the slot's last reader is done; the tokens are read last, so the
  // labels after them in the stream need no wait of their own.
  std::size_t math_waits = 0, feed_waits = 0;
  for (const auto& instruction : train.instructions)
    if (std::holds_alternative<program::Wait>(instruction.what))
      ++(instruction.stream.index() == 0 ? math_waits : feed_waits);
  EXPECT_EQ(math_waits, 12U);
  EXPECT_EQ(feed_waits, 4U);
}

TEST(Waits, programs_without_a_second_stream_have_none) {
  for (const char* name : {"init", "digest"}) EXPECT_EQ(bundle_of({}).at(name).num_events, 0U);
}

TEST(Waits, dropping_any_single_wait_is_a_race_that_the_verifier_sees) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at("train");
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < train.instructions.size(); ++i) {
    if (!std::holds_alternative<program::Wait>(train.instructions[i].what)) continue;
    program::Program broken = train;
    broken.instructions.erase(broken.instructions.begin() + static_cast<std::ptrdiff_t>(i));
    for (program::Task& task : broken.tasks) {
      if (task.begin > i) --task.begin;
      if (task.end > i) --task.end;
    }
    EXPECT_FALSE(verify::verify(broken).empty()) << "wait at " << i;
    ++dropped;
  }
  EXPECT_EQ(dropped, 16U);
}

TEST(Kernels, a_workspace_is_as_large_as_the_hungriest_instruction) {
  const program::Program train = bundle_of({}).at("train");
  const auto workspace = train.find_buffer("workspace");
  ASSERT_TRUE(workspace.has_value());
  EXPECT_EQ(train.buffer(*workspace).size_bytes, align_up(2 * 6 * 3 * 8 * 4));
}

TEST(Bundle, all_programs_share_one_persistent_region) {
  const program::Bundle bundle = bundle_of({});
  std::set<std::string> names;
  for (const program::Program& program : bundle.programs) {
    names.insert(program.name);
    EXPECT_EQ(program.persistent_bytes, bundle.persistent_bytes);
    EXPECT_LE(program.transient_bytes, bundle.transient_bytes);
    EXPECT_EQ(program.buffers[0].name, "step");
    EXPECT_EQ(program.buffers[1].name, "result");
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"init", "train", "evaluate", "prefill", "decode", "digest"}));
}

}  // namespace
}  // namespace fourfold::compile
