#include "config/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "config/explain.h"
#include "config/suggest.h"
#include "config/value.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

TEST(Schema, paths_are_unique_and_sections_stand_together) {
  std::set<std::string> paths;
  for (const Key& key : keys()) EXPECT_TRUE(paths.insert(key.path).second) << key.path;
  for (const std::string& section : sections()) {
    std::size_t runs = 0;  // of keys that stand together
    bool was_inside = false;
    for (const Key& key : keys()) {
      const bool inside = is_inside(key.path, section);
      if (inside && !was_inside) ++runs;
      was_inside = inside;
    }
    EXPECT_EQ(runs, 1U) << section;
  }
}

TEST(Schema, sections_may_lie_in_sections) {
  const auto all = sections();
  EXPECT_EQ(std::count(all.begin(), all.end(), "parallel"), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), "parallel.tensor"), 1);
  EXPECT_TRUE(is_inside("parallel.tensor.x", "parallel"));
  EXPECT_TRUE(is_inside("parallel.tensor.x", "parallel.tensor"));
  EXPECT_FALSE(is_inside("parallel.tensor", "parallel.tensor"));
  EXPECT_FALSE(is_inside("parallelism", "parallel"));
  EXPECT_EQ(
      names_in_words("parallel"),
      "section 'parallel' has: tensor, pipeline, overlap, strategy, data, order, pin, layout, "
      "shard_sequence, buckets, chunks");
  EXPECT_EQ(names_in_words("").find("parallel.tensor"), std::string::npos);
  const std::string text = explain("parallel");
  for (const char* inside : {"  tensor.x  ", "  data  ", "  order  "})
    EXPECT_NE(text.find(inside), std::string::npos) << text;
}

TEST(Schema, the_list_of_keys_is_frozen) {
  const std::vector<std::string> expected = {"run.name",
                                             "run.dir",
                                             "run.seed",
                                             "run.init_from",
                                             "run.device",
                                             "run.threads",
                                             "run.bind_to_cores",
                                             "run.kernel_table",
                                             "run.machine",
                                             "run.deterministic",
                                             "run.weights_file_mib",
                                             "run.watchdog_s",
                                             "run.replica_check_steps",
                                             "model.kind",
                                             "model.num_layers",
                                             "model.num_attention_heads",
                                             "model.hidden_size",
                                             "model.ffn_hidden_size",
                                             "model.max_position_embeddings",
                                             "model.vocab_size",
                                             "model.dropout",
                                             "model.bias",
                                             "model.tied_head",
                                             "model.layer_norm_epsilon",
                                             "model.init_stddev",
                                             "model.num_key_value_heads",
                                             "model.head_dim",
                                             "model.attention_bias",
                                             "model.mlp_bias",
                                             "model.head_norm",
                                             "model.rope.theta",
                                             "model.rope.kind",
                                             "model.rope.factor",
                                             "model.rope.original_positions",
                                             "model.rope.low_freq_factor",
                                             "model.rope.high_freq_factor",
                                             "model.rope.beta_fast",
                                             "model.rope.beta_slow",
                                             "model.rope.attention_factor",
                                             "model.rope.truncate",
                                             "vgg.widths",
                                             "vgg.hidden",
                                             "vgg.picture",
                                             "vgg.num_classes",
                                             "vgg.dropout",
                                             "unet.picture",
                                             "unet.channels",
                                             "unet.channel_mult",
                                             "unet.num_res_blocks",
                                             "unet.attention_resolutions",
                                             "unet.num_attention_heads",
                                             "unet.norm_groups",
                                             "unet.dropout",
                                             "unet.scale_shift_norm",
                                             "unet.resample_with_convolution",
                                             "unet.class_conditional",
                                             "unet.num_classes",
                                             "unet.learn_sigma",
                                             "diffusion.steps",
                                             "diffusion.noise_schedule",
                                             "diffusion.time_sampling",
                                             "diffusion.bound_weight",
                                             "diffusion.average_decay",
                                             "diffusion.sampling",
                                             "diffusion.sampling_steps",
                                             "diffusion.eta",
                                             "data.format",
                                             "data.path",
                                             "data.blend",
                                             "data.tokenizer",
                                             "data.tokenizer_path",
                                             "data.split",
                                             "data.validation",
                                             "data.seq_length",
                                             "data.mask_documents",
                                             "data.restart_positions",
                                             "data.mean",
                                             "data.deviation",
                                             "data.flip",
                                             "data.bad_images",
                                             "train.steps",
                                             "train.global_batch_size",
                                             "train.micro_batch_size",
                                             "optimizer.name",
                                             "optimizer.lr",
                                             "optimizer.betas",
                                             "optimizer.eps",
                                             "optimizer.momentum",
                                             "optimizer.nesterov",
                                             "optimizer.weight_decay",
                                             "optimizer.grad_clip",
                                             "optimizer.shard",
                                             "lr_schedule.kind",
                                             "lr_schedule.warmup_steps",
                                             "lr_schedule.decay_steps",
                                             "lr_schedule.min_lr",
                                             "loss_spike.action",
                                             "loss_spike.sigmas",
                                             "loss_spike.window",
                                             "checkpoint.interval_steps",
                                             "checkpoint.interval_minutes",
                                             "checkpoint.keep",
                                             "checkpoint.keep_every",
                                             "checkpoint.keep_best",
                                             "checkpoint.async",
                                             "parallel.strategy",
                                             "parallel.tensor.x",
                                             "parallel.tensor.y",
                                             "parallel.tensor.z",
                                             "parallel.data",
                                             "parallel.order",
                                             "parallel.pipeline.stages",
                                             "parallel.pipeline.stages_per_mesh",
                                             "parallel.pipeline.schedule",
                                             "parallel.pipeline.weight_delay",
                                             "parallel.pipeline.blocks",
                                             "parallel.pipeline.meshes",
                                             "parallel.pipeline.transfer",
                                             "parallel.pipeline.transfer_chunks",
                                             "parallel.pipeline.ranks_per_host",
                                             "parallel.pin",
                                             "parallel.layout",
                                             "parallel.shard_sequence",
                                             "parallel.overlap.all_reduce",
                                             "parallel.overlap.reduce_scatter",
                                             "parallel.overlap.all_gather",
                                             "parallel.overlap.send_recv",
                                             "parallel.overlap.weight_gradients",
                                             "parallel.buckets",
                                             "parallel.chunks",
                                             "memory.limit",
                                             "memory.cached_gathers",
                                             "memory.activation_checkpointing",
                                             "precision.compute",
                                             "precision.residual",
                                             "precision.reduce",
                                             "eval.interval_steps",
                                             "eval.batches",
                                             "eval.early_stopping",
                                             "log.interval",
                                             "log.level",
                                             "log.tensorboard",
                                             "sample.prompt",
                                             "sample.tokens",
                                             "sample.interval",
                                             "sample.temperature",
                                             "sample.top_k",
                                             "sample.top_p",
                                             "kernels"};
  std::vector<std::string> paths;
  for (const Key& key : keys()) paths.push_back(key.path);
  EXPECT_EQ(paths, expected);
}

TEST(Schema, every_key_has_a_default_and_a_meaning) {
  for (const Key& key : keys()) {
    EXPECT_TRUE(key.meaning.ends_with(".")) << key.path;
    EXPECT_NE(default_words(key), "") << key.path;
    EXPECT_EQ(key.fallback.empty(), !key.derived_words.empty()) << key.path;
    Config config;
    EXPECT_NO_THROW(store_fallback(key, config)) << key.path;
  }
}

TEST(Schema, names_in_other_tools_lead_to_one_key_and_are_no_keys) {
  std::set<std::string> seen;
  for (const Key& key : keys())
    for (const std::string& other : key.elsewhere) {
      EXPECT_TRUE(seen.insert(other).second) << other;
      EXPECT_EQ(find_key(other), nullptr) << other;
      EXPECT_EQ(suggest(other).key, key.path) << other;
      EXPECT_EQ(suggest("model." + other).key,
                other.find('.') == std::string::npos ? key.path : suggest("model." + other).key);
    }
}

/// A key written with one letter less, and with two neighbours swapped.
std::vector<std::string> typos_of(std::string_view leaf) {
  std::vector<std::string> typos;
  for (std::size_t i = 0; i < leaf.size(); ++i) {
    std::string dropped(leaf), swapped(leaf);
    dropped.erase(i, 1);
    if (i + 1 < leaf.size()) std::swap(swapped[i], swapped[i + 1]);
    if (!dropped.empty()) typos.push_back(dropped);
    if (swapped != leaf) typos.push_back(swapped);
  }
  return typos;
}

TEST(Schema, every_typo_of_every_key_gets_the_right_suggestion) {
  for (const Key& key : keys()) {
    const std::string section(section_of(key.path));
    for (const std::string& typo : typos_of(leaf_of(key.path))) {
      const std::string path = section.empty() ? typo : section + "." + typo;
      if (find_key(path) != nullptr) continue;
      const Suggestion meant = suggest(path);
      EXPECT_EQ(meant.text, format("did you mean '{}'?", meant.key)) << path;
      EXPECT_EQ(section_of(meant.key), section) << path;
      // "top_" is as near to top_k as to top_p.
      EXPECT_EQ(edit_distance(leaf_of(meant.key), typo), edit_distance(leaf_of(key.path), typo))
          << path;
    }
  }
}

TEST(Schema, every_typo_of_every_section_gets_the_right_suggestion) {
  for (const std::string& section : sections()) {
    const std::string outer(section_of(section));
    for (const std::string& typo : typos_of(leaf_of(section)))
      EXPECT_EQ(suggest(outer.empty() ? typo : outer + "." + typo).text,
                format("did you mean '{}'?", section))
          << typo;
  }
}

TEST(Schema, a_typo_in_a_file_is_reported_at_its_place_with_the_suggestion) {
  for (const Key& key : keys()) {
    const std::vector<std::string> typos = typos_of(leaf_of(key.path));
    if (typos.empty()) continue;  // one letter
    std::string text, indent;
    std::size_t line = 1;
    for (const std::string& section : split(section_of(key.path), '.')) {
      if (section.empty()) break;
      text += indent + section + ":\n";
      indent += "  ";
      ++line;
    }
    const std::string report = problems_of(text + indent + typos.front() + ": 1\n");
    EXPECT_NE(report.find(format("a.yaml:{}:{}: error: unknown key", line, indent.size() + 1)),
              std::string::npos)
        << report;
    EXPECT_NE(report.find("did you mean '"), std::string::npos) << report;
  }
}

}  // namespace
}  // namespace fourfold::config
