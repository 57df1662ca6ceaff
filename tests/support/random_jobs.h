// Jobs made up from a seed: a model, how it is trained, and two layouts of it. Not what is asked of
// them: system/jobs. Header only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "support/chance.h"

namespace fourfold::test {

struct RandomJob {
  std::uint64_t seed = 0;
  std::string model;      // a configuration of one rank
  std::string precision;  // fp64, fp32 or bf16
  /// KEY=VALUE of two layouts; the second goes on where the first has saved.
  std::vector<std::string> first, second;
};

class RandomJobs : Chance {
 public:
  explicit RandomJobs(std::uint64_t seed) : Chance(seed) { job_.seed = seed; }

  RandomJob make() {
    const std::vector<std::string> kinds = {"gpt", "gpt", "gpt", "unet", "unet", "vgg"};
    kind_ = pick(kinds);
    batch_ = pick<std::int64_t>({8, 12, 16, 24});
    std::string text = kind_ == "gpt" ? gpt() : kind_ == "unet" ? unet() : vgg();
    text += format("train: {{steps: 4, global_batch_size: {}}}\n", batch_);
    const bool is_sgd = chance(0.25);
    text += format("optimizer: {{name: {}, lr: {}, grad_clip: {}{}}}\n", is_sgd ? "sgd" : "adamw",
                   is_sgd ? "1e-2" : "1e-3", pick<std::string>({"0", "0.1", "1.0"}),
                   is_sgd ? format(", nesterov: {}", chance(0.5)) : "");
    text += "lr_schedule: {kind: constant, warmup_steps: 0}\n";
    text += format("eval: {{interval_steps: 1, batches: {}}}\n", number(1, 3));
    text += "checkpoint: {interval_steps: 2, keep_best: 1}\n";
    if (kind_ == "gpt") text += "sample: {tokens: 0}\n";
    text += "run: {watchdog_s: 60, threads: 1, kernel_table: builtin, bind_to_cores: false}\n";
    job_.precision = chance(0.8) ? "fp64" : chance(0.5) ? "fp32" : "bf16";
    text += format("precision: {{compute: {}}}\n", job_.precision);
    job_.model = text;
    job_.first = layout();
    job_.second = layout();
    return job_;
  }

 private:
  using Number = std::int64_t;
  struct Grid {
    Number x = 1, y = 1, z = 1, data = 1;
    Number ranks() const { return x * y * z * data; }
  };

  Number number(Number least, Number most) {
    return least + static_cast<Number>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  std::string gpt() {
    blocks_ = number(1, 9);
    const Number heads = pick<Number>({4, 6, 8}), of_head = pick<Number>({2, 4, 8});
    width_ = std::gcd(heads, Number{24});
    return format(
        "model: {{num_layers: {}, num_attention_heads: {}, hidden_size: {}, vocab_size: {}, "
        "dropout: {}, bias: {}, tied_head: {}}}\ndata: {{format: synthetic, split: 0.998, "
        "seq_length: "
        "{}}}\n",
        blocks_, heads, heads * of_head, pick<Number>({32, 37, 48}),
        pick<std::string>({"0", "0.1"}), chance(0.8), chance(0.6), pick<Number>({4, 6, 8, 12}));
  }

  std::string unet() {
    const Number levels = number(1, 3), in_level = number(1, 2);
    blocks_ = std::min<Number>(9, levels * (2 * in_level + 1) + 2);
    width_ = 8;
    const std::vector<std::string> widths = {"[1]", "[1, 2]", "[1, 1, 2]"};
    return format(
        "model: {{kind: unet}}\nunet: {{picture: [8, 8, 3], channels: {}, channel_mult: {}, "
        "num_res_blocks: {}, attention_resolutions: {}, num_attention_heads: {}, norm_groups: 8, "
        "num_classes: 5, class_conditional: {}, learn_sigma: {}, scale_shift_norm: {}, "
        "resample_with_convolution: {}, dropout: {}}}\ndiffusion: {{steps: 10, time_sampling: "
        "{}}}\ndata: {{format: synthetic, split: 0.998, flip: {}}}\n",
        pick<Number>({8, 16}), widths[static_cast<std::size_t>(levels - 1)], in_level,
        pick<std::string>({"[]", "[4]", "[8]", "[8, 4]"}), pick<Number>({4, 8}), chance(0.5),
        chance(0.5), chance(0.7), chance(0.7), pick<std::string>({"0", "0.1"}),
        pick<std::string>({"uniform", "importance"}), chance(0.5));
  }

  std::string vgg() {
    width_ = 8;
    blocks_ = 4;
    return format(
        "model: {{kind: vgg}}\nvgg: {{widths: {}, hidden: {}, picture: [8, 8, 3], num_classes: {}, "
        "dropout: {}}}\ndata: {{format: synthetic, split: 0.998, flip: {}}}\n",
        pick<std::string>({"[8, pool, 16, pool]", "[8, 8, pool, 16, 16, pool]",
                           "[16, pool, 8, 16, pool, 24, pool]"}),
        pick<std::string>({"[16]", "[24, 16]"}), pick<Number>({7, 8}),
        pick<std::string>({"0", "0.1"}), chance(0.5));
  }

  Grid grid(const std::string& strategy) {
    const auto axis = [&] { return pick<Number>({1, 1, 1, 2, 2, width_ % 3 == 0 ? 3 : 4}); };
    Grid grid;
    if (strategy != "fsdp") grid.x = axis();
    if (strategy == "axonn" || strategy == "atp") grid.y = axis();
    if (strategy == "axonn" || strategy == "fsdp") grid.z = axis();
    grid.data = axis();
    return grid;
  }

  static std::string text_of(const Grid& grid) {
    return format("{{x: {}, y: {}, z: {}, data: {}}}", grid.x, grid.y, grid.z, grid.data);
  }

  /// A layout of at most twelve ranks, whose samples divide the batch; most have a plan.
  std::vector<std::string> layout() {
    for (;;) {
      const std::string strategy =
          pick<std::string>({"axonn", "axonn", "axonn", "atp", "megatron", "fsdp"});
      const Number stages = blocks_ == 1 || chance(0.45)
                                ? 1
                                : number(2, std::max<Number>(2, std::min<Number>(9, blocks_)));
      Number of_mesh = 1;
      for (const Number several : {2, 3})
        if (stages > 1 && stages % several == 0 && chance(0.35)) of_mesh = several;
      const Number meshes = stages / of_mesh;
      const Grid first = grid(strategy);
      const Number shares = first.data * first.z;
      if (first.ranks() * meshes > 12 || batch_ % shares != 0) continue;
      std::vector<Number> micros;
      for (Number micro = 1; micro <= batch_ / shares; ++micro)
        if (batch_ / shares % micro == 0 && (of_mesh == 1 || batch_ / shares / micro % meshes == 0))
          micros.push_back(micro);
      if (micros.empty()) continue;
      const Number micro = pick(micros);
      std::vector<std::string> sets = {"parallel.strategy=" + strategy,
                                       format("train.micro_batch_size={}", micro)};
      if (!add_stages(sets, strategy, stages, of_mesh, first, micro * shares)) continue;
      add_options(sets, strategy, stages, micro);
      return sets;
    }
  }

  bool add_stages(std::vector<std::string>& sets, const std::string& strategy, Number stages,
                  Number of_mesh, const Grid& first, Number samples) {
    const Number meshes = stages / of_mesh;
    std::vector<Grid> grids = {first};
    const bool differ = meshes > 1 && chance(0.3);
    Number ranks = first.ranks();
    for (Number mesh = 1; mesh < meshes; ++mesh) {
      Grid next = first;
      if (differ) {
        do next = grid(strategy);
        while (samples % (next.data * next.z) != 0);
      }
      ranks += next.ranks();
      grids.push_back(next);
    }
    if (ranks > 12) return false;
    if (differ) {
      std::string list;
      for (const Grid& one : grids) list += (list.empty() ? "" : ", ") + text_of(one);
      sets.push_back(format("parallel.pipeline.meshes=[{}]", list));
    } else {
      sets.push_back(format("parallel.tensor={{x: {}, y: {}, z: {}}}", first.x, first.y, first.z));
      sets.push_back(format("parallel.data={}", first.data));
    }
    if (stages == 1) return true;
    sets.push_back(format("parallel.pipeline.stages={}", stages));
    if (of_mesh > 1) {
      sets.push_back(format("parallel.pipeline.stages_per_mesh={}", of_mesh));
      sets.emplace_back("parallel.pipeline.schedule=interleaved");
    } else {
      sets.push_back("parallel.pipeline.schedule=" +
                     pick<std::string>({"gpipe", "1f1b", "eager-1f1b"}));
    }
    sets.push_back("parallel.pipeline.weight_delay=" +
                   pick<std::string>({"none", "none", "auto", "0", "1", "2"}));
    sets.push_back("parallel.pipeline.transfer=" +
                   pick<std::string>({"broadcast", "broadcast", "send_recv", "local_all_gather",
                                      "global_all_gather", "alpa"}));
    return true;
  }

  void add_options(std::vector<std::string>& sets, const std::string& strategy, Number stages,
                   Number micro) {
    if (stages == 1 && chance(0.25))
      sets.push_back(format("parallel.chunks={}", micro % 4 == 0 ? 4 : micro % 2 == 0 ? 2 : 1));
    if (chance(0.4))
      sets.push_back("parallel.buckets=" + pick<std::string>({"0", "1KiB", "64KiB"}));
    if (chance(0.4))
      sets.push_back("memory.activation_checkpointing=" +
                     pick<std::string>({"selective", "full", "every 2"}));
    if (chance(0.3)) sets.emplace_back("optimizer.shard=states");
    if (strategy == "megatron" && kind_ == "gpt" && chance(0.3))
      sets.emplace_back("parallel.shard_sequence=true");
    if (strategy == "axonn" && chance(0.2))
      sets.push_back("parallel.order=" +
                     pick<std::string>({"[y, x, z, data]", "[data, z, y, x]", "[z, x, data, y]"}));
    for (const char* overlap : {"all_reduce", "reduce_scatter", "all_gather", "send_recv"})
      if (chance(0.15)) sets.push_back(format("parallel.overlap.{}=false", overlap));
    if (chance(0.25)) sets.emplace_back("parallel.overlap.weight_gradients=true");
  }

  RandomJob job_;
  std::string kind_;
  Number batch_ = 8, blocks_ = 1, width_ = 8;
};

}  // namespace fourfold::test
