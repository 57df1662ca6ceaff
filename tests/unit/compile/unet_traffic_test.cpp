// What a rank sends in a training step of a U-Net, against formulas: those of AxoNN (Singh et al.
// 2024, eqs 4 to 8), with channels for k and n and a place of a picture for a token, and derived
// ones for everything else. All in whole numbers, without tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/traffic.h"
#include "support/long_run.h"
#include "unit/compile/grid_setup.h"
#include "unit/compile/traffic_forms.h"

namespace fourfold::compile {
namespace {

/// Two levels, with a skip of other channels than what is read with it.
GridSetup diffusion_for(const plan::Grid& grid) {
  GridSetup setup;
  setup.unet = model::UnetSpec{.picture = {8, 8, 3},
                               .channels = 32,
                               .channel_mult = {1, 2},
                               .layers_per_level = 1,
                               .attention_resolutions = {4},
                               .num_heads = 16,
                               .norm_groups = 16,
                               .num_classes = 10,
                               .diffusion = {.steps = 10, .learn_sigma = true, .sampling = {}}};
  setup.plan.seq_length = 1;
  setup.plan.micro_batch_size = 2;
  setup.set_grid(grid, 3);
  return setup;
}

// A U-Net has more kinds of layers than a VGG (1 x 1 and strided convolutions, sums of products for
// what others concatenate, products that tell the time); for each weight of any of them it sends
// what the equations say of k n elements.
TEST(Axonn, every_weight_of_a_unet_sends_what_equations_4_5_and_8_say) {
  const auto grids = grids_of({1, 2, 4}, 32);
  std::size_t weights = 0;
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(text_of(grid));
    const GridSetup setup = diffusion_for(grid);
    constexpr std::int64_t micros = 3;
    const std::int64_t element = size_bytes(setup.plan.compute), in_use = grid.x * grid.y;
    std::map<std::string, std::string> own;
    std::map<std::string, ByAxis> expected;
    const graph::ModelGraphs model = setup.graphs();
    for (const graph::Value& value : model.at(op::ProgramKind::train).values) {
      if (value.role != graph::ValueRole::parameter ||
          value.name.find(".weight") == std::string::npos)
        continue;
      own[value.name] = value.name;
      const std::int64_t count = value.shape.elements();
      const auto add = [&](const std::string& axis, std::int64_t times, std::int64_t ranks,
                           std::int64_t parts) {
        const Parts sent = times * ring(ranks, 2, exact(count, parts) * element);
        if (sent != 0) expected[value.name][axis] += sent;
      };
      add("z", micros, grid.z, in_use);            // eqs 4 and 5
      add("data", 1, grid.data, in_use * grid.z);  // eq 8
    }
    weights = own.size();
    EXPECT_EQ(sent_for_layers(setup.train(), own), expected);
  }
  std::printf("AxoNN, equations 4, 5 and 8, of %zu weights of a U-Net: %zu grids\n", weights,
              grids.size());
}

// --- everything that is sent

/// Degrees up to 4 divide the channels; 3 does not divide the 16 groups, 8 not the 36 heads,
/// neither 3 nor 4 the 10 classes.
GridSetup told_of_classes(const plan::Grid& grid) {
  GridSetup setup = diffusion_for(grid);
  setup.unet->channels = 144;
  setup.unet->num_heads = 36;
  setup.unet->class_conditional = true;
  return setup;
}

/// Walks over the blocks of a U-Net. The channels that a layer reads are cut on y or on x; along
/// this axis it contracts them, and what it gives is cut on the other one.
class UnetFormulas {
 public:
  explicit UnetFormulas(const GridSetup& setup)
      : setup_(setup),
        spec_(*setup.unet),
        element_(size_bytes(setup.plan.compute)),
        accumulate_(size_bytes(accumulation_type(setup.plan.compute))) {
    told_of_time();
    Picture h = way_down(first_convolution());
    h = attention(residual({h}, h.channels));
    h = residual({h}, h.channels);
    last_convolution(way_up(h));
    loss();
    update();
  }
  ByClass result;

 private:
  using AxisNames = std::vector<std::string>;

  /// What a layer reads or gives.
  struct Picture {
    std::int64_t places, channels;  // of a sample, on all ranks
    AxisNames cuts;                 // of the channels, the outer one first
    std::string label;              // of it and of its gradient
    bool is_gathered = false;       // along the inner of two cuts, once for all readers

    /// The axis along which a layer contracts it.
    const std::string& k() const { return cuts.front(); }
    bool is_cut_twice() const { return cuts.size() == 2; }
    std::int64_t numbers() const { return places * channels; }
  };
  using Pictures = std::vector<Picture>;

  static constexpr std::int64_t micros = 3, reduce_scatter = 1, all_gather = 1, all_reduce = 2;
  static std::string other(const std::string& axis) { return axis == "x" ? "y" : "x"; }

  // --- what is sent

  std::int64_t g(const std::string& axis) const {
    const plan::Grid& grid = setup_.plan.grid;
    return axis == "x" ? grid.x : axis == "y" ? grid.y : axis == "z" ? grid.z : grid.data;
  }
  /// What a rank has of so many elements.
  std::int64_t share(std::int64_t elements, const AxisNames& cuts) const {
    for (const std::string& axis : cuts) elements = exact(elements, g(axis));
    return elements;
  }
  /// Along all of these axes at once.
  void send(const std::string& label, const AxisNames& axes, std::int64_t passes,
            std::int64_t times, std::int64_t bytes) {
    const Together all = together(axes, [&](const std::string& axis) { return g(axis); });
    const Parts sent = times * ring(all.ranks, passes, bytes);
    if (sent != 0) result[label][all.axes] += sent;
  }
  /// So many numbers of each sample, in every micro-batch.
  void activation(const std::string& label, const AxisNames& axes, std::int64_t passes,
                  std::int64_t numbers) {
    send(label, axes, passes, micros, setup_.plan.micro_batch_size * numbers * element_);
  }
  /// Sums that are cut on these axes become whole, the inner cut first.
  void gather(const std::string& label, AxisNames cuts, std::int64_t times, std::int64_t elements) {
    while (!cuts.empty()) {
      const std::string axis = cuts.back();
      cuts.pop_back();
      send(label, {axis}, all_gather, times, share(elements, cuts) * accumulate_);
    }
  }
  /// Eqs 4, 5 and 8: x and y cut what is used of a weight of any shape, z what is kept of that.
  void weight(const std::string& label, std::int64_t elements) {
    const std::int64_t used = share(elements, {"x", "y"});
    send(label, {"z"}, all_gather, micros, used * element_);
    send(label, {"z"}, reduce_scatter, micros, used * accumulate_);
    send(label, {"data"}, all_reduce, 1, share(used, {"z"}) * accumulate_);
  }
  /// A bias or gain: its gradient, cut as what it is added to, is summed over data and z and then
  /// gathered, once in a step.
  void small(const std::string& label, std::int64_t width, const AxisNames& cuts) {
    send(label, {"data", "z"}, all_reduce, 1, share(width, cuts) * accumulate_);
    gather(label, cuts, 1, width);
  }

  // --- layers

  /// Eq 7, for what a layer reads. What is cut twice is gathered for its readers, and its gradient
  /// is scattered: the all-reduce in two halves.
  void read(Picture& x) {
    const std::string n = other(x.k());
    const std::int64_t numbers = share(x.numbers(), {x.k()});
    activation(x.label, {n}, x.is_cut_twice() ? reduce_scatter : all_reduce, numbers);
    gather_for_readers(x);
  }
  void gather_for_readers(Picture& x) {
    if (x.is_cut_twice() && !std::exchange(x.is_gathered, true))
      activation(x.label, {x.cuts[1]}, all_gather, share(x.numbers(), {x.cuts[0]}));
  }

  /// The sum of a convolution for each of what it reads, cut as the first one gives it. Eq 6 holds
  /// for each, because a product is reduced before it is added; where another one lies on the other
  /// axis it is gathered there and sliced.
  Picture convolution(const std::string& label, Pictures reads, std::int64_t width,
                      std::int64_t kernel = 9, std::int64_t stride = 1) {
    const Picture given{
        exact(reads[0].places, stride * stride), width, {other(reads[0].k())}, label};
    for (Picture& x : reads) {
      const std::string n = other(x.k());
      weight(label, kernel * x.channels * width);
      activation(label, {x.k()}, all_reduce, share(given.numbers(), {n}));  // eq 6
      if (n != given.k()) activation(label, {n}, all_gather, given.numbers());
      read(x);
    }
    return given;
  }

  /// Moments, two numbers for each channel of a sample, are gathered; the gradients of statistics,
  /// two for each group of all parts, are summed up, those of each part on its own.
  Pictures norm(Pictures parts) {
    const std::int64_t samples = setup_.plan.micro_batch_size;
    for (Picture& x : parts) {
      gather("norm", x.cuts, micros, 2 * x.channels * samples);
      const AxisNames axes = x.is_cut_twice() ? AxisNames{"y", "x"} : x.cuts;
      send("norm", axes, all_reduce, micros, 2 * spec_.norm_groups * samples * accumulate_);
      for (int i = 0; i < 2; ++i) small("norm", x.channels, x.cuts);  // gain and bias
      x = {x.places, x.channels, x.cuts, "norm"};
    }
    return parts;
  }

  /// What of the time a block is told: cut on x, because the times of all blocks are cut on y.
  /// Where the pictures lie on y, it is gathered on x and its gradient on y, and both are sliced.
  void time_of_block(const Picture& h) {
    const std::int64_t width = (spec_.scale_shift_norm ? 2 : 1) * h.channels;
    linear(told(), width, "y");
    activation("time", {"x"}, all_reduce, share(told(), {"y"}));  // eq 7
    if (h.k() == "x") return;
    activation("time", {"x"}, all_gather, width);
    activation("time", {"y"}, all_gather, width);
  }

  /// The residual block's sum is cut as its shortcut, the first term. A shortcut with a convolution
  /// lies as what the first of the block gives; the second gives the other axis, so that its output
  /// is gathered and sliced, and so is the sum's gradient, for it and for the shortcut's parts.
  Picture residual(const Pictures& reads, std::int64_t width) {
    Picture h = convolution("conv", norm(reads), width);
    small("bias", width, h.cuts);
    if (!spec_.scale_shift_norm) h.label = "time";  // which is added
    // The gradient of a sum of parts that lie on both axes is needed on both.
    if (reads.back().k() != reads[0].k()) activation(h.label, {h.k()}, all_gather, h.numbers());
    time_of_block(h);
    const Picture second = convolution("conv", norm({h}), width);
    Picture sum = second;
    if (reads.size() == 1 && reads[0].channels == width) {
      sum.cuts = reads[0].cuts;
      gather_gradient(sum);
    } else {
      sum = convolution("conv", reads, width, 1);
      small("bias", width, sum.cuts);
      activation("conv", second.cuts, all_gather, sum.numbers());
      activation("conv", sum.cuts, all_gather, sum.numbers());
    }
    small("bias", width, sum.cuts);
    return sum;
  }
  /// What is added to something that is cut twice is sliced, and the sum's gradient gathered.
  void gather_gradient(const Picture& sum) {
    if (sum.is_cut_twice())
      activation(sum.label, {sum.cuts[1]}, all_gather, share(sum.numbers(), {sum.cuts[0]}));
  }

  /// As in a GPT: heads are cut on both axes, so the all-reduces of the output of queries, keys and
  /// values and of the gradient of the last layer's input (eqs 6 and 7) are halved into a
  /// reduce-scatter before the core and an all-gather after it.
  Picture attention(const Picture& x) {
    const std::string label = "attention", k = x.k(), n = other(k);
    const std::int64_t width = x.channels, numbers = share(x.numbers(), {n});
    Picture h = norm({x})[0];
    weight(label, width * 3 * width);
    activation(label, {k}, reduce_scatter, 3 * numbers);  // queries, keys, values
    read(h);
    bias_of_heads(3 * width, k, n);
    activation(label, {k}, all_gather, numbers);  // output of the core
    weight(label, width * width);
    activation(label, {n}, all_reduce, share(x.numbers(), {k}));  // eq 6
    activation(label, {k}, reduce_scatter, numbers);              // gradient of the core's output
    activation(label, {k}, all_gather, 3 * numbers);              // of its input
    const Picture sum{x.places, width, x.cuts, label};
    gather_gradient(sum);
    small("bias", width, x.cuts);
    return sum;
  }
  /// Where there are too few heads for both axes, k cuts samples, or the core is repeated along it.
  /// Either sends as many bytes, but for this bias.
  void bias_of_heads(std::int64_t width, const std::string& k, const std::string& n) {
    if (share(spec_.num_heads, {n}) % g(k) == 0) return small("bias", width, {n, k});
    AxisNames axes = {"data", "z"};
    if (setup_.plan.micro_batch_size % g(k) == 0) axes.push_back(k);
    send("bias", axes, all_reduce, 1, share(width, {n}) * accumulate_);
    gather("bias", {n}, 1, width);
  }

  // --- the model

  /// The width of what blocks are told.
  std::int64_t told() const { return 4 * spec_.channels; }

  void linear(std::int64_t k, std::int64_t n, const std::string& axis_of_k) {
    weight("time", k * n);
    activation("time", {axis_of_k}, all_reduce, share(n, {other(axis_of_k)}));  // eq 6
    small("bias", n, {other(axis_of_k)});
  }

  /// The product with the one-hot classes is partial on x and y, of which y cuts it afterwards; its
  /// gradient is gathered on y, because the table, padded for x, y and z, is not cut there.
  void told_of_time() {
    linear(spec_.channels, told(), "y");
    linear(told(), told(), "x");
    activation("time", {"y"}, all_reduce, share(told(), {"x"}));  // eq 7
    if (!spec_.class_conditional) return;
    const std::int64_t ranks = g("x") * g("y") * g("z");
    weight("time", (spec_.num_classes + ranks - 1) / ranks * ranks * told());
    activation("time", {"y"}, reduce_scatter, told());
    activation("time", {"x"}, all_reduce, share(told(), {"y"}));
    activation("time", {"y"}, all_gather, told());
  }

  /// Its input has no gradient. Where y does not divide the 3 channels of a picture, all of them
  /// are read and the output is cut on y too; so is what is added to it.
  Picture first_convolution() {
    const std::int64_t colours = spec_.picture[2];
    Picture h{spec_.picture[0] * spec_.picture[1], spec_.channels, {"x"}, "conv"};
    weight("conv", 9 * colours * h.channels);
    if (colours % g("y") == 0)
      activation("conv", {"y"}, all_reduce, share(h.numbers(), {"x"}));  // eq 6
    else
      h.cuts = {"x", "y"};
    small("bias", h.channels, h.cuts);
    return h;
  }

  Picture way_down(Picture h) {
    keep(h);
    for (std::size_t level = 0; level < spec_.channel_mult.size(); ++level) {
      const std::int64_t width = spec_.channels * spec_.channel_mult[level];
      for (std::int64_t i = 0; i < spec_.layers_per_level; ++i) keep(h = layer({h}, width));
      if (level + 1 < spec_.channel_mult.size()) keep(h = halve(h));
    }
    return h;
  }
  /// A convolution of the way up reads it, and perhaps one of the way down.
  void keep(Picture& h) {
    gather_for_readers(h);
    skips_.push_back(h);
  }
  Picture way_up(Picture h) {
    for (std::size_t level = spec_.channel_mult.size(); level-- > 0;) {
      const std::int64_t width = spec_.channels * spec_.channel_mult[level];
      for (std::int64_t i = 0; i <= spec_.layers_per_level; ++i) {
        h = layer({h, skips_.back()}, width);
        skips_.pop_back();
      }
      if (level > 0) h = twice(h);
    }
    return h;
  }
  Picture layer(const Pictures& reads, std::int64_t width) {
    const Picture h = residual(reads, width);
    const bool has_attention = std::ranges::any_of(
        spec_.attention_resolutions, [&](std::int64_t side) { return side * side == h.places; });
    return has_attention ? attention(h) : h;
  }
  /// Pooling and repeating send nothing.
  Picture halve(const Picture& h) {
    if (!spec_.resample_with_convolution)
      return {exact(h.places, 4), h.channels, h.cuts, "resample"};
    small("bias", h.channels, {other(h.k())});
    return convolution("resample", {h}, h.channels, 9, 2);
  }
  Picture twice(const Picture& h) {
    const Picture repeated{4 * h.places, h.channels, h.cuts, "resample"};
    if (!spec_.resample_with_convolution) return repeated;
    small("bias", h.channels, {other(h.k())});
    return convolution("resample", {repeated}, h.channels);
  }

  /// The noise and its variance, which the loss reads whole: gathered where the axis divides these
  /// few channels. Where it does not, both axes cut what is contracted: the product is reduced
  /// along both at once, and the input's gradient is gathered.
  void last_convolution(const Picture& last) {
    Picture h = norm({last})[0];
    const std::string n = other(h.k());
    const std::int64_t channels = spec_.picture[2] * (spec_.diffusion.learn_sigma ? 2 : 1),
                       numbers = h.places * channels;
    weight("conv", 9 * h.channels * channels);
    if (channels % g(n) == 0) {
      activation("conv", {h.k()}, all_reduce, share(numbers, {n}));  // eq 6
      activation("conv", {n}, all_gather, numbers);
      read(h);
      small("bias", channels, {n});
    } else {
      activation("conv", {"y", "x"}, all_reduce, numbers);
      activation("norm", {n}, all_gather, share(h.numbers(), {h.k()}));
      small("bias", channels, {});
    }
  }

  /// The sum of the losses and the number of samples, 8 bytes each, once.
  void loss() { send("loss", {"data", "z"}, all_reduce, 1, 2 * 8); }

  /// The votes of all ranks; the squared norm and the number of elements that are not finite of all
  /// weights, which x, y and z cut; what is whole on all ranks is not summed up.
  void update() {
    send("update", {"data", "z", "y", "x"}, all_reduce, 1, 8);
    send("update", {"z", "y", "x"}, all_reduce, 1, 2 * 8);
  }

  const GridSetup& setup_;
  const model::UnetSpec& spec_;
  std::int64_t element_, accumulate_;  // bytes
  Pictures skips_;                     // what the way up reads
};

void expect_unet_formulas(const GridSetup& setup) {
  SCOPED_TRACE(text_of(setup.plan.grid));
  EXPECT_EQ(sent_by_class(setup.train()), UnetFormulas(setup).result);
}

/// Every fifth grid; with FOURFOLD_LONG all of them. No axis has five sizes.
std::vector<plan::Grid> thinned(std::vector<plan::Grid> grids) {
  std::size_t number = 0;
  if (!is_long_run()) std::erase_if(grids, [&](const plan::Grid&) { return number++ % 5 != 0; });
  return grids;
}

TEST(Traffic, of_a_unet_follows_its_formulas_on_every_grid) {
  auto grids = grids_of({1, 2, 3, 4}, 36);
  std::erase_if(grids, [](const plan::Grid& g) { return 144 % (g.x * g.y * g.z) != 0; });
  EXPECT_GE(grids.size(), 100U);
  grids = thinned(grids);
  for (const plan::Grid& grid : grids) expect_unet_formulas(told_of_classes(grid));
  std::printf("formulas of all classes of a U-Net: %zu grids\n", grids.size());
}

// Three levels that are pooled and repeated, attention on the way down from the first level on, two
// blocks a level, a time that is added, no classes, no variance, and bf16 beside sums in float32.
TEST(Traffic, of_a_unet_without_convolutions_between_levels_follows_its_formulas) {
  const auto grids = thinned(grids_of({1, 2, 4}, 8));
  for (const plan::Grid& grid : grids) {
    GridSetup setup = diffusion_for(grid);
    setup.plan.compute = DType::bf16;
    setup.unet->channel_mult = {1, 2, 2};
    setup.unet->layers_per_level = 2;
    setup.unet->attention_resolutions = {8, 4};
    setup.unet->scale_shift_norm = false;
    setup.unet->resample_with_convolution = false;
    setup.unet->diffusion.learn_sigma = false;
    expect_unet_formulas(setup);
  }
  std::printf("formulas of all classes of another U-Net: %zu grids\n", grids.size());
}

}  // namespace
}  // namespace fourfold::compile
