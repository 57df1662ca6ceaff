// The family vgg: its keys and the relations between them.
#include <algorithm>
#include <bit>

#include "config/family.h"
#include "config/rules_words.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

using model::VggSpec;

std::vector<Key> vgg_keys() {
  return {
      {.path = "vgg.widths",
       .meaning = "Channels of each 3 x 3 convolution, in order; pool halves height and width.",
       .field = Integers{at(&Config::vgg, &VggSpec::widths), "pool"},
       .fallback = "[64, pool, 128, pool, 256, 256, pool]",
       .bounds = between(1, most_width),
       .unit = "channels",
       .cost = "Arithmetic and parameters grow with the product of neighbours, activations in "
               "proportion.",
       .example = "[64, 64, pool, 128, 128, pool]",
       .elsewhere = {"cfg", "conv_channels", "num_filters"}},
      {.path = "vgg.hidden",
       .meaning = "Widths of the linear layers between the convolutions and the last one.",
       .field = Integers{at(&Config::vgg, &VggSpec::hidden)},
       .fallback = "[512]",
       .bounds = between(1, most_width),
       .cost = "The first one has as many rows as a picture has values after the last pooling.",
       .example = "[4096, 4096]",
       .elsewhere = {"classifier", "fc_widths", "mlp_widths"}},
      {.path = "vgg.picture",
       .meaning = "Height, width and channels of a picture; empty: those of the data. Synthetic "
                  "data needs them.",
       .field = Integers{.place = at(&Config::vgg, &VggSpec::picture), .most_items = 3},
       .fallback = "[]",
       .bounds = between(1, most_side),
       .unit = "pixels",
       .example = "[32, 32, 3]",
       .elsewhere = {"image_size", "img_size", "input_size", "input_shape", "image_shape"}},
      {.path = "vgg.num_classes",
       .meaning = "Classes that pictures are told apart by; 0: those of the data. Synthetic data "
                  "needs it.",
       .field = at(&Config::vgg, &VggSpec::num_classes),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .cost = "Parameters of the last layer, one row of its input each.",
       .example = "1000",
       .elsewhere = {"n_classes", "num_labels", "classes"}},
      {.path = "vgg.dropout",
       .meaning = "Part of the outputs of each hidden linear layer set to zero in training.",
       .field = at(&Config::vgg, &VggSpec::dropout),
       .fallback = "0.5",
       .bounds = from_zero_below_one(),
       .example = "0.1",
       .elsewhere = {"drop_rate", "dropout_rate", "p_dropout"},
       .on_resume = ResumeClass::overridable},
  };
}

std::vector<Key> vgg_data_keys() {
  return {
      {.path = "data.mean",
       .meaning = "Subtracted from the values of a picture, which lie from 0 to 1, before they are "
                  "divided by data.deviation: one number for each channel, or one for all. "
                  "`fourfold data inspect` shows those of a set.",
       .field = Place<std::vector<double>>(at(&Config::vgg, &VggSpec::mean)),
       .fallback = "[0.5]",
       .bounds = between(0, 1),
       .example = "[0.491, 0.482, 0.447]",
       .elsewhere = {"normalize_mean", "image_mean", "pixel_mean"}},
      {.path = "data.deviation",
       .meaning = "What the values of a picture are divided by, likewise.",
       .field = Place<std::vector<double>>(at(&Config::vgg, &VggSpec::deviation)),
       .fallback = "[0.25]",
       .bounds = {.least = 0, .most = 1, .least_excluded = true},
       .example = "[0.247, 0.243, 0.262]",
       .elsewhere = {"std", "normalize_std", "image_std", "pixel_std"}},
  };
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
  const std::vector<std::int64_t>& picture = c.vgg.picture;
  const bool fits = numbers.size() == 1 ||
                    (picture.size() == 3 ? numbers.size() == static_cast<std::size_t>(picture[2])
                                         : numbers.size() == 3);
  if (fits) return std::nullopt;
  const std::string channels = picture.size() == 3 ? format("{}", picture[2]) : "1 or 3";
  return Finding{
      format("{} has {} numbers for pictures of {} channels", key, numbers.size(), channels),
      "give one number for each channel, or one for all"};
}

std::string vgg_size_key(const std::string& tensor, bool is_rows) {
  // The rows of the first linear layer are what the convolutions give.
  const bool is_first = tensor.starts_with("linear.0.") && is_rows;
  return tensor.starts_with("conv.") || is_first ? "vgg.widths" : "vgg.hidden";
}

}  // namespace

FamilySchema vgg_schema() {
  return {.keys = vgg_keys(),
          .data_keys = vgg_data_keys(),
          .rules = {rule_of_picture("vgg.picture"),
                    {{"vgg.widths"}, widths_begin_with_convolution},
                    {{"vgg.widths", "vgg.picture"}, picture_has_room},
                    {{"data.mean", "vgg.picture"},
                     [](const Config& c) {
                       return numbers_are_of_channels(c, "data.mean", c.vgg.mean);
                     }},
                    {{"data.deviation", "vgg.picture"},
                     [](const Config& c) {
                       return numbers_are_of_channels(c, "data.deviation", c.vgg.deviation);
                     }}},
          .labels_key = "vgg.num_classes",
          .picture_key = "vgg.picture",
          .size_key = vgg_size_key,
          .example_file = "configs/vgg-tiny.yaml"};
}

}  // namespace fourfold::config
