// Relations between the keys of a model.
#include <algorithm>
#include <bit>

#include "config/rules_words.h"

namespace fourfold::config {
namespace {

Verdict heads_divide_width(const Config& c) {
  return divides("model.hidden_size", c.gpt.hidden_size, "model.num_attention_heads",
                 c.gpt.num_attention_heads);
}

Verdict samples_fit_positions(const Config& c) {
  return at_most("data.seq_length", c.data.seq_length, "model.max_position_embeddings",
                 c.gpt.max_position_embeddings);
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

std::vector<Rule> model_rules() {
  return {
      {{"model.hidden_size", "model.num_attention_heads"}, heads_divide_width},
      {{"data.seq_length", "model.max_position_embeddings"}, samples_fit_positions},
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
  };
}

}  // namespace fourfold::config
