// Jobs that differ in all that a user may choose, as factors of a covering array. Header only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/format.h"
#include "compile/compile.h"
#include "compile/passes.h"
#include "plan/pin_spec.h"
#include "plan/plan.h"
#include "support/covering_array.h"
#include "support/grids.h"

namespace fourfold::test::layouts {

/// What a user chooses, each with the values that it takes here.
enum Factor : std::size_t {
  model_factor,
  variant_factor,
  x_factor,
  y_factor,
  z_factor,
  data_factor,
  strategy_factor,
  pipeline_factor,
  second_mesh_factor,
  transfer_factor,
  hosts_factor,
  weight_delay_factor,
  checkpointing_factor,
  overlap_factor,
  weight_gradients_factor,
  cached_gathers_factor,
  chunks_factor,
  buckets_factor,
  precision_factor,
  states_factor,
  pins_factor,
  optimizer_factor,
  memory_factor,
  order_factor,
  without_factor,
  micros_factor,
  num_factors
};

struct FactorText {
  std::string_view name;
  std::vector<std::string> values;
};

/// In the order of Factor. The first value of a factor is the usual one.
inline const std::vector<FactorText>& texts() {
  static const std::vector<FactorText> all = {
      {"model", {"gpt", "gpt of odd sizes", "vgg", "unet"}},
      {"variant", {"first", "second"}},
      {"x", {"1", "2", "3", "4"}},
      {"y", {"1", "2", "3"}},
      {"z", {"1", "2", "4"}},
      {"data", {"1", "2", "4"}},
      {"strategy", {"axonn", "atp", "megatron", "megatron, sequence cut", "fsdp"}},
      {"pipeline", {"none", "gpipe of 2", "1f1b of 2", "eager of 3", "interleaved 2 x 2"}},
      {"second mesh", {"the same", "turned", "one rank"}},
      {"transfer", {"broadcast", "send", "local gather", "global gather", "alpa"}},
      {"hosts", {"one", "of 1 rank", "of 2 ranks"}},
      {"weight delay", {"none", "0", "1"}},
      {"checkpointing", {"none", "full", "every 2", "selective", "full, then selective"}},
      {"overlap", {"all", "none", "no sums", "no scatters", "no gathers", "no transfers"}},
      {"weight gradients", {"in turn", "beside"}},
      {"cached gathers", {"all", "0", "1"}},
      {"chunks", {"1", "2", "4"}},
      {"buckets", {"4 MiB", "none", "4 KiB"}},
      {"precision", {"f64", "bf16", "bf16, rounded gradients"}},
      {"states", {"whole", "cut on data"}},
      {"pins", {"none", "on one axis", "on two", "whole"}},
      {"optimizer", {"adamw", "lion", "nesterov"}},
      {"memory", {"any", "least"}},
      {"order", {"x y z data", "y x z data", "data z y x"}},
      {"without", {"nothing", "all", "fusions", "all but fusions"}},
      {"micro-batches", {"2", "1", "4"}},
  };
  return all;
}

/// An assignment whose factors are asked by the text of their values.
class Choice {
 public:
  explicit Choice(const Assignment& values) : values_(values) {}
  int number(Factor factor) const { return values_[factor]; }
  bool is_open(Factor factor) const { return values_[factor] == open_value; }
  /// The text of the value of a factor that has one.
  const std::string& text(Factor factor) const {
    return texts()[factor].values.at(static_cast<std::size_t>(values_[factor]));
  }
  bool is(Factor factor, std::string_view value) const {
    return !is_open(factor) && text(factor) == value;
  }
  bool begins(Factor factor, std::string_view value) const {
    return !is_open(factor) && text(factor).starts_with(value);
  }
  /// True if the factor has another value than its first.
  bool is_unusual(Factor factor) const { return values_[factor] > 0; }
  /// The value of a factor whose values are numbers; 1 where it is open.
  std::int64_t size(Factor factor) const { return is_open(factor) ? 1 : std::stoll(text(factor)); }

  /// The model, and those that differ from the usual ones.
  std::string name() const {
    std::string name;
    for (std::size_t number = 0; number < num_factors; ++number) {
      const auto factor = static_cast<Factor>(number);
      if (factor == model_factor ? is_open(factor) : !is_unusual(factor)) continue;
      name += format("{}{} {}", name.empty() ? "" : "; ", texts()[factor].name, text(factor));
    }
    return name;
  }

 private:
  const Assignment& values_;
};

/// Ranks of all meshes.
inline std::int64_t num_ranks_of(const Choice& choice) {
  const std::int64_t first = choice.size(x_factor) * choice.size(y_factor) * choice.size(z_factor) *
                             choice.size(data_factor);
  if (!choice.is_unusual(pipeline_factor)) return first;
  const std::int64_t second = choice.is(second_mesh_factor, "one rank") ? 1 : first;
  return first + second + (choice.is(pipeline_factor, "eager of 3") ? first : 0);
}

/// What does not go together, as the pages say it: rules of strategies, what pipelines have not,
/// and choices that say nothing beside another.
inline bool is_legal(const Assignment& values, std::int64_t most_ranks = 12) {
  const Choice c(values);
  const bool is_pipeline = c.is_unusual(pipeline_factor);
  const bool has_no_pipeline = c.is(pipeline_factor, "none");
  const auto excludes = [](bool one, bool other) { return one && other; };
  const bool has_threes = c.is(x_factor, "3") || c.is(y_factor, "3");
  const bool cuts_rows = c.is_unusual(y_factor);
  const bool is_megatron = c.begins(strategy_factor, "megatron");
  const bool is_picture = c.is(model_factor, "vgg") || c.is(model_factor, "unet");
  const std::int64_t replicas = c.size(z_factor) * c.size(data_factor);
  return num_ranks_of(c) <= most_ranks &&
         // sizes of models
         !excludes(has_threes,
                   c.is(model_factor, "gpt of odd sizes") || c.is(model_factor, "unet")) &&
         !excludes(has_threes && c.is(model_factor, "vgg"), c.is(pins_factor, "on two")) &&
         !excludes(c.is(model_factor, "gpt of odd sizes"),
                   c.is(x_factor, "4") && c.is(pins_factor, "on two")) &&
         !excludes(c.is(model_factor, "gpt") && is_pipeline,
                   c.is(x_factor, "3") && c.is(y_factor, "3")) &&
         // strategies
         !excludes(c.is(strategy_factor, "atp"), c.is_unusual(z_factor)) &&
         !excludes(is_megatron, cuts_rows || c.is_unusual(z_factor)) &&
         !excludes(c.is(strategy_factor, "fsdp"), c.is_unusual(x_factor) || cuts_rows) &&
         !excludes(c.is(strategy_factor, "megatron, sequence cut"), is_picture) &&
         !excludes(c.is_unusual(strategy_factor) && !c.is_open(strategy_factor),
                   c.is(second_mesh_factor, "turned")) &&
         !excludes(c.is_unusual(strategy_factor), c.is_unusual(pins_factor)) &&
         // pipelines
         !excludes(has_no_pipeline, c.is_unusual(second_mesh_factor)) &&
         !excludes(has_no_pipeline, c.is_unusual(transfer_factor)) &&
         !excludes(has_no_pipeline, c.is_unusual(hosts_factor)) &&
         !excludes(has_no_pipeline, c.is_unusual(weight_delay_factor)) &&
         !excludes(has_no_pipeline, c.is(overlap_factor, "no transfers")) &&
         !excludes(is_pipeline, c.is_unusual(chunks_factor)) &&
         !excludes(c.is(pipeline_factor, "interleaved 2 x 2"), c.is(micros_factor, "1")) &&
         // batches of 32 samples
         32 % (c.size(micros_factor) * replicas * c.size(chunks_factor)) == 0 &&
         // rounding is of bf16 alone
         !excludes(c.begins(precision_factor, "bf16"), c.is_unusual(optimizer_factor));
}

inline Factors factors() {
  Factors all{{}, [](const Assignment& values) { return is_legal(values); }};
  for (const FactorText& text : texts()) all.sizes.push_back(static_cast<int>(text.values.size()));
  return all;
}

struct Pinned {
  std::string pattern, sharding;
};

/// Kinds of parameters that lie otherwise than the strategy says: cut by one axis, by two, whole.
inline const std::vector<Pinned>& pins_to_choose(const Choice& c) {
  using Three = std::array<std::vector<Pinned>, 3>;
  static const Three of_gpt = {{{{"blocks.*.attn.qkv.weight", "[* (x), *, *, *]"},
                                 {"blocks.*.mlp.up.weight", "[*, * (x)]"},
                                 {"blocks.*.mlp.up.weight", "[* (z), *]"},
                                 {"blocks.*.mlp.up.bias", "[* (x)]"},
                                 {"blocks.*.ln1.gain", "[* (z)]"},
                                 {"wte.weight", "[*, * (x)]"}},
                                {{"blocks.*.mlp.up.weight", "[* (x,z), * (y)]"},
                                 {"blocks.*.mlp.up.weight", "[* (x,y), *]"},
                                 {"blocks.*.mlp.down.weight", "[* (z), * (x,y)]"},
                                 {"blocks.*.attn.qkv.weight", "[* (x), *, * (y), *]"},
                                 {"blocks.*.attn.out.weight", "[*, * (x), * (y)]"},
                                 {"blocks.*.attn.out.weight", "[* (y), *, * (x,z)]"}},
                                {{"blocks.*.mlp.down.weight", "[*, *]"},
                                 {"wte.weight", "[*, *]"},
                                 {"wpe.weight", "[*, *]"}}}};
  static const Three of_unet = {
      {{{"*.time.bias", "[*, * (x)]"},
        {"up.*.conv1.weight.1", "[*, *, *, * (x)]"},
        {"*.shortcut.weight.0", "[* (z), *, *, *]"},
        {"*.attention.out.weight", "[*, *, * (x)]"},
        {"*.norm1.gain", "[* (z)]"}},
       {{"*.conv2.weight", "[* (x,y), *, *, * (z)]"},
        {"down.*.conv1.weight", "[* (y), *, *, * (x,z)]"},
        {"up.*.conv1.weight.*", "[* (x), *, *, * (y)]"},
        {"*.attention.qkv.weight", "[* (x), *, * (y), *]"},
        {"down.0.half.weight", "[* (x,z), *, *, * (y)]"},
        {"time.0.weight", "[* (x), * (y)]"},
        {"out.weight", "[*, *, *, * (x,y)]"}},
       {{"*.conv2.weight", "[*, *, *, *]"}, {"*.shortcut.weight.0", "[*, *, *, *]"}}}};
  static const Three of_vgg = {
      {{{"conv.1.weight", "[*, *, *, * (x)]"}, {"linear.0.bias", "[* (y)]"}},
       {{"conv.1.weight", "[* (x,y), *, *, *]"}},
       {{"conv.*.weight", "[*, *, *, *]"}}}};
  const Three& three = c.begins(model_factor, "gpt") ? of_gpt
                       : c.is(model_factor, "unet")  ? of_unet
                                                     : of_vgg;
  return three.at(static_cast<std::size_t>(c.number(pins_factor)) - 1);
}

/// Which of them it is differs from grid to grid.
inline std::vector<plan::Pin> pins_of(const Choice& c) {
  if (!c.is_unusual(pins_factor)) return {};
  const std::vector<Pinned>& list = pins_to_choose(c);
  std::size_t turn = 0;
  for (std::size_t factor = 0; factor <= data_factor; ++factor)
    turn += static_cast<std::size_t>(c.number(static_cast<Factor>(factor)));
  const Pinned& pin = list[turn % list.size()];
  return {{pin.pattern, plan::parse_pinned(pin.sharding).value()}};
}

/// The second variant: of a GPT, documents apart, no biases, and whole ranks that have nothing to
/// learn from; of the odd one, a tied head; of a VGG, few labels; of a U-Net, times by importance,
/// no classes, and averages that follow soon.
inline void set_model(RunSetup& setup, const Choice& c) {
  const bool is_pipeline = c.is_unusual(pipeline_factor);
  const bool is_second = c.is(variant_factor, "second");
  if (c.is(model_factor, "vgg")) {
    setup = picture_model();
    setup.vgg->widths = {24, 0, 24, 48, 0};
    if (is_pipeline) {
      setup.vgg->widths = {24, 0, 24, 0, 24, 0, 24};
      setup.vgg->picture = {8, 8, 3};
    }
    setup.vgg->hidden = {48};
  } else if (c.is(model_factor, "unet")) {
    setup = diffusion_model();
    if (is_pipeline) setup.writes = model::Writes::nothing;  // pictures are made on one mesh
    if (is_second) {
      setup.unet->diffusion.time_sampling = model::TimeSampling::importance;
      setup.unet->diffusion.average_decay = 0.9;
      setup.unet->class_conditional = false;
    }
  } else if (c.is(model_factor, "gpt of odd sizes")) {
    setup = second_model();
    setup.gpt.hidden_size = 56;
    setup.gpt.ffn_hidden_size = 112;
    setup.gpt.tied_head = is_second;
  } else {
    setup = first_model();
    setup.gpt.hidden_size = 48;
    setup.gpt.num_attention_heads = 24;
    setup.gpt.ffn_hidden_size = 96;
    setup.masks_documents = setup.restarts_positions = is_second;
    setup.gpt.bias = !is_second;
  }
  if (is_pipeline) setup.gpt.num_layers = 4;
  setup.gpt.wide_residual = c.is(precision_factor, "bf16, rounded gradients");
  setup.plan.global_batch_size = 32;
  const bool has_few_labels = is_second && (c.is(model_factor, "gpt") || c.is(model_factor, "vgg"));
  if (has_few_labels) {
    const std::int64_t length = setup.plan.seq_length, micro = 32 / c.size(micros_factor);
    setup.masked = [length, micro](std::int64_t i) { return i / length % micro >= micro / 3; };
  }
}

inline void set_pipeline(plan::PlanSpec& spec, const Choice& c) {
  if (!c.is_unusual(pipeline_factor)) return;
  plan::PipelineSpec& pipeline = spec.pipeline;
  const bool is_interleaved = c.begins(pipeline_factor, "interleaved");
  const bool has_three = c.is(pipeline_factor, "eager of 3");
  pipeline.stages = is_interleaved ? 4 : has_three ? 3 : 2;
  pipeline.stages_per_mesh = is_interleaved ? 2 : 1;
  pipeline.schedule = is_interleaved                       ? pipeline::Schedule::interleaved
                      : has_three                          ? pipeline::Schedule::eager_one_f_one_b
                      : c.begins(pipeline_factor, "gpipe") ? pipeline::Schedule::gpipe
                                                           : pipeline::Schedule::one_f_one_b;
  pipeline.weight_delay = *pipeline::weight_delay_from(c.text(weight_delay_factor));
  const plan::Grid& first = spec.grid;
  plan::Grid second = first;
  if (c.is(second_mesh_factor, "one rank"))
    second.x = second.y = second.z = second.data = 1;
  else if (c.is(second_mesh_factor, "turned"))
    second.x = first.y, second.y = first.x, second.z = first.data, second.data = first.z;
  pipeline.grids = {first, second};
  if (has_three) pipeline.grids.push_back(first);
  plan::ReshardSpec& between = pipeline.reshard;
  using Transfer = reshard::Strategy;
  if (c.is(transfer_factor, "send")) between.strategy = Transfer::send_recv;
  if (c.is(transfer_factor, "local gather")) between.strategy = Transfer::local_all_gather;
  if (c.is(transfer_factor, "global gather")) between.strategy = Transfer::global_all_gather;
  if (c.is(transfer_factor, "alpa")) between.strategy = Transfer::alpa;
  if (c.is(hosts_factor, "of 1 rank")) between.ranks_per_host = 1;
  if (c.is(hosts_factor, "of 2 ranks")) between.ranks_per_host = 2;
  if (c.is(hosts_factor, "of 2 ranks")) between.chunks = 3;
}

inline plan::Checkpointing checkpointing_of(const Choice& c) {
  if (c.is(checkpointing_factor, "full")) return {.layers = 1};
  if (c.is(checkpointing_factor, "every 2")) return {.layers = 2};
  if (c.is(checkpointing_factor, "selective")) return {.layers = 1, .keeps_products = true};
  if (c.is(checkpointing_factor, "full, then selective"))
    return {.is_auto = true, .first_full = 1, .first_selective = 2};
  return {};
}

/// What must not change a bit: where and when something is computed, gathered, kept or sent.
inline void set_ways(plan::PlanSpec& spec, const Choice& c) {
  spec.checkpointing = checkpointing_of(c);
  plan::Overlap& overlap = spec.overlap;
  if (c.is(overlap_factor, "none")) overlap = {false, false, false, false};
  if (c.is(overlap_factor, "no sums")) overlap.all_reduce = false;
  if (c.is(overlap_factor, "no scatters")) overlap.reduce_scatter = false;
  if (c.is(overlap_factor, "no gathers")) overlap.all_gather = false;
  if (c.is(overlap_factor, "no transfers")) overlap.send_recv = false;
  overlap.weight_gradients = c.is(weight_gradients_factor, "beside")
                                 ? plan::WeightGradients::beside
                                 : plan::WeightGradients::in_turn;
  if (c.is_unusual(cached_gathers_factor)) spec.cached_gathers = c.size(cached_gathers_factor);
  if (c.is(buckets_factor, "none")) spec.bucket_bytes = 0;
  if (c.is(buckets_factor, "4 KiB")) spec.bucket_bytes = 4 << 10;
  if (c.is(memory_factor, "least")) spec.memory_limit = 1;
}

/// The model, its batch and its optimizer on one rank: what any layout has to compute.
inline RunSetup serial_setup(const Choice& c) {
  RunSetup setup;
  set_model(setup, c);
  setup.plan.micro_batch_size = setup.plan.global_batch_size / c.size(micros_factor);
  if (c.is(optimizer_factor, "lion"))
    setup.optimizer = graph::OptimizerSpec::of(op::Lion{});
  else if (c.is_unusual(optimizer_factor))
    setup.optimizer = graph::OptimizerSpec::of(op::Sgd{.nesterov = true});
  if (c.begins(precision_factor, "bf16")) {
    setup.plan.compute = DType::bf16;
    setup.reference_kernels = true;
  }
  return setup;
}

/// How it lies on ranks; what no bit depends on is as usual.
inline RunSetup laid_out(const Choice& c) {
  RunSetup setup = serial_setup(c);
  plan::PlanSpec& spec = setup.plan;
  spec.grid = {.x = c.size(x_factor),
               .y = c.size(y_factor),
               .z = c.size(z_factor),
               .data = c.size(data_factor)};
  if (c.is(order_factor, "y x z data")) spec.grid.order = {"y", "x", "z", "data"};
  if (c.is(order_factor, "data z y x")) spec.grid.order = {"data", "z", "y", "x"};
  spec.micro_batch_size /= spec.grid.z * spec.grid.data;
  spec.strategy = c.is(strategy_factor, "atp")            ? plan::Strategy::atp
                  : c.begins(strategy_factor, "megatron") ? plan::Strategy::megatron
                  : c.is(strategy_factor, "fsdp")         ? plan::Strategy::fsdp
                                                          : plan::Strategy::axonn;
  spec.shard_sequence = c.is(strategy_factor, "megatron, sequence cut");
  spec.chunks = c.size(chunks_factor);
  spec.shard_states = c.is_unusual(states_factor);
  spec.rounds_gradients = c.is(precision_factor, "bf16, rounded gradients");
  spec.pins = pins_of(c);
  set_pipeline(spec, c);
  return setup;
}

/// Names of passes that are left out.
inline std::vector<std::string> left_out(const Choice& c) {
  std::vector<std::string> names;
  if (!c.is_unusual(without_factor)) return names;
  for (const compile::Pass& pass : compile::passes()) {
    const bool fuses = pass.name.starts_with("fuse_");
    const bool is_kept = c.is(without_factor, fuses ? "all but fusions" : "fusions");
    if (pass.is_optional && !is_kept) names.emplace_back(pass.name);
  }
  return names;
}

}  // namespace fourfold::test::layouts
