#include "config/rules.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "config/infeasible_text.h"
#include "config/number.h"
#include "config/schema.h"
#include "config/value.h"
#include "plan/make_mesh.h"

namespace fourfold::config {
namespace {

using Verdict = std::optional<Finding>;

/// The divisors of `number` nearest to `wanted`, at most six, in order: "8, 16, 32".
std::string divisors_near(std::int64_t number, std::int64_t wanted) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low != 0) continue;
    divisors.push_back(low);
    if (low != number / low) divisors.push_back(number / low);
  }
  constexpr std::size_t most = 6;
  std::sort(divisors.begin(), divisors.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(std::abs(a - wanted), a) < std::pair(std::abs(b - wanted), b);
  });
  divisors.resize(std::min(divisors.size(), most));
  std::sort(divisors.begin(), divisors.end());
  std::vector<std::string> words;
  for (const std::int64_t divisor : divisors) words.push_back(format("{}", divisor));
  return join(words, ", ");
}

/// The multiples of `factor` around `wanted`: "128 or 132".
std::string multiples_near(std::int64_t factor, std::int64_t wanted) {
  const std::int64_t below = wanted / factor * factor;
  if (below == 0) return format("{}", factor);
  return format("{} or {}", below, below + factor);
}

Verdict divides(std::string_view whole_key, std::int64_t whole, std::string_view part_key,
                std::int64_t part) {
  if (whole % part == 0) return std::nullopt;
  return Finding{format("{} = {} is not divisible by {} = {}", whole_key, whole, part_key, part),
                 format("choices that work: {} = {}; or {} = {}", part_key,
                        divisors_near(whole, part), whole_key, multiples_near(part, whole))};
}

template <class T>
Verdict at_most(std::string_view small_key, T small, std::string_view large_key, T large) {
  if (small <= large) return std::nullopt;
  const std::string a = format_number(static_cast<double>(small)),
                    b = format_number(static_cast<double>(large));
  return Finding{format("{} = {} is larger than {} = {}", small_key, a, large_key, b),
                 format("set {} to at most {}, or {} to at least {}", small_key, b, large_key, a)};
}

Verdict heads_divide_width(const Config& c) {
  return divides("model.hidden_size", c.gpt.hidden_size, "model.num_attention_heads",
                 c.gpt.num_attention_heads);
}

Verdict micro_batch_divides(const Config& c) {
  return divides("train.global_batch_size", c.plan.global_batch_size, "train.micro_batch_size",
                 c.micro_batch_size.value_or(1));
}

/// Where the micro-batch is left open, the plan knows.
Verdict chunks_divide(const Config& c) {
  const std::int64_t chunks = c.plan.chunks, samples = c.micro_batch_size.value_or(chunks);
  if (samples % chunks == 0) return std::nullopt;
  return Finding{format("train.micro_batch_size = {} is not divisible by parallel.chunks = {}",
                        samples, chunks),
                 format("choices that work: parallel.chunks = {}; or train.micro_batch_size = {}",
                        samples % 2 == 0 ? "1, 2" : "1", multiples_near(chunks, samples))};
}

/// What all ranks process at once divides the step; `auto` numbers count as 1 here.
Verdict batch_divides(const Config& c) {
  const std::int64_t whole = c.plan.global_batch_size, micro = c.micro_batch_size.value_or(1),
                     replicas = c.plan.grid.data.value_or(1) * c.plan.grid.z;
  // Without ranks that divide it, it is another rule's.
  if (whole % micro != 0 || whole % (micro * replicas) == 0) return std::nullopt;
  std::string names, sizes;
  const auto add = [&](std::string_view name, std::optional<std::int64_t> size) {
    if (!size) return;
    names += format("{}{}", names.empty() ? "" : " x ", name);
    sizes += format("{}{}", sizes.empty() ? "" : " x ", *size);
  };
  add("train.micro_batch_size", c.micro_batch_size);
  add("parallel.data", c.plan.grid.data);
  add("parallel.tensor.z", c.plan.grid.z);
  std::string ways = "train.global_batch_size = " + multiples_near(micro * replicas, whole);
  if (whole % replicas == 0)
    ways =
        format("train.micro_batch_size = {}; or {}", divisors_near(whole / replicas, micro), ways);
  return Finding{format("train.global_batch_size = {} is not divisible by {} = {} = {}", whole,
                        names, sizes, micro * replicas),
                 "choices that work: " + ways};
}

/// What plan/ says about the strategy's axes, here with the place in the file.
Verdict strategy_allows(const Config& c, const std::string& axis_key) {
  const auto grid = plan::solve_grid(c.plan, std::nullopt);
  const auto* infeasible = std::get_if<plan::Infeasible>(&grid);
  if (infeasible == nullptr) return std::nullopt;
  for (const plan::Problem& problem : infeasible->problems) {
    const auto [keys, message] = in_words(problem, c.kind);
    if (std::find(keys.begin(), keys.end(), axis_key) == keys.end()) continue;
    const auto advice = message.rfind("; ");
    return Finding{message.substr(0, advice),
                   advice == std::string::npos ? "" : message.substr(advice + 2)};
  }
  return std::nullopt;
}

Verdict grid_is_a_job(const Config& c) {
  const plan::Grid& grid = c.plan.grid;
  const double ranks = static_cast<double>(grid.x) * static_cast<double>(grid.y) *
                       static_cast<double>(grid.z) * static_cast<double>(grid.data.value_or(1)) *
                       static_cast<double>(c.plan.pipeline.meshes());
  if (ranks <= static_cast<double>(most_ranks)) return std::nullopt;
  const std::string stages = c.plan.pipeline.stages > 1
                                 ? format("parallel.pipeline.stages = {}, ", c.plan.pipeline.stages)
                                 : "";
  return Finding{
      format("{}parallel.tensor x {} y {} z {} and parallel.data = {} are {} ranks", stages, grid.x,
             grid.y, grid.z, grid.data.value_or(1), format_number(ranks)),
      format("the largest job has {}", most_ranks)};
}

Verdict stages_have_layers_each(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const auto numbers = static_cast<std::int64_t>(pipeline.layers.size());
  if (numbers == 0 || numbers == pipeline.stages || c.open_axes.stages) return std::nullopt;
  return Finding{format("parallel.pipeline.blocks has {}, for parallel.pipeline.stages = {}",
                        counted(numbers, "number"), pipeline.stages),
                 "write one for each stage, or []"};
}

Verdict stages_have_meshes_each(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const auto meshes = static_cast<std::int64_t>(pipeline.grids.size());
  if (meshes == 0 || meshes == pipeline.meshes() || c.open_axes.stages) return std::nullopt;
  const bool is_shared = pipeline.stages_per_mesh > 1;
  return Finding{
      format("parallel.pipeline.meshes has {}, for parallel.pipeline.stages = {}{}",
             counted(meshes, "grid"), pipeline.stages,
             is_shared ? format(", {} per mesh", pipeline.stages_per_mesh) : std::string()),
      is_shared ? format("write {}, or []", pipeline.meshes()) : "write one for each stage, or []"};
}

Verdict meshes_share_stages_evenly(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  const std::int64_t stages = pipeline.stages, shared = pipeline.stages_per_mesh;
  if (shared == 1) return std::nullopt;
  if (stages % shared != 0)
    return Finding{format("parallel.pipeline.stages = {} is not divisible by "
                          "parallel.pipeline.stages_per_mesh = {}",
                          stages, shared),
                   format("choices that work: {}", multiples_near(shared, stages))};
  if (pipeline.schedule == pipeline::Schedule::interleaved) return std::nullopt;
  return Finding{format("parallel.pipeline.stages_per_mesh = {} does not go with "
                        "parallel.pipeline.schedule = {}, which gives a mesh one stage",
                        shared, to_string(pipeline.schedule)),
                 "set parallel.pipeline.schedule = interleaved, or "
                 "parallel.pipeline.stages_per_mesh = 1"};
}

/// A mesh that has sent what it made before it computes on may wait for one that waits for it.
Verdict shared_meshes_send_beside(const Config& c) {
  const std::int64_t shared = c.plan.pipeline.stages_per_mesh;
  if (shared == 1 || c.plan.overlap.send_recv) return std::nullopt;
  return Finding{format("parallel.overlap.send_recv = false does not go with "
                        "parallel.pipeline.stages_per_mesh = {}, whose meshes send in both "
                        "directions and would wait for each other",
                        shared),
                 "set parallel.overlap.send_recv = true, or parallel.pipeline.stages_per_mesh = 1"};
}

/// A stage whose gradients leave before its weights' part may send one to a neighbour that, eager,
/// has yet to send it a forward result.
Verdict eager_stages_send_beside(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  if (c.plan.overlap.send_recv || pipeline.schedule != pipeline::Schedule::eager_one_f_one_b ||
      pipeline.weight_delay.kind == pipeline::WeightDelay::Kind::none)
    return std::nullopt;
  return Finding{format("parallel.overlap.send_recv = false does not go with "
                        "parallel.pipeline.schedule = eager-1f1b and "
                        "parallel.pipeline.weight_delay = {}: stages that send to each other would "
                        "wait for each other",
                        to_string(pipeline.weight_delay)),
                 "set parallel.overlap.send_recv = true, parallel.pipeline.schedule = 1f1b, or "
                 "parallel.pipeline.weight_delay = none"};
}

/// What the planner chooses is not given beside.
Verdict open_plans_have_no_stages_given(const Config& c) {
  const plan::PipelineSpec& pipeline = c.plan.pipeline;
  if (!pipeline.grids.empty() && c.open_axes.any())
    return Finding{
        "parallel.pipeline.meshes gives each stage its grid, and auto asks the planner for it",
        "leave either out"};
  if (pipeline.stages_per_mesh > 1 && c.open_axes.any())
    return Finding{format("parallel.pipeline.stages_per_mesh = {} does not go with auto: the "
                          "planner gives each mesh one stage",
                          pipeline.stages_per_mesh),
                   "write stages and sizes, or set parallel.pipeline.stages_per_mesh = 1"};
  if (!pipeline.layers.empty() && c.open_axes.stages)
    return Finding{
        "parallel.pipeline.blocks has numbers for stages of which auto leaves open how "
        "many there are",
        "write the number in parallel.pipeline.stages, or leave the blocks out"};
  return std::nullopt;
}

/// A grid of all stages beside grids of their own can only be that of the first one, as settled
/// configurations have it.
Verdict meshes_replace_the_grid(const Config& c) {
  if (c.plan.pipeline.grids.empty()) return std::nullopt;
  plan::Grid grid = c.plan.grid, first = c.plan.pipeline.grids[0];
  first.order = grid.order;
  if (grid == first || (grid.x * grid.y * grid.z == 1 && !grid.data)) return std::nullopt;
  return Finding{
      "parallel.pipeline.meshes gives each stage its grid, and parallel.tensor and "
      "parallel.data are of all stages",
      "leave either out"};
}

Verdict columns_divide_width(const Config& c) {
  return divides("model.hidden_size", c.gpt.hidden_size, "parallel.tensor.y", c.plan.grid.y);
}

Verdict sequence_is_cut_by_megatron(const Config& c) {
  if (!c.plan.shard_sequence || c.plan.strategy == plan::Strategy::megatron) return std::nullopt;
  return Finding{format("parallel.shard_sequence = true does not go with parallel.strategy = {}",
                        to_string(c.plan.strategy)),
                 "set parallel.strategy = megatron, or parallel.shard_sequence = false"};
}

Verdict residual_fits_compute(const Config& c) {
  const bool is_wider = c.residual == DType::f32 && c.plan.compute == DType::bf16;
  if (c.residual == c.plan.compute || is_wider) return std::nullopt;
  Config copy = c;  // places hand out references
  const std::string residual = value_text(*find_key("precision.residual"), copy),
                    compute = value_text(*find_key("precision.compute"), copy);
  return Finding{
      format("precision.residual = {} does not go with precision.compute = {}", residual, compute),
      format("leave precision.residual out, or set it to {}; beside bf16 it may also be fp32",
             compute)};
}

Verdict reduce_fits_compute(const Config& c) {
  if (!c.plan.rounds_gradients || c.plan.compute == DType::bf16) return std::nullopt;
  Config copy = c;  // places hand out references
  return Finding{format("precision.reduce = bf16 does not go with precision.compute = {}",
                        value_text(*find_key("precision.compute"), copy)),
                 "leave precision.reduce out, or set precision.compute = bf16"};
}

Verdict samples_fit_positions(const Config& c) {
  return at_most("data.seq_length", c.data.seq_length, "model.max_position_embeddings",
                 c.gpt.max_position_embeddings);
}

Verdict warmup_fits_steps(const Config& c) {
  return at_most("lr_schedule.warmup_steps", c.train.schedule.warmup_steps, "train.steps",
                 c.train.steps);
}

Verdict warmup_fits_decay(const Config& c) {
  const auto& schedule = c.train.schedule;
  if (schedule.kind == train::ScheduleKind::linear || schedule.kind == train::ScheduleKind::cosine)
    return at_most("lr_schedule.warmup_steps", schedule.warmup_steps, "lr_schedule.decay_steps",
                   schedule.decay_steps);
  const std::int64_t both = schedule.warmup_steps + schedule.decay_steps;
  if (schedule.kind == train::ScheduleKind::constant || both <= c.train.steps) return std::nullopt;
  return Finding{
      format(
          "lr_schedule.warmup_steps = {} and lr_schedule.decay_steps = {} are together longer than "
          "train.steps = {}",
          schedule.warmup_steps, schedule.decay_steps, c.train.steps),
      format("make lr_schedule.decay_steps smaller, or set train.steps to at least {}", both)};
}

Verdict least_rate_below_largest(const Config& c) {
  return at_most("lr_schedule.min_lr", c.train.schedule.min_lr, "optimizer.lr",
                 c.train.schedule.lr);
}

Verdict synthetic_has_vocabulary(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.gpt.vocab_size > 0) return std::nullopt;
  return Finding{
      "data.format = synthetic has no tokenizer, so model.vocab_size must say how many tokens "
      "there are",
      "set model.vocab_size, for example 256 (50257 as GPT-2)"};
}

Verdict synthetic_has_no_sample(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.sample.tokens == 0) return std::nullopt;
  return Finding{format("data.format = synthetic has no text to sample, but sample.tokens = {}",
                        c.sample.tokens),
                 "set sample.tokens = 0, or leave it out"};
}

Verdict intervals_have_samples(const Config& c) {
  if (c.sample.interval == 0 || c.sample.tokens > 0) return std::nullopt;
  return Finding{format("sample.interval = {} asks for texts, but sample.tokens = 0 writes none",
                        c.sample.interval),
                 c.data.format == data::Format::text
                     ? "leave sample.interval out, or sample.tokens"
                     : "leave sample.interval out, or set sample.tokens, for example 200"};
}

Verdict documents_are_in_data(const Config& c) {
  if (c.data.format != data::Format::synthetic) return std::nullopt;
  if (!c.data.mask_documents && !c.data.restart_positions) return std::nullopt;
  return Finding{format("data.{} = true, but data.format = synthetic has no documents",
                        c.data.mask_documents ? "mask_documents" : "restart_positions"),
                 "leave it out, or train on JSON lines, a folder of texts or sets of tokens"};
}

Verdict data_have_path(const Config& c) {
  const bool is_blend = !c.data.blend.empty();
  switch (c.data.format) {
    case data::Format::synthetic:
    case data::Format::pictures:
      return std::nullopt;
    case data::Format::text:
      if (!c.data.path.empty()) return std::nullopt;
      return Finding{"data.format = text needs data.path",
                     "set data.path to a text file, or data.format = synthetic"};
    case data::Format::megatron:
    case data::Format::llmc:
      if (is_blend != !c.data.path.empty()) return std::nullopt;
      return Finding{is_blend ? "data.path and data.blend are both set"
                              : "data.path and data.blend are both empty, and this data.format "
                                "needs one of them",
                     "set data.path for one set, data.blend for several"};
  }
  return std::nullopt;
}

Verdict data_are_of_the_kind(const Config& c) {
  const bool is_text = c.kind == model::Kind::gpt;
  const bool fits = c.data.format == data::Format::synthetic ||
                    is_text == (c.data.format != data::Format::pictures);
  if (fits) return std::nullopt;
  return is_text ? Finding{"model.kind = gpt reads text, but data.format = pictures",
                           "set model.kind = vgg or unet, or another data.format"}
                 : Finding{format("model.kind = {} looks at pictures, but data.format is of text",
                                  kind_word(c.kind)),
                           "set data.format = pictures, or synthetic"};
}

Verdict pictures_have_path(const Config& c) {
  if (c.data.format != data::Format::pictures || !c.data.path.empty()) return std::nullopt;
  return Finding{"data.format = pictures needs data.path",
                 "set data.path to a file or a folder of pictures, or data.format = synthetic"};
}

Verdict synthetic_has_pictures(const Config& c) {
  if (c.data.format != data::Format::synthetic) return std::nullopt;
  if (c.picture().size() == 3 && c.num_classes() > 0) return std::nullopt;
  const std::string kind = kind_word(c.kind);
  return Finding{format("data.format = synthetic is of no size of its own, but {}.{} is open", kind,
                        c.picture().empty() ? "picture" : "num_classes"),
                 c.picture().empty() ? format("set {}.picture, for example [32, 32, 3]", kind)
                                     : format("set {}.num_classes, for example 10", kind)};
}

Verdict picture_is_one(const Config& c) {
  const std::vector<std::int64_t>& picture = c.picture();
  const std::string kind = kind_word(c.kind);
  if (picture.empty()) return std::nullopt;
  if (picture.size() != 3)
    return Finding{format("{}.picture has {} numbers, expected height, width and channels", kind,
                          picture.size()),
                   "for example [32, 32, 3]"};
  if (const auto fault = data::fault_of({picture[0], picture[1], picture[2]}))
    return Finding{format("{}.picture {}", kind, *fault), "for example [32, 32, 3]"};
  return std::nullopt;
}

/// A picture of a side of 32 can be halved five times.
Verdict picture_has_room(const Config& c) {
  const std::vector<std::int64_t>& picture = c.vgg.picture;
  if (picture.size() != 3) return std::nullopt;
  const auto poolings = std::count(c.vgg.widths.begin(), c.vgg.widths.end(), 0);
  const std::int64_t side = std::min(picture[0], picture[1]);
  const auto halvings =
      static_cast<std::ptrdiff_t>(std::bit_width(static_cast<std::uint64_t>(side))) - 1;
  if (poolings <= halvings) return std::nullopt;
  return Finding{
      format("vgg.widths pools {} times, but a picture of {} x {} can be halved {} times", poolings,
             picture[0], picture[1], halvings),
      format("leave out {} of 'pool', or use larger pictures", poolings - halvings)};
}

/// The levels of a U-Net: each halves the sides of a picture, and the way up doubles them again.
Verdict levels_halve_evenly(const Config& c) {
  const std::vector<std::int64_t>& picture = c.unet.picture;
  if (picture.size() != 3) return std::nullopt;
  const std::size_t halvings = c.unet.channel_mult.size() - 1;
  const std::int64_t divisor = std::int64_t{1} << halvings;
  if (picture[0] % divisor == 0 && picture[1] % divisor == 0) return std::nullopt;
  return Finding{
      format("unet.channel_mult has {} levels, which halve pictures {} times, but {} x {} cannot "
             "be divided by {}",
             halvings + 1, halvings, picture[0], picture[1], divisor),
      "leave out levels, or use pictures of another size"};
}

Verdict sampling_fits_steps(const Config& c) {
  const model::DiffusionSpec& diffusion = c.unet.diffusion;
  if (diffusion.sampling.steps <= diffusion.steps) return std::nullopt;
  return Finding{format("diffusion.sampling_steps = {} is more than diffusion.steps = {}",
                        diffusion.sampling.steps, diffusion.steps),
                 "choose fewer, or 0 for all of them"};
}

Verdict has_levels(const Config& c) {
  if (!c.unet.channel_mult.empty()) return std::nullopt;
  return Finding{"unet.channel_mult has no level", "for example [1, 2, 2, 2]"};
}

/// The channels that norms read: of each level, and on the way up those that a block gets from
/// below together with those of the way down.
Verdict groups_divide_channels(const Config& c) {
  const model::UnetSpec& unet = c.unet;
  for (const std::int64_t mult : unet.channel_mult) {
    if (unet.channels * mult % unet.norm_groups == 0) continue;
    return Finding{format("unet.norm_groups = {} does not divide the {} channels of a level",
                          unet.norm_groups, unet.channels * mult),
                   "choose one of " + divisors_near(unet.channels * mult, unet.norm_groups)};
  }
  // A divisor of each level's channels divides their sums; the first convolution has others.
  if (unet.channels % unet.norm_groups == 0) return std::nullopt;
  return Finding{format("unet.norm_groups = {} does not divide unet.channels = {}",
                        unet.norm_groups, unet.channels),
                 "choose one of " + divisors_near(unet.channels, unet.norm_groups)};
}

Verdict heads_divide_channels(const Config& c) {
  for (const std::int64_t mult : c.unet.channel_mult) {
    const std::int64_t width = c.unet.channels * mult;
    if (width % c.unet.num_heads == 0) continue;
    return Finding{
        format("unet.num_attention_heads = {} does not divide the {} channels of a level",
               c.unet.num_heads, width),
        "choose one of " + divisors_near(width, c.unet.num_heads)};
  }
  return std::nullopt;
}

Verdict widths_begin_with_convolution(const Config& c) {
  const std::vector<std::int64_t>& widths = c.vgg.widths;
  if (!widths.empty() && widths.front() != 0) return std::nullopt;
  return Finding{widths.empty() ? "vgg.widths has no convolution"
                                : "vgg.widths begins with pool, expected a convolution",
                 "for example [64, pool, 128, pool]"};
}

/// One number for all channels, or one for each.
Verdict numbers_are_of_channels(const Config& c, const char* key,
                                const std::vector<double>& numbers) {
  const std::vector<std::int64_t>& picture = c.picture();
  const bool fits = numbers.size() == 1 ||
                    (picture.size() == 3 ? numbers.size() == static_cast<std::size_t>(picture[2])
                                         : numbers.size() == 3);
  if (fits) return std::nullopt;
  const std::string channels = picture.size() == 3 ? format("{}", picture[2]) : "1 or 3";
  return Finding{
      format("{} has {} numbers for pictures of {} channels", key, numbers.size(), channels),
      "give one number for each channel, or one for all"};
}

Verdict synthetic_validates_itself(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.data.validation.empty()) return std::nullopt;
  return Finding{"data.format = synthetic reads no files, but data.validation names one",
                 "leave data.validation out; the end of the made-up tokens validates"};
}

Verdict blend_is_of_sets(const Config& c) {
  const bool has_sets =
      c.data.format == data::Format::megatron || c.data.format == data::Format::llmc;
  if (has_sets || c.data.blend.empty()) return std::nullopt;
  return Finding{format("data.blend is a list of sets of tokens, but data.format = {}",
                        c.data.format == data::Format::text ? "text" : "synthetic"),
                 "set data.format = megatron, or leave data.blend out; `fourfold data tokenize` "
                 "makes such sets"};
}

Verdict tokenizer_has_path(const Config& c) {
  const bool is_file = c.data.tokenizer == data::TokenizerKind::sentencepiece ||
                       c.data.tokenizer == data::TokenizerKind::gpt2;
  if (is_file == !c.data.tokenizer_path.empty()) return std::nullopt;
  if (!is_file)
    return Finding{"data.tokenizer_path is set, but data.tokenizer needs no file",
                   "set data.tokenizer = sentencepiece or gpt2, or leave data.tokenizer_path out"};
  const bool is_model = c.data.tokenizer == data::TokenizerKind::sentencepiece;
  return Finding{
      format("data.tokenizer = {} needs data.tokenizer_path", is_model ? "sentencepiece" : "gpt2"),
      is_model ? "set it to a .model file; `fourfold data train-tokenizer` makes one"
               : "set it to a folder with vocab.json and merges.txt"};
}

Verdict bytes_fit_vocabulary(const Config& c) {
  const bool is_byte =
      c.data.format == data::Format::text && c.data.tokenizer == data::TokenizerKind::byte;
  constexpr std::int64_t bytes = 256;
  if (!is_byte || c.gpt.vocab_size == 0 || c.gpt.vocab_size >= bytes) return std::nullopt;
  return Finding{
      format("data.tokenizer = byte has 256 tokens, but model.vocab_size = {}", c.gpt.vocab_size),
      "leave model.vocab_size out, or set it to at least 256"};
}

Verdict checkpoints_fit_layers(const Config& c) {
  const std::int64_t layers = c.plan.checkpointing.layers;
  if (layers <= c.gpt.num_layers) return std::nullopt;
  return Finding{
      format("memory.activation_checkpointing = every {} is more than model.num_layers = {}",
             layers, c.gpt.num_layers),
      format("set N to at most {}; these divide the layers evenly: {}", c.gpt.num_layers,
             divisors_near(c.gpt.num_layers, c.gpt.num_layers))};
}

Verdict name_is_a_folder_name(const Config& c) {
  const bool clean = !c.name.empty() && c.name != "." && c.name != ".." &&
                     std::all_of(c.name.begin(), c.name.end(), [](char letter) {
                       return letter != '/' && static_cast<unsigned char>(letter) >= 0x20;
                     });
  if (clean) return std::nullopt;
  return Finding{format("run.name = '{}' cannot name a folder", c.name),
                 "use letters, digits, '-', '_' and '.'"};
}

Verdict folder_is_named(const Config& c) {
  if (!c.dir.empty()) return std::nullopt;
  return Finding{"run.dir is empty", "name a folder, or leave it out for runs/ and run.name"};
}

/// A setting of one optimizer says nothing to another. A file that states every default has the
/// default for it.
template <class SettingOf>
Rule rule_of_optimizer(const std::string& key, graph::Optimizer owner, SettingOf setting_of) {
  return {{key, "optimizer.name"}, [key, owner, setting_of](const Config& c) -> Verdict {
            static const graph::OptimizerSpec plain;
            if (c.optimizer.kind == owner || setting_of(c.optimizer) == setting_of(plain))
              return std::nullopt;
            const bool is_adamw = owner == graph::Optimizer::adamw;
            const char *wanted = is_adamw ? "adamw" : "sgd", *named = is_adamw ? "sgd" : "adamw";
            return Finding{
                format("{} is a setting of {}, but optimizer.name = {}", key, wanted, named),
                format("leave {} out, or set optimizer.name = {}", key, wanted)};
          }};
}

Rule strategy_rule(const std::string& axis_key) {
  return {{"parallel.strategy", axis_key},
          [axis_key](const Config& c) { return strategy_allows(c, axis_key); }};
}

}  // namespace

std::optional<std::string> picture_fault(const Config& config) {
  std::vector<Verdict> verdicts = {picture_is_one(config)};
  if (config.kind == model::Kind::unet)
    verdicts.push_back(levels_halve_evenly(config));
  else
    verdicts.insert(
        verdicts.end(),
        {picture_has_room(config), numbers_are_of_channels(config, "data.mean", config.vgg.mean),
         numbers_are_of_channels(config, "data.deviation", config.vgg.deviation)});
  for (const Verdict& verdict : verdicts)
    if (verdict) return verdict->message + "; " + verdict->hint;
  return std::nullopt;
}

void refuse_signals(const Config& config) {
  const plan::PipelineSpec& pipeline = config.plan.pipeline;
  if (pipeline.stages == 1 || pipeline.reshard.strategy != reshard::Strategy::signal) return;
  const std::string key = "parallel.pipeline.transfer";
  const Origin* origin = config.origins.find(key);
  throw UserError(
      ExitCode::bad_config,
      format(
          "{}{} = signal passes a byte in place of a tensor: a bound for `fourfold simulate` and "
          "`fourfold plan` alone; set broadcast, which moves the data",
          origin == nullptr ? "" : origin->place + ": ", key));
}

std::span<const Rule> rules() {
  using graph::Optimizer;
  using graph::OptimizerSpec;
  static const std::vector<Rule> table = {
      {{"run.name"}, name_is_a_folder_name},
      {{"run.dir"}, folder_is_named},
      {{"model.hidden_size", "model.num_attention_heads"}, heads_divide_width},
      {{"train.global_batch_size", "train.micro_batch_size"}, micro_batch_divides},
      {{"train.global_batch_size", "train.micro_batch_size", "parallel.data", "parallel.tensor.z"},
       batch_divides,
       true},
      {{"train.micro_batch_size", "parallel.chunks"}, chunks_divide},
      {{"parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z", "parallel.data",
        "parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh"},
       grid_is_a_job},
      {{"parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh",
        "parallel.pipeline.schedule"},
       meshes_share_stages_evenly},
      {{"parallel.overlap.send_recv", "parallel.pipeline.stages_per_mesh"},
       shared_meshes_send_beside},
      {{"parallel.overlap.send_recv", "parallel.pipeline.schedule",
        "parallel.pipeline.weight_delay"},
       eager_stages_send_beside},
      {{"parallel.pipeline.blocks", "parallel.pipeline.stages"}, stages_have_layers_each},
      {{"parallel.pipeline.meshes", "parallel.pipeline.stages",
        "parallel.pipeline.stages_per_mesh"},
       stages_have_meshes_each},
      {{"parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh", "parallel.pipeline.blocks",
        "parallel.pipeline.meshes", "parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z"},
       open_plans_have_no_stages_given},
      {{"parallel.pipeline.meshes", "parallel.tensor.x", "parallel.tensor.y", "parallel.tensor.z",
        "parallel.data"},
       meshes_replace_the_grid},
      strategy_rule("parallel.tensor.x"),
      strategy_rule("parallel.tensor.y"),
      strategy_rule("parallel.tensor.z"),
      {{"model.hidden_size", "parallel.tensor.y"}, columns_divide_width, true},
      {{"parallel.shard_sequence", "parallel.strategy"}, sequence_is_cut_by_megatron},
      {{"precision.residual", "precision.compute"}, residual_fits_compute},
      {{"precision.reduce", "precision.compute"}, reduce_fits_compute},
      {{"data.seq_length", "model.max_position_embeddings"}, samples_fit_positions},
      {{"lr_schedule.warmup_steps", "train.steps"}, warmup_fits_steps},
      {{"lr_schedule.warmup_steps", "lr_schedule.decay_steps", "lr_schedule.kind", "train.steps"},
       warmup_fits_decay},
      {{"lr_schedule.min_lr", "optimizer.lr"}, least_rate_below_largest},
      rule_of_optimizer("optimizer.betas", Optimizer::adamw,
                        [](const OptimizerSpec& o) { return std::pair(o.beta1, o.beta2); }),
      rule_of_optimizer("optimizer.eps", Optimizer::adamw, std::mem_fn(&OptimizerSpec::epsilon)),
      rule_of_optimizer("optimizer.momentum", Optimizer::sgd,
                        std::mem_fn(&OptimizerSpec::momentum)),
      rule_of_optimizer("optimizer.nesterov", Optimizer::sgd,
                        std::mem_fn(&OptimizerSpec::nesterov)),
      {{"model.vocab_size", "data.format"}, synthetic_has_vocabulary},
      {{"sample.tokens", "data.format"}, synthetic_has_no_sample},
      {{"sample.interval", "sample.tokens"}, intervals_have_samples},
      {{"data.mask_documents", "data.restart_positions", "data.format"}, documents_are_in_data},
      {{"data.path", "data.blend", "data.format"}, data_have_path},
      {{"data.validation", "data.format"}, synthetic_validates_itself},
      {{"data.blend", "data.format"}, blend_is_of_sets},
      {{"data.format", "model.kind"}, data_are_of_the_kind},
      {{"data.format", "data.path", "vgg.picture"}, pictures_have_path},
      {{"data.format", "vgg.picture", "vgg.num_classes"}, synthetic_has_pictures},
      {{"data.format", "data.path", "unet.picture"}, pictures_have_path},
      {{"data.format", "unet.picture", "unet.num_classes"}, synthetic_has_pictures},
      {{"unet.picture"}, picture_is_one},
      {{"unet.channel_mult"}, has_levels},
      {{"diffusion.sampling_steps", "diffusion.steps"}, sampling_fits_steps},
      {{"unet.channel_mult", "unet.picture"}, levels_halve_evenly},
      {{"unet.norm_groups", "unet.channels", "unet.channel_mult"}, groups_divide_channels},
      {{"unet.num_attention_heads", "unet.channels", "unet.channel_mult"}, heads_divide_channels},
      {{"vgg.picture"}, picture_is_one},
      {{"vgg.widths"}, widths_begin_with_convolution},
      {{"vgg.widths", "vgg.picture"}, picture_has_room},
      {{"data.mean", "vgg.picture"},
       [](const Config& c) { return numbers_are_of_channels(c, "data.mean", c.vgg.mean); }},
      {{"data.deviation", "vgg.picture"},
       [](const Config& c) {
         return numbers_are_of_channels(c, "data.deviation", c.vgg.deviation);
       }},
      {{"data.tokenizer", "data.tokenizer_path"}, tokenizer_has_path},
      {{"data.tokenizer", "model.vocab_size", "data.format"}, bytes_fit_vocabulary},
      {{"memory.activation_checkpointing", "model.num_layers"}, checkpoints_fit_layers},
  };
  return table;
}

}  // namespace fourfold::config
