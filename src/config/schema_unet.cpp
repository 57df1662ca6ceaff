// The family unet: its keys and those of its diffusion, the relations between them, its sizes to
// start from.
#include <algorithm>

#include "config/family.h"
#include "config/rules_words.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

using model::DiffusionSpec;
using model::SamplingSpec;
using model::UnetSpec;

template <class T>
Place<T> at_diffusion(T model::DiffusionSpec::* member) {
  return [member](Config& config) -> T& { return config.unet.diffusion.*member; };
}
template <class T>
Place<T> at_sampling(T model::SamplingSpec::* member) {
  return [member](Config& config) -> T& { return config.unet.diffusion.sampling.*member; };
}

std::vector<Key> unet_keys() {
  return {
      {.path = "unet.picture",
       .meaning = "Height, width and channels of a picture; empty: those of the data. Synthetic "
                  "data needs them. The levels have to halve both sides evenly.",
       .field = Integers{.place = at(&Config::unet, &UnetSpec::picture), .most_items = 3},
       .fallback = "[]",
       .bounds = between(1, most_side),
       .unit = "pixels",
       .cost = "Arithmetic and activations grow with the number of pixels.",
       .example = "[32, 32, 3]",
       .elsewhere = {"unet.image_size"}},
      {.path = "unet.channels",
       .meaning = "Channels of the first convolution, which all others are multiples of.",
       .field = at(&Config::unet, &UnetSpec::channels),
       .fallback = "64",
       .bounds = between(2, most_width),
       .cost = "Parameters and arithmetic grow with its square, activations in proportion.",
       .example = "128",
       .elsewhere = {"model_channels", "base_channels"}},
      {.path = "unet.channel_mult",
       .meaning = "Channels of each level, as multiples of unet.channels; between levels pictures "
                  "are halved.",
       .field = Integers{.place = at(&Config::unet, &UnetSpec::channel_mult), .most_items = 16},
       .fallback = "[1, 2, 2, 2]",
       .bounds = between(1, 1024),
       .cost = "A level more has a quarter of the pixels; wider ones have most of the parameters.",
       .example = "[1, 2, 3, 4]",
       .elsewhere = {"dim_mults", "ch_mult", "channel_multipliers"}},
      {.path = "unet.num_res_blocks",
       .meaning = "Residual blocks of each level on the way down; the way up has one more.",
       .field = at(&Config::unet, &UnetSpec::layers_per_level),
       .fallback = "2",
       .bounds = between(1, most_layers),
       .cost = "Parameters, memory and time grow in proportion.",
       .example = "3",
       .elsewhere = {"layers_per_block"}},
      {.path = "unet.attention_resolutions",
       .meaning = "Heights of pictures, in pixels, at which each residual block is followed by "
                  "attention; in the middle one always is.",
       .field = Integers{at(&Config::unet, &UnetSpec::attention_resolutions)},
       .fallback = "[16, 8]",
       .bounds = between(1, most_side),
       .unit = "pixels",
       .cost = "Arithmetic grows with the square of the number of pixels there.",
       .example = "[8]",
       .elsewhere = {"attn_resolutions"}},
      {.path = "unet.num_attention_heads",
       .meaning = "Heads of attention; they share the channels equally.",
       .field = at(&Config::unet, &UnetSpec::num_heads),
       .fallback = "4",
       .bounds = between(1, most_width),
       .cost = "Little: the same arithmetic in smaller pieces.",
       .example = "1",
       .elsewhere = {"unet.num_heads"}},
      {.path = "unet.norm_groups",
       .meaning = "Groups of channels in group normalisation; they have to divide the channels "
                  "that each norm reads.",
       .field = at(&Config::unet, &UnetSpec::norm_groups),
       .fallback = "32",
       .bounds = between(1, most_width),
       .example = "8",
       .elsewhere = {"num_groups", "norm_num_groups"}},
      {.path = "unet.dropout",
       .meaning = "Part of what the second convolution of a residual block reads set to zero in "
                  "training.",
       .field = at(&Config::unet, &UnetSpec::dropout),
       .fallback = "0",
       .bounds = from_zero_below_one(),
       .example = "0.1",
       .on_resume = ResumeClass::overridable},
      {.path = "unet.scale_shift_norm",
       .meaning = "true: what is known of the time scales and shifts what the second norm of a "
                  "residual block gives; false: it is added before that norm.",
       .field = at(&Config::unet, &UnetSpec::scale_shift_norm),
       .fallback = "true",
       .cost = "true: twice the parameters of the time's linear layers.",
       .example = "false",
       .elsewhere = {"use_scale_shift_norm", "resnet_time_scale_shift"}},
      {.path = "unet.resample_with_convolution",
       .meaning = "true: a convolution of stride 2 halves pictures, and another one follows where "
                  "they grow; false: pixels are averaged, and repeated.",
       .field = at(&Config::unet, &UnetSpec::resample_with_convolution),
       .fallback = "true",
       .example = "false",
       .elsewhere = {"conv_resample", "resamp_with_conv"}},
      {.path = "unet.class_conditional",
       .meaning = "Whether the model is told the class of a picture.",
       .field = at(&Config::unet, &UnetSpec::class_conditional),
       .fallback = "false",
       .cost = "true: 4 * unet.channels parameters a class.",
       .example = "true",
       .elsewhere = {"class_cond"}},
      {.path = "unet.num_classes",
       .meaning = "Classes of pictures; 0: those of the data. Synthetic data needs it.",
       .field = at(&Config::unet, &UnetSpec::num_classes),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .example = "10"},
      {.path = "unet.learn_sigma",
       .meaning = "Whether the model also says where the variance of each step lies; a term of the "
                  "bound on the likelihood trains it.",
       .field = at_diffusion(&DiffusionSpec::learn_sigma),
       .fallback = "false",
       .cost = "true: twice the channels of the last convolution.",
       .example = "true",
       .elsewhere = {"learned_variance", "variance_type"}},
      {.path = "diffusion.steps",
       .meaning = "Times of the process that adds noise to a picture.",
       .field = at_diffusion(&DiffusionSpec::steps),
       .fallback = "1000",
       .bounds = between(1, 1'000'000),
       .unit = "steps",
       .cost = "None in training; a sample made by all of them takes as many runs of the model.",
       .example = "4000",
       .elsewhere = {"diffusion_steps", "num_diffusion_timesteps", "num_train_timesteps",
                     "timesteps"}},
      {.path = "diffusion.noise_schedule",
       .meaning = "How noise grows with time: linear (Ho et al. 2020), or cosine (Nichol, Dhariwal "
                  "2021).",
       .field = choice<model::NoiseSchedule>(
           at_diffusion(&DiffusionSpec::schedule), {"linear", "cosine"},
           {model::NoiseSchedule::linear, model::NoiseSchedule::cosine}),
       .fallback = "cosine",
       .example = "linear",
       .elsewhere = {"noise_schedule", "beta_schedule"}},
      {.path = "diffusion.time_sampling",
       .meaning = "Which times a step trains: uniform, all as often; importance, those more often "
                  "whose loss is large, with weights that keep its mean (Nichol, Dhariwal 2021), "
                  "once each time has ten losses.",
       .field = choice<model::TimeSampling>(
           at_diffusion(&DiffusionSpec::time_sampling), {"uniform", "importance"},
           {model::TimeSampling::uniform, model::TimeSampling::importance}),
       .fallback = "uniform",
       .example = "importance",
       .elsewhere = {"schedule_sampler"}},
      {.path = "diffusion.bound_weight",
       .meaning = "With unet.learn_sigma: what the bound on the likelihood, the sum over all times "
                  "in bits, weighs beside the error of the noise.",
       .field = at_diffusion(&DiffusionSpec::bound_weight),
       .fallback = "0.001",
       .bounds = at_least(0),
       .example = "0.01",
       .elsewhere = {"vlb_weight", "lambda_vlb"},
       .on_resume = ResumeClass::overridable},
      {.path = "diffusion.average_decay",
       .meaning = "How much of itself the moving average of each weight keeps in a step; the "
                  "averages are evaluated, saved as final weights, and make the pictures. 0: there "
                  "are none.",
       .field = at_diffusion(&DiffusionSpec::average_decay),
       .fallback = "0.9999",
       .bounds = from_zero_below_one(),
       .cost = "Above 0: a third copy of the weights, beside the two averages of AdamW.",
       .example = "0.995",
       .elsewhere = {"ema_rate", "ema_decay"},
       .on_resume = ResumeClass::overridable},
      {.path = "diffusion.sampling",
       .meaning =
           "How `generate` makes a picture out of noise: ddpm takes the steps of the process "
           "backwards (Ho et al. 2020); ddim takes implicit ones, of which few do (Song et "
           "al. 2021).",
       .field = choice<model::Sampler>(at_sampling(&SamplingSpec::sampler), {"ddpm", "ddim"},
                                       {model::Sampler::ddpm, model::Sampler::ddim}),
       .fallback = "ddim",
       .example = "ddpm",
       .elsewhere = {"use_ddim", "diffusion.sampler"},
       .on_resume = ResumeClass::free},
      {.path = "diffusion.sampling_steps",
       .meaning = "Steps in which `generate` makes a picture, spread over all times; 0: all of "
                  "diffusion.steps.",
       .field = at_sampling(&SamplingSpec::steps),
       .fallback = "",
       .bounds = between(0, 1'000'000),
       .unit = "steps",
       .cost = "A run of the model each.",
       .example = "250",
       .elsewhere = {"timestep_respacing", "num_inference_steps", "sample_steps"},
       .derived_words = "50, at most diffusion.steps",
       .derive =
           [](Config& config) {
             model::DiffusionSpec& diffusion = config.unet.diffusion;
             diffusion.sampling.steps = std::min<std::int64_t>(50, diffusion.steps);
           },
       .on_resume = ResumeClass::free},
      {.path = "diffusion.eta",
       .meaning = "Noise that ddim adds in each step: 0 none, 1 as much as the process has.",
       .field = at_sampling(&SamplingSpec::eta),
       .fallback = "0.0",
       .bounds = between(0, 1),
       .example = "0.5",
       .elsewhere = {"ddim_eta"},
       .on_resume = ResumeClass::free},
  };
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

std::vector<TemplateSize> unet_sizes() {
  return {
      {"1.2M",
       "the network of configs/unet-quickstart.yaml, for a CPU",
       {{"unet.channels", "32"},
        {"unet.channel_mult", "[1, 2, 2]"},
        {"unet.num_res_blocks", "1"},
        {"unet.attention_resolutions", "[8]"},
        {"unet.norm_groups", "8"},
        {"diffusion.average_decay", "0.995"},
        {"data.format", "pictures"},
        {"data.path", "data/shapes-plain/train.bin"},
        {"train.global_batch_size", "16"},
        {"optimizer.lr", "1e-3"},
        {"optimizer.weight_decay", "0"}}},
      {"52.5M",
       "the network for CIFAR-10 of Nichol, Dhariwal 2021",
       {{"unet.channels", "128"},
        {"unet.num_res_blocks", "3"},
        {"unet.dropout", "0.3"},
        {"unet.learn_sigma", "true"},
        {"diffusion.steps", "4000"},
        {"data.format", "pictures"},
        {"data.path", "data/cifar-10-batches-bin"},
        {"data.flip", "true"},
        {"train.global_batch_size", "128"},
        {"optimizer.lr", "1e-4"},
        {"optimizer.weight_decay", "0"}}},
  };
}

}  // namespace

FamilySchema unet_schema() {
  return {.keys = unet_keys(),
          .rules = {rule_of_picture("unet.picture"),
                    {{"unet.channel_mult"}, has_levels},
                    {{"diffusion.sampling_steps", "diffusion.steps"}, sampling_fits_steps},
                    {{"unet.channel_mult", "unet.picture"}, levels_halve_evenly},
                    {{"unet.norm_groups", "unet.channels", "unet.channel_mult"},
                     groups_divide_channels},
                    {{"unet.num_attention_heads", "unet.channels", "unet.channel_mult"},
                     heads_divide_channels}},
          .labels_key = "unet.num_classes",
          .picture_key = "unet.picture",
          .heads_key = "unet.num_attention_heads",
          .size_key = [](const std::string&, bool) { return std::string("unet.channels"); },
          .sizes = unet_sizes(),
          .usual_size = "1.2M"};
}

}  // namespace fourfold::config
