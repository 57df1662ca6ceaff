// T = 4 time, C = 8 channels, P = 4 blocks of channels, H = 4 heads, D = 2 head width, F = 8 ffn
// width, V = 11 vocabulary; two samples for each (data, z).
#include <algorithm>

#include "base/format.h"
#include "base/random.h"
#include "program/builder.h"
#include "program/jobs.h"

namespace fourfold::program {
namespace {

constexpr std::int64_t T = 4, C = 8, P = 4, H = 4, D = 2, F = 8, V = 11;
constexpr Kind parameter{BufferRole::parameter, DType::f32};
constexpr Kind moment{BufferRole::moment, DType::f32};
constexpr Kind gradient{BufferRole::gradient, DType::f32};
constexpr Kind activation{BufferRole::activation, DType::f32};
constexpr Kind ids{BufferRole::feed, DType::i32};
constexpr Kind number{BufferRole::activation, DType::f64};
const std::string samples = "data,z";

struct Weight {
  std::string name;
  Shape shape;
  std::vector<std::string> cuts;  // at rest
  std::vector<std::string> used;  // gathered along z
};

std::vector<Weight> weights() {
  return {{"qkv", {C, 3, H, D}, {"y,z", "", "x", ""}, {"y", "", "x", ""}},
          {"out", {H, D, C}, {"x,z", "", "y"}, {"x", "", "y"}},
          {"up", {C, F}, {"y,z", "x"}, {"y", "x"}},
          {"down", {F, C}, {"x,z", "y"}, {"x", "y"}},
          {"head", {C, V}, {"y,z", "x"}, {"y", "x"}},
          {"gain", {C}, {"y"}, {"y"}},
          {"bias", {C}, {"y"}, {"y"}},
          {"up.bias", {F}, {"x"}, {"x"}},
          {"positions", {T + 2, C}, {"", "y"}, {"", "y"}},
          {"embedding", {V, C}, {"x", "y"}, {"x", "y"}}};
}
bool is_gathered(const Weight& w) {
  return w.cuts != w.used;
}

class GridProgram {
 public:
  GridProgram(op::ProgramKind kind, Rank rank, const Grid& grid, const Mesh& mesh,
              std::int64_t micros)
      : grid_(grid), micros_(micros), b(kind, rank, mesh, {"math", "feed", "data", "z", "y", "x"}) {
    b.serialize();
    for (const Axis& axis : mesh.axes) b.group({axis.name});
    b.blocks();
    for (const Weight& w : weights()) {
      b.buffer(w.name, w.shape, parameter, w.cuts);
      b.buffer("m." + w.name, w.shape, moment, moment_cuts(w));
      b.buffer("v." + w.name, w.shape, moment, moment_cuts(w));
    }
    b.buffer("updates", {}, {BufferRole::counter, DType::i64});
    b.buffer("non_finite", {}, {BufferRole::counter, DType::i64});
  }

  Program init() {
    b.task(TaskKind::init);
    for (const Weight& w : weights()) {
      for (const std::string& name : {w.name, "m." + w.name, "v." + w.name}) {
        const Shape local = b.program.local_shape(*b.program.find_buffer(name));
        if (name == w.name && w.shape.rank() > 1)
          b.op("math", op::InitNormal{random_stream(name), 0.02, local, b.window(name)},
               {"step.seed", name});
        else
          b.op("math", op::Fill{0, local}, {name});
      }
    }
    for (const std::string counter : {"updates", "non_finite"})
      b.op("math", op::Fill{0, {}}, {counter}, DType::i64);
    return b.finish();
  }

  /// The gather of one parameter cut at rest, and of this rank's block of another one.
  Program digest() {
    b.buffer("digest.up", {}, {BufferRole::output, DType::u64});
    b.buffer("digest.gain", {}, {BufferRole::output, DType::u64});
    b.buffer("gain.own", {C}, activation, {"y,x"});
    b.task(TaskKind::digest);
    b.op("math", op::Digest{random_stream("up"), b.window("up")}, {"up", "digest.up"});
    for (const std::string_view axis : {"z", "y", "x"}) b.all_reduce(axis, "digest.up");
    const Slice own = b.slice("gain.own");
    const std::int64_t element = size_bytes(DType::f32);
    b.add("math",
          Copy{{*b.program.find_buffer("gain"),
                (b.first("gain.own", 0) - b.first("gain", 0)) * element, 1, own.row_bytes, 0},
               own});
    b.op("math", op::Digest{random_stream("gain"), b.window("gain.own")},
         {"gain.own", "digest.gain"});
    for (const std::string_view axis : {"y", "x"}) b.all_reduce(axis, "digest.gain");
    return b.finish();
  }

  Program train() {
    add_activations();
    add_gradients();
    b.program.feeds = {micros_, S, b.first("tokens", 0), 2};
    for (micro_ = 0; micro_ < micros_; ++micro_) {
      b.task(TaskKind::forward, micro_);
      embed();
      attend();
      feed_forward();
      loss();
      b.task(TaskKind::backward, micro_);
      head_backward();
      feed_forward_backward();
      attention_backward();
      embedding_backward();
    }
    b.task(TaskKind::gradient_sync);
    sync();
    b.task(TaskKind::update);
    norms();
    update();
    return b.finish();
  }

 private:
  /// Rows of the embedding that one x holds; where data divides them, each data has its own.
  std::int64_t rows() const { return (V + grid_.x - 1) / grid_.x; }
  bool is_own(const Weight& w) const {
    return w.name == "embedding" && grid_.data > 1 && rows() % grid_.data == 0;
  }
  std::vector<std::string> moment_cuts(const Weight& w) const {
    if (!is_own(w)) return w.cuts;
    return {format("x:{},data:{}", rows(), rows() / grid_.data), "y"};
  }

  void add_activations() {
    for (const std::string_view name : {"tokens", "labels"})
      b.buffer(name, {S, T}, ids, {samples, ""});
    for (const Weight& w : weights())
      if (is_gathered(w)) b.buffer(w.name + ".full", w.shape, activation, w.used);
    for (const std::string_view name :
         {"i", "x0", "h", "o.sum", "r", "d", "y", "y_grad", "r_grad", "h_grad", "i_grad"})
      b.buffer(name, {S, T, C}, activation, {samples, "", "y"});
    b.buffer("moments", {P, S, T, 2}, activation, {"y", samples, "", ""});
    b.buffer("moments.full", {P, S, T, 2}, activation, {"", samples, "", ""});
    for (const std::string_view name :
         {"mean", "rstd", "max", "sum_exp", "label_logit", "token_loss", "lse.loss"})
      b.buffer(name, {S, T}, activation, {samples, ""});
    b.buffer("sums", {S, T, 2}, activation, {samples, "", ""});
    for (const std::string_view name : {"qkv.x", "qkv_grad.x"})
      b.buffer(name, {S, T, 3, H, D}, activation, {samples, "", "", "x", ""});
    for (const std::string_view name : {"qkv.packed", "qkv_grad.packed"})
      b.blocked(name, {S, T, 3, H, D}, activation, {samples, "", "", "x", ""}, 3, "y");
    for (const std::string_view name : {"qkv.xy", "qkv_grad.xy"})
      b.buffer(name, {S, T, 3, H, D}, activation, {samples, "", "", "x,y", ""});
    for (const std::string_view name : {"o.x", "o_grad.x"})
      b.buffer(name, {S, T, H, D}, activation, {samples, "", "x", ""});
    for (const std::string_view name : {"o.packed", "o_grad.packed"})
      b.blocked(name, {S, T, H, D}, activation, {samples, "", "x", ""}, 2, "y");
    for (const std::string_view name : {"o.xy", "o_grad.xy"})
      b.buffer(name, {S, T, H, D}, activation, {samples, "", "x,y", ""});
    b.buffer("lse", {S, H, T}, activation, {samples, "x,y", ""});
    for (const std::string_view name : {"u", "a", "a_grad"})
      b.buffer(name, {S, T, F}, activation, {samples, "", "x"});
    b.buffer("logits", {S, T, V}, activation, {samples, "", "x"});
    for (const std::string_view name : {"norm.zyx", "norm.y", "norm.x", "norm.rows"})
      b.buffer(name, {}, number);
    for (const std::string_view name : {"count.zyx", "count.y", "count.x", "count.rows"})
      b.buffer(name, {}, {BufferRole::activation, DType::i64});
  }

  void add_gradients() {
    for (const Weight& w : weights()) {
      b.buffer("g." + w.name, w.shape, gradient, w.used);
      if (is_gathered(w) || is_own(w)) b.buffer("own." + w.name, w.shape, gradient, moment_cuts(w));
    }
  }

  op::SampleWindow window() const { return {micro_, S, b.first("tokens", 0)}; }
  op::Dropout dropout() const {
    return {random_stream("dropout"), 0.1, window(), b.window("i", 1)};
  }
  template <class Row>
  Row attention() const {
    return {random_stream("attention"), 0.1, window(), b.first("qkv.xy", 3), H};
  }
  void contract(op::Contract op, std::string_view a, std::string_view with, std::string_view out) {
    b.op("math", op, {a, with, out});
  }
  /// Gradient of a weight: a product over all rows, added up over micro-batches.
  void weight_gradient(std::string_view a, std::string_view out_grad, std::string_view to) {
    contract({2, 2, true, false, micro_ > 0}, a, out_grad, to);
  }
  void gather(const std::string& name) { b.all_gather("z", name, name + ".full"); }

  void embed() {
    b.feed(micro_, "tokens");
    b.feed(micro_, "labels");
    b.op("math", op::Embedding{b.first("embedding", 0)}, {"tokens", "embedding", "i"});
    b.all_reduce("x", "i");
    b.op("math", op::AddPositions{}, {"i", "positions", "i"});
    b.op("math", dropout(), {"i", "step.seed", "step.step", "x0"});
    b.op("math", op::LayerNormMoments{b.local("moments", 0)}, {"x0", "moments"});
    b.all_gather("y", "moments", "moments.full");
    b.op("math", op::LayerNormApply{1e-5, true, C},
         {"x0", "moments.full", "gain", "bias", "h", "mean", "rstd"});
  }

  void attend() {
    gather("qkv");
    contract({2, 1}, "h", "qkv.full", "qkv.x");
    b.pack("math", "qkv.x", "qkv.packed");
    b.reduce_scatter("y", "qkv.packed", "qkv.xy");
    b.op("math", attention<op::Attention>(), {"qkv.xy", "step.seed", "step.step", "o.xy", "lse"});
    b.all_gather("y", "o.xy", "o.packed");
    b.unpack("math", "o.packed", "o.x");
    gather("out");
    contract({2, 2}, "o.x", "out.full", "o.sum");
    b.all_reduce("x", "o.sum");
    b.op("math", op::Add{}, {"x0", "o.sum", "r"});
  }

  void feed_forward() {
    gather("up");
    contract({2, 1}, "r", "up.full", "u");
    b.all_reduce("y", "u");
    b.op("math", op::AddBias{}, {"u", "up.bias", "u"});
    b.op("math", op::Gelu{}, {"u", "a"});
    gather("down");
    contract({2, 1}, "a", "down.full", "d");
    b.all_reduce("x", "d");
    b.op("math", op::Add{}, {"r", "d", "y"});
  }

  void loss() {
    gather("head");
    contract({2, 1}, "y", "head.full", "logits");
    b.all_reduce("y", "logits");
    const std::int64_t column = b.first("logits", 2);
    b.op("math", op::LogitMax{column, V}, {"logits", "max"});
    b.all_reduce("x", "max");
    std::get<AllReduce>(b.program.instructions.back().what).reduction = op::Reduction::max;
    b.op("math", op::LogitSums{column, V}, {"logits", "labels", "max", "sum_exp", "label_logit"});
    b.all_reduce("x", std::vector<std::string>{"sum_exp", "label_logit"});
    b.op("math", op::CrossEntropyMerge{},
         {"max", "sum_exp", "label_logit", "labels", "token_loss", "lse.loss"});
    b.op("math", op::LossSum{micro_ > 0},
         {"token_loss", "labels", "result.loss_sum", "result.valid_count"});
  }

  void head_backward() {
    b.op("math", op::CrossEntropyGradient{1.0 / 24, b.first("logits", 2), V},
         {"logits", "labels", "lse.loss", "logits"});
    weight_gradient("y", "logits", "g.head");
    contract({2, 1, false, true}, "logits", "head.full", "y_grad");
    b.all_reduce("x", "y_grad");
  }

  void feed_forward_backward() {
    weight_gradient("a", "y_grad", "g.down");
    contract({2, 1, false, true}, "y_grad", "down.full", "a_grad");
    b.all_reduce("y", "a_grad");
    b.op("math", op::GeluGradient{}, {"u", "a_grad", "a_grad"});
    b.op("math", op::BiasGradient{2, micro_ > 0}, {"a_grad", "g.up.bias"});
    weight_gradient("r", "a_grad", "g.up");
    contract({2, 1, false, true}, "a_grad", "up.full", "r_grad");
    b.all_reduce("x", "r_grad");
    b.op("math", op::Add{}, {"r_grad", "y_grad", "r_grad"});
  }

  void attention_backward() {
    weight_gradient("o.x", "r_grad", "g.out");
    contract({2, 2, false, true}, "r_grad", "out.full", "o_grad.x");
    b.pack("math", "o_grad.x", "o_grad.packed");
    b.reduce_scatter("y", "o_grad.packed", "o_grad.xy");
    b.op("math", attention<op::AttentionGradient>(),
         {"qkv.xy", "o.xy", "lse", "o_grad.xy", "step.seed", "step.step", "qkv_grad.xy"});
    b.all_gather("y", "qkv_grad.xy", "qkv_grad.packed");
    b.unpack("math", "qkv_grad.packed", "qkv_grad.x");
    weight_gradient("h", "qkv_grad.x", "g.qkv");
    contract({2, 1, false, true}, "qkv_grad.x", "qkv.full", "h_grad");
    b.all_reduce("x", "h_grad");
  }

  void embedding_backward() {
    b.op("math", op::LayerNormWeightGradient{true, micro_ > 0},
         {"x0", "mean", "rstd", "h_grad", "g.gain", "g.bias"});
    b.op("math", op::LayerNormGradientSums{}, {"x0", "gain", "mean", "rstd", "h_grad", "sums"});
    b.all_reduce("y", "sums");
    b.op("math", op::LayerNormGradientApply{C},
         {"x0", "gain", "mean", "rstd", "h_grad", "sums", "h_grad"});
    b.op("math", op::Add{}, {"h_grad", "r_grad", "h_grad"});
    b.op("math", dropout(), {"h_grad", "step.seed", "step.step", "i_grad"});
    b.op("math", op::PositionsGradient{T + 2, 0, micro_ > 0}, {"i_grad", "g.positions"});
    b.op("math",
         op::EmbeddingGradient{b.local("embedding", 0), b.first("embedding", 0), micro_ > 0},
         {"tokens", "i_grad", "g.embedding"});
  }

  std::string reduced(const Weight& w) const {
    return (is_gathered(w) || is_own(w) ? "own." : "g.") + w.name;
  }

  void sync() {
    for (const Weight& w : weights()) {
      if (is_gathered(w))
        b.reduce_scatter("z", "g." + w.name, "own." + w.name);
      else
        b.all_reduce("z", "g." + w.name);
      if (is_own(w))
        b.reduce_scatter("data", "g." + w.name, "own." + w.name);
      else
        b.all_reduce("data", reduced(w));
    }
    for (const std::string_view axis : {"z", "data"})
      for (const std::string_view field : {"result.loss_sum", "result.valid_count"})
        b.all_reduce(axis, field);
  }

  /// Parameters by the axes that cut their gradients and moments.
  struct Cut {
    std::string name;
    std::vector<std::string_view> weights, axes;
  };
  static std::vector<Cut> cuts() {
    return {{"zyx", {"qkv", "out", "up", "down", "head"}, {"z", "y", "x"}},
            {"y", {"gain", "bias", "positions"}, {"y"}},
            {"x", {"up.bias"}, {"x"}},
            {"rows", {"embedding"}, {"y", "x"}}};
  }

  void norms() {
    for (const Cut& cut : cuts()) {
      const std::string norm = "norm." + cut.name;
      bool more = false;
      for (const Weight& w : weights_of(cut)) {
        b.op("math", op::SquaredNorm{more}, {reduced(w), norm});
        more = true;
      }
      reduce(norm, cut);
    }
    for (const std::string_view cut : {"y", "x"})
      b.op("math", op::Add{}, {"norm.zyx", format("norm.{}", cut), "norm.zyx"}, DType::f64);
    b.op("math", op::Add{}, {"norm.zyx", "norm.rows", "result.squared_norm"}, DType::f64);
  }

  void reduce(const std::string& sum, const Cut& cut) {
    for (const std::string_view axis : cut.axes) b.all_reduce(axis, sum);
    for (const Weight& w : weights())
      if (cut.name == "rows" && is_own(w)) b.all_reduce("data", sum);
  }

  /// Elements that are not finite, of all weights.
  void counts() {
    for (const Cut& cut : cuts()) reduce("count." + cut.name, cut);
    for (const std::string_view cut : {"y", "x"})
      b.op("math", op::Add{}, {"count.zyx", format("count.{}", cut), "count.zyx"}, DType::i64);
    b.op("math", op::Add{}, {"count.zyx", "count.rows", "result.non_finite"}, DType::i64);
    b.op("math", op::CountNonFinite{}, {"result.non_finite", "non_finite"});
  }

  void update() {
    b.op("math", op::Vote{},
         {"step.vote", "result.squared_norm", "result.loss_sum", "result.valid_count", "non_finite",
          "step.lr", "result.votes"},
         DType::f64);
    for (const std::string_view axis : {"data", "z", "y", "x"}) b.all_reduce(axis, "result.votes");
    b.op("math", op::UpdateControl{24, 1.0},
         {"result.squared_norm", "result.valid_count", "result.votes", "result.grad_norm",
          "result.scale", "result.applied"},
         DType::f64);
    const bool at_once = grid_.x == 1;
    for (const Cut& cut : cuts()) {
      const std::vector<Weight> list = weights_of(cut);
      if (at_once) b.add("math", all_weights(list, "count." + cut.name));
      for (const Weight& w : list) {
        if (!at_once) one_weight(w, "count." + cut.name, w.name != list[0].name);
        if (is_own(w)) b.add("data", AllGather{GroupId(0), {updated_rows(w)}, {b.slice(w.name)}});
      }
    }
    b.op("math", op::CountUpdate{}, {"result.applied", "updates"});
    counts();
  }

  static std::vector<Weight> weights_of(const Cut& cut) {
    std::vector<Weight> list;
    for (const Weight& w : weights())
      if (std::ranges::find(cut.weights, w.name) != cut.weights.end()) list.push_back(w);
    return list;
  }

  void one_weight(const Weight& w, const std::string& count, bool more) {
    b.op("math", op::AdamW{.accumulate = more},
         {reduced(w), "step.lr", "result.scale", "result.applied", "updates", w.name, "m." + w.name,
          "v." + w.name, count});
    std::get<Compute>(b.program.instructions.back().what).slices[5] = updated_rows(w);
  }

  /// The updates of several weights as one instruction.
  Compute all_weights(const std::vector<Weight>& list, const std::string& count) {
    Compute all{op::AdamWList::of({}, static_cast<std::int64_t>(list.size()), 0),
                DType::f32,
                {},
                std::nullopt,
                "reference"};
    for (const auto name : {"step.lr", "result.scale", "result.applied", "updates"})
      all.slices.push_back(b.slice(name));
    for (const Weight& w : list) all.slices.push_back(b.slice(reduced(w)));
    for (const Weight& w : list) {
      all.slices.push_back(updated_rows(w));
      for (const auto prefix : {"m.", "v."}) all.slices.push_back(b.slice(prefix + w.name));
    }
    all.slices.push_back(b.slice(count));
    return all;
  }

  /// The rows of a weight whose moments are here.
  Slice updated_rows(const Weight& w) const {
    Slice rows = b.slice(w.name);
    if (!is_own(w)) return rows;
    const std::int64_t row = rows.row_bytes / b.local(w.name, 0);
    rows.row_bytes = b.local("m." + w.name, 0) * row;
    rows.offset_bytes = (b.first("m." + w.name, 0) - b.first(w.name, 0)) * row;
    return rows;
  }

  Grid grid_;
  std::int64_t micros_;
  std::int64_t S = 2 * grid_.data * grid_.z;
  std::int64_t micro_ = 0;
  Builder b;
};

}  // namespace

Bundle grid_bundle(const Grid& grid, Rank rank, std::int64_t micros) {
  Mesh mesh{"main", {{"data", grid.data}, {"z", grid.z}, {"y", grid.y}, {"x", grid.x}}, {}};
  for (std::int64_t i = 0; i < grid.ranks(); ++i)
    mesh.ranks.push_back(Rank(static_cast<std::size_t>(i)));
  Bundle bundle{{GridProgram(op::ProgramKind::init, rank, grid, mesh, micros).init(),
                 GridProgram(op::ProgramKind::train, rank, grid, mesh, micros).train(),
                 GridProgram(op::ProgramKind::digest, rank, grid, mesh, micros).digest()},
                0,
                0};
  for (const Program& program : bundle.programs) {
    bundle.persistent_bytes = std::max(bundle.persistent_bytes, program.persistent_bytes);
    bundle.transient_bytes = std::max(bundle.transient_bytes, program.transient_bytes);
  }
  return bundle;
}

std::vector<Bundle> grid_job(const Grid& grid) {
  std::vector<Bundle> bundles;
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank)
    bundles.push_back(grid_bundle(grid, Rank(static_cast<std::size_t>(rank)), 2));
  return bundles;
}

}  // namespace fourfold::program
