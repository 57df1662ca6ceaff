// What a rank sends in a training step of a VGG, against formulas: those of AxoNN (Singh et al.
// 2024, eqs 4 to 8), with channels for k and n and a place of a picture for a token, and derived
// ones for everything else. All in whole numbers, without tolerance.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "program/traffic.h"
#include "unit/compile/grid_setup.h"
#include "unit/compile/traffic_forms.h"

namespace fourfold::compile {
namespace {

/// A convolution or linear layer of a VGG: channels, and how many places a sample has before and
/// after it.
struct Layer {
  std::string name;
  std::int64_t k, n, places_before, places_after, kernel = 1;
  std::int64_t weight() const { return kernel * k * n; }
};

GridSetup pictures_for(const plan::Grid& grid) {
  GridSetup setup;
  setup.vgg = model::VggSpec{.widths = {144, 0, 144, 288, 0},
                             .hidden = {432, 144},
                             .picture = {8, 8, 3},
                             .num_classes = 101,
                             .dropout = 0};
  setup.plan.seq_length = 1;
  setup.plan.micro_batch_size = 2;
  setup.set_grid(grid, 3);
  return setup;
}
const std::vector<Layer> layers_of_pictures = {{"conv.0", 3, 144, 64, 64, 9},
                                               {"conv.1", 144, 144, 16, 16, 9},
                                               {"conv.2", 144, 288, 16, 16, 9},
                                               {"linear.0", 4 * 288, 432, 1, 1},
                                               {"linear.1", 432, 144, 1, 1}};
/// The gradient of what a layer reads counts as the layer's; so does what it reads, where it is
/// gathered.
const std::map<std::string, std::string> layer_of_tensor = {{"conv.0.weight", "conv.0"},
                                                            {"conv.0", "conv.0"},
                                                            {"conv.1.weight", "conv.1"},
                                                            {"conv.1", "conv.1"},
                                                            {"pool.0", "conv.1"},
                                                            {"pool.0/grad", "conv.1"},
                                                            {"conv.2.weight", "conv.2"},
                                                            {"conv.2", "conv.2"},
                                                            {"conv.1.relu/grad", "conv.2"},
                                                            {"linear.0.weight", "linear.0"},
                                                            {"linear.0", "linear.0"},
                                                            {"pool.1/grad", "linear.0"},
                                                            {"linear.1.weight", "linear.1"},
                                                            {"linear.1", "linear.1"},
                                                            {"linear.0.relu/grad", "linear.1"}};

// A convolution sends what a linear layer of its channels does, a place of a picture being what a
// token is there; its kernel counts for the weight alone. The first one has no gradient of its
// input. Where y does not divide the 3 channels of a picture, its output is not reduced: it is cut
// on y too, gathered for the next one, and its gradient scattered, which is that one's all-reduce
// of eq 7 in two halves.
TEST(Axonn, every_convolution_sends_what_equations_4_to_8_say_of_its_channels) {
  auto grids = grids_of({1, 2, 3, 4}, 36);
  std::erase_if(grids, [](const plan::Grid& g) { return 144 % (g.x * g.y * g.z) != 0; });
  EXPECT_GE(grids.size(), 100U);
  std::printf("AxoNN, equations 4 to 8, of a VGG: %zu grids\n", grids.size());
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(text_of(grid));
    const GridSetup setup = pictures_for(grid);
    const std::int64_t element = size_bytes(setup.plan.compute), micros = 3,
                       samples = setup.plan.micro_batch_size;
    std::map<std::string, ByAxis> expected;
    bool is_transposed = false;
    for (const Layer& layer : layers_of_pictures) {
      const bool is_first = layer.name == "conv.0";
      const std::int64_t of_k = is_transposed ? grid.x : grid.y,
                         of_n = is_transposed ? grid.y : grid.x;
      const std::string axis_of_k = is_transposed ? "x" : "y",
                        axis_of_n = is_transposed ? "y" : "x";
      const auto add = [&](const std::string& axis, std::int64_t times, std::int64_t ranks,
                           std::int64_t passes, std::int64_t elements, std::int64_t parts) {
        const Parts sent = times * ring(ranks, passes, exact(elements, parts) * element);
        if (sent != 0) expected[layer.name][axis] += sent;
      };
      const std::int64_t in_use = grid.x * grid.y, data = grid.data;
      add("z", micros, grid.z, 2, layer.weight(), in_use);       // eqs 4 and 5
      add("data", 1, data, 2, layer.weight(), in_use * grid.z);  // eq 8
      if (!is_first || layer.k % of_k == 0)                      // eq 6
        add(axis_of_k, micros, of_k, 2, samples * layer.places_after * layer.n, of_n);
      if (!is_first)  // eq 7
        add(axis_of_n, micros, of_n, 2, samples * layer.places_before * layer.k, of_k);
      is_transposed = !is_transposed;
    }
    EXPECT_EQ(sent_for_layers(setup.train(), layer_of_tensor), expected);
  }
}

// --- everything else that is sent

/// What a VGG sends beside its convolutions and hidden layers, whose outputs are cut on x and y in
/// turn, the last one's on x.
class PictureFormulas {
 public:
  explicit PictureFormulas(const GridSetup& setup) : setup_(setup) {
    head();
    biases();
    loss();
    update();
  }
  ByClass result;

 private:
  static constexpr std::int64_t micros = 3, inputs = 144, classes = 101;

  std::int64_t g(const std::string& axis) const {
    const plan::Grid& grid = setup_.plan.grid;
    return axis == "x" ? grid.x : axis == "y" ? grid.y : axis == "z" ? grid.z : grid.data;
  }
  void add(const std::string& label, const std::string& axis, std::int64_t passes,
           std::int64_t elements, std::int64_t bytes) {
    const Parts sent = ring(g(axis), passes, elements * bytes);
    if (sent != 0) result[label][axis] += sent;
  }
  /// An all-reduce along all of these axes at once.
  void sum(const std::string& label, const std::vector<std::string>& axes, std::int64_t elements,
           std::int64_t bytes) {
    const Together all = together(axes, [&](const std::string& axis) { return g(axis); });
    const Parts sent = ring(all.ranks, 2, elements * bytes);
    if (sent != 0) result[label][all.axes] += sent;
  }
  std::int64_t element() const { return size_bytes(setup_.plan.compute); }
  std::int64_t samples() const { return setup_.plan.micro_batch_size; }
  std::int64_t padded_classes() const {
    const std::int64_t parts = g("x") * g("y");
    return (classes + parts - 1) / parts * parts;
  }

  /// Classes on x and y: the input is gathered on x; its gradient, partial on both, is scattered to
  /// x and reduced on y. The weight is gathered on z in every micro-batch, its gradient scattered.
  void head() {
    const std::int64_t width = samples() * inputs,
                       weight = exact(inputs * padded_classes(), g("x") * g("y"));
    add("input of the head", "x", 2, micros * width, element());
    add("input of the head", "y", 2, micros * exact(width, g("x")), element());
    add("head", "z", 2, micros * weight, element());
    add("head", "data", 2, exact(weight, g("z")), element());
  }

  /// Cut as what it is added to: summed over data and z, then gathered, once in a step. Where y
  /// does not divide the 3 channels of a picture, the first convolution's output is cut on y too.
  void biases() {
    const std::vector<std::string> first =
        3 % g("y") == 0 ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "y"};
    bias(144, first);
    bias(144, {"y"});
    bias(288, {"x"});
    bias(432, {"y"});
    bias(144, {"x"});
    // The sum of the classes lies cut, so it is not gathered.
    sum("bias", {"data", "z"}, exact(padded_classes(), g("x") * g("y")), element());
  }
  void bias(std::int64_t width, const std::vector<std::string>& cuts) {
    for (const std::string& axis : cuts) width = exact(width, g(axis));
    sum("bias", {"data", "z"}, width, element());
    for (std::size_t i = cuts.size(); i-- > 0;)
      add("bias", cuts[i], 1, width *= g(cuts[i]), element());
  }

  /// Three numbers a sample over the parts of the classes; two over those of the batch.
  void loss() {
    sum("loss", {"y", "x"}, micros * 3 * samples(), element());
    sum("loss", {"data", "z"}, 2, 8);
  }

  /// The votes of all ranks; the squared norm and the number of elements that are not finite of
  /// what is cut on x, y and z, and of the bias of the classes, which z does not cut.
  void update() {
    sum("update", {"data", "z", "y", "x"}, 1, 8);
    sum("update", {"z", "y", "x"}, 2, 8);
    if (g("z") > 1) sum("update", {"y", "x"}, 2, 8);
  }

  const GridSetup& setup_;
};

// There is no strided convolution in a VGG; pooling, which has a stride, sends nothing of its own.
TEST(Traffic, of_a_vgg_follows_its_formulas_on_every_grid) {
  auto grids = grids_of({1, 2, 3, 4}, 36);
  std::erase_if(grids, [](const plan::Grid& g) { return 144 % (g.x * g.y * g.z) != 0; });
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(text_of(grid));
    const GridSetup setup = pictures_for(grid);
    ByClass sent = sent_by_class(setup.train());
    for (const char* of_layers : {"conv", "linear", "pool"}) sent.erase(of_layers);
    const std::string input = "input of the head";  // which the last hidden layer makes
    sent.merge(
        sent_for_layers(setup.train(), {{"linear.1.relu", input}, {"linear.1.relu/grad", input}}));
    EXPECT_EQ(sent, PictureFormulas(setup).result);
  }
  std::printf("formulas of all other classes of a VGG: %zu grids\n", grids.size());
}

}  // namespace
}  // namespace fourfold::compile
