// What activation checkpointing computes again, against the formulas of a GPT and a Llama, and the
// programs.
#include "job/recomputed_flops.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "config/config.h"
#include "job/settle.h"
#include "model/model.h"
#include "program/program.h"

namespace fourfold::job {
namespace {

constexpr double layers = 4, hidden = 32, length = 16, batch = 8, tokens = batch * length;

Job made(std::vector<std::string> sets, const std::string& config = "gpt-quickstart") {
  const std::vector<std::string> files{format("{}/configs/{}.yaml", FOURFOLD_SOURCE_DIR, config)};
  for (const char* set : {"model.vocab_size=65", "model.num_layers=4", "model.hidden_size=32",
                          "model.num_attention_heads=4", "data.seq_length=16", "kernels=reference",
                          "train.global_batch_size=8", "train.micro_batch_size=2",
                          "parallel.data=1", "parallel.tensor={x: 1}"})
    sets.emplace(sets.begin(), set);
  return prepare(settle(config::load(files, sets), {}));
}

Job with(const std::string& checkpointing, std::vector<std::string> sets = {}) {
  sets.push_back("memory.activation_checkpointing=" + checkpointing);
  return made(std::move(sets));
}

/// Scores and weighted values of the lower triangle.
constexpr double attention = 2 * tokens * (length + 1) * hidden;

/// Backward of a block reads everything but the product at its end, which only the next block
/// reads: query, key and value (3 h^2), the output of attention (h^2) and the first product of the
/// MLP (4 h^2) are computed again, of the 12 h^2 of a layer.
TEST(RecomputedFlops, of_full_checkpointing_are_the_products_of_each_block_but_the_last) {
  EXPECT_DOUBLE_EQ(recomputed_flops_per_step(with("full")).value(),
                   layers * (2 * tokens * 8 * hidden * hidden + attention));
}

TEST(RecomputedFlops, of_selective_checkpointing_are_those_of_attention) {
  EXPECT_DOUBLE_EQ(recomputed_flops_per_step(with("selective")).value(), layers * attention);
}

/// Four heads of width 12 in two groups, and an MLP whose gate and what it opens for are one
/// product: all but the last product of each layer is computed again.
TEST(RecomputedFlops, of_a_llama_count_the_products_of_grouped_heads) {
  const auto llama = [](const std::string& checkpointing) {
    return made({"model.num_key_value_heads=2", "model.head_dim=12", "model.ffn_hidden_size=48",
                 "memory.activation_checkpointing=" + checkpointing},
                "smollm2-135m");
  };
  constexpr double heads = 4 * 12, keys = 2 * 12, ffn = 48;
  constexpr double products = hidden * (heads + 2 * keys) + heads * hidden + hidden * 2 * ffn;
  constexpr double of_attention = 2 * tokens * (length + 1) * heads;
  EXPECT_DOUBLE_EQ(recomputed_flops_per_step(llama("full")).value(),
                   layers * (2 * tokens * products + of_attention));
  EXPECT_DOUBLE_EQ(recomputed_flops_per_step(llama("selective")).value(), layers * of_attention);
}

TEST(RecomputedFlops, are_none_where_all_activations_are_kept) {
  EXPECT_EQ(recomputed_flops_per_step(with("none")), std::nullopt);
}

TEST(RecomputedFlops, do_not_depend_on_the_grid) {
  const double serial = recomputed_flops_per_step(with("full")).value();
  for (const char* grid :
       {"parallel.data=2", "parallel.tensor={x: 2, y: 2}", "parallel.tensor={z: 2}"})
    EXPECT_DOUBLE_EQ(recomputed_flops_per_step(with("full", {grid})).value(), serial) << grid;
}

/// Norms, GELU and sums are computed again too: a few operations of each element.
TEST(RecomputedFlops, are_nearly_all_that_the_program_has_more) {
  const auto flops = [](const Job& job) {
    return program::total_flops(job.bundle().at(op::ProgramKind::train));
  };
  const double none = flops(with("none"));
  for (const char* checkpointing : {"full", "'every 2'"}) {
    const Job job = with(checkpointing);
    const double more = flops(job) - none, counted = recomputed_flops_per_step(job).value();
    EXPECT_LE(counted, more) << checkpointing;
    EXPECT_GE(counted, 0.8 * more) << checkpointing;
  }
}

}  // namespace
}  // namespace fourfold::job
