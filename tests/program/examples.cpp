// B = 2 samples of a micro-batch, T = 4 time, C = 8 channels, F = 16 ffn width, V = 16 vocabulary.
#include "program/examples.h"

#include <array>
#include <utility>

#include "base/format.h"
#include "program/builder.h"

namespace fourfold::program {
namespace {

constexpr std::int64_t B = 2, T = 4, C = 8, F = 16, V = 16;
constexpr Kind parameter{BufferRole::parameter, DType::f32};
constexpr Kind moment{BufferRole::moment, DType::f32};
constexpr Kind gradient{BufferRole::gradient, DType::f32};
constexpr Kind activation{BufferRole::activation, DType::f32};
constexpr Kind ids{BufferRole::feed, DType::i32};
constexpr Kind counter{BufferRole::counter, DType::i64};

struct Weight {
  std::string_view name;
  Shape shape;
  std::vector<std::string> cuts = {};
};

const std::array<Weight, 7>& tiny_weights() {
  static const std::array<Weight, 7> weights = {{{"embedding", {V, C}},
                                                 {"norm.gain", {C}},
                                                 {"norm.bias", {C}},
                                                 {"up.weight", {C, F}},
                                                 {"up.bias", {F}},
                                                 {"down.weight", {F, C}},
                                                 {"head", {C, V}}}};
  return weights;
}

const Mesh& one_rank() {
  static const Mesh mesh{"main", {{"data", 1}}, {Rank(0)}};
  return mesh;
}

template <class Weights>
void add_state(Builder& b, const Weights& weights) {
  b.blocks();
  for (const Weight& w : weights) b.buffer(w.name, w.shape, parameter, w.cuts);
  for (const Weight& w : weights) b.buffer(format("m.{}", w.name), w.shape, moment, w.cuts);
  for (const Weight& w : weights) b.buffer(format("v.{}", w.name), w.shape, moment, w.cuts);
  b.buffer("updates", {}, counter);
  b.buffer("non_finite", {}, counter);
}

void add_activations(Builder& b) {
  b.buffer("tokens", {B, T}, ids);
  b.buffer("labels", {B, T}, ids);
  b.buffer("x", {B, T, C}, activation);
  b.buffer("h", {B, T, C}, activation);
  b.buffer("mean", {B, T}, activation);
  b.buffer("rstd", {B, T}, activation);
  b.buffer("u", {B, T, F}, activation);
  b.buffer("a", {B, T, F}, activation);
  b.buffer("d", {B, T, C}, activation);
  b.buffer("y", {B, T, C}, activation);
  b.buffer("logits", {B, T, V}, activation);
  b.buffer("token_loss", {B, T}, activation);
  b.buffer("lse", {B, T}, activation);
}

void add_forward(Builder& b, bool accumulate) {
  b.op("math", op::Embedding{}, {"tokens", "embedding", "x"});
  b.op("math", op::LayerNorm{}, {"x", "norm.gain", "norm.bias", "h", "mean", "rstd"});
  b.op("math", op::Contract{2, 1}, {"h", "up.weight", "u"});
  b.op("math", op::AddBias{}, {"u", "up.bias", "u"});
  b.op("math", op::Gelu{}, {"u", "a"});
  b.op("math", op::Contract{2, 1}, {"a", "down.weight", "d"});
  b.op("math", op::Add{}, {"x", "d", "y"});
  b.op("math", op::Contract{2, 1}, {"y", "head", "logits"});
  b.op("math", op::CrossEntropy{}, {"logits", "labels", "token_loss", "lse"});
  b.op("math", op::LossSum{accumulate},
       {"token_loss", "labels", "result.loss_sum", "result.valid_count"});
}

void add_backward(Builder& b, bool accumulate) {
  b.op("math", op::CrossEntropyGradient{1.0 / 24}, {"logits", "labels", "lse", "logits"});
  b.op("math", op::Contract{2, 2, true, false, accumulate}, {"y", "logits", "g.head"});
  b.op("math", op::Contract{2, 1, false, true}, {"logits", "head", "y_grad"});
  b.op("math", op::Contract{2, 2, true, false, accumulate}, {"a", "y_grad", "g.down.weight"});
  b.op("math", op::Contract{2, 1, false, true}, {"y_grad", "down.weight", "a_grad"});
  b.op("math", op::GeluGradient{}, {"u", "a_grad", "a_grad"});
  b.op("math", op::BiasGradient{2, accumulate}, {"a_grad", "g.up.bias"});
  b.op("math", op::Contract{2, 2, true, false, accumulate}, {"h", "a_grad", "g.up.weight"});
  b.op("math", op::Contract{2, 1, false, true}, {"a_grad", "up.weight", "h_grad"});
  b.op("math", op::LayerNormWeightGradient{true, accumulate},
       {"x", "mean", "rstd", "h_grad", "g.norm.gain", "g.norm.bias"});
  b.op("math", op::LayerNormGradient{}, {"x", "norm.gain", "mean", "rstd", "h_grad", "h_grad"});
  b.op("math", op::Add{}, {"h_grad", "y_grad", "h_grad"});
  b.op("math", op::EmbeddingGradient{V, 0, accumulate}, {"tokens", "h_grad", "g.embedding"});
}

/// Updates of weights, each of which counts in `found` what is not finite.
template <class Weights>
void add_adamw(Builder& b, const Weights& weights, const std::string& found) {
  bool more = false;
  for (const Weight& w : weights)
    b.op("math", op::AdamW{.accumulate = std::exchange(more, true)},
         {format("g.{}", w.name), "step.lr", "result.scale", "result.applied", "updates", w.name,
          format("m.{}", w.name), format("v.{}", w.name), found});
}

void add_counts(Builder& b) {
  b.op("math", op::CountUpdate{}, {"result.applied", "updates"});
  b.op("math", op::CountNonFinite{}, {"result.non_finite", "non_finite"});
}

void add_vote(Builder& b) {
  b.op("math", op::Vote{},
       {"step.vote", "result.squared_norm", "result.loss_sum", "result.valid_count", "non_finite",
        "step.lr", "result.votes"},
       DType::f64);
}

void add_control(Builder& b) {
  b.op("math", op::UpdateControl{24, 1.0},
       {"result.squared_norm", "result.valid_count", "result.votes", "result.grad_norm",
        "result.scale", "result.applied"},
       DType::f64);
}

}  // namespace

Program tiny_train(std::int64_t micros) {
  Builder b(op::ProgramKind::train, Rank(0), one_rank(), {"math", "feed"});
  add_state(b, tiny_weights());
  add_activations(b);
  b.buffer_over("d", "y_grad", {B, T, C}, activation);
  b.buffer("a_grad", {B, T, F}, activation);
  b.buffer("h_grad", {B, T, C}, activation);
  for (const Weight& w : tiny_weights()) b.buffer(format("g.{}", w.name), w.shape, gradient);
  b.program.feeds = {micros, B, 0, B};
  for (std::int64_t micro = 0; micro < micros; ++micro) {
    b.task(TaskKind::forward, micro);
    if (micro > 0) b.wait("feed", EventId(b.program.num_events - 1));
    b.feed(micro, "tokens");
    b.feed(micro, "labels");
    b.order("feed", "math");
    add_forward(b, micro > 0);
    b.task(TaskKind::backward, micro);
    add_backward(b, micro > 0);
    b.record("math");
  }
  b.task(TaskKind::update);
  bool more = false;
  for (const Weight& w : tiny_weights()) {
    b.op("math", op::SquaredNorm{more}, {format("g.{}", w.name), "result.squared_norm"});
    more = true;
  }
  add_vote(b);
  add_control(b);
  add_adamw(b, tiny_weights(), "result.non_finite");
  add_counts(b);
  return b.finish();
}

Program tiny_init() {
  Builder b(op::ProgramKind::init, Rank(0), one_rank(), {"math"});
  add_state(b, tiny_weights());
  b.task(TaskKind::init);
  for (const Weight& w : tiny_weights()) {
    if (w.shape.rank() == 2)
      b.op("math", op::InitNormal{random_stream(w.name), 0.02, w.shape}, {"step.seed", w.name});
    else
      b.op("math", op::Fill{w.name == "norm.gain" ? 1.0 : 0.0, w.shape}, {w.name});
    b.op("math", op::Fill{0, w.shape}, {format("m.{}", w.name)});
    b.op("math", op::Fill{0, w.shape}, {format("v.{}", w.name)});
  }
  for (const std::string_view counter : {"updates", "non_finite"})
    b.op("math", op::Fill{0, {}}, {std::string(counter)}, DType::i64);
  return b.finish();
}

Program tiny_evaluate() {
  Builder b(op::ProgramKind::evaluate, Rank(0), one_rank(), {"math", "feed"});
  add_state(b, tiny_weights());
  add_activations(b);
  b.program.feeds = {1, B, 0, B};
  b.task(TaskKind::evaluate, 0);
  b.feed(0, "tokens");
  b.feed(0, "labels");
  b.order("feed", "math");
  add_forward(b, false);
  return b.finish();
}

Bundle tiny_bundle() {
  Bundle bundle{{tiny_init(), tiny_train(), tiny_evaluate()}, 0, 0};
  for (const Program& program : bundle.programs) {
    bundle.persistent_bytes = std::max(bundle.persistent_bytes, program.persistent_bytes);
    bundle.transient_bytes = std::max(bundle.transient_bytes, program.transient_bytes);
  }
  return bundle;
}

// --- sharded: samples cut on z, the ffn width on x, both weights gathered on z

namespace {

constexpr std::int64_t S = 4;  // samples over all ranks

const std::array<Weight, 4>& sharded_weights() {
  static const std::array<Weight, 4> weights = {{{"embedding", {V, C}},
                                                 {"up", {C, F}, {"z", "x"}},
                                                 {"down", {F, C}, {"x,z", ""}},
                                                 {"head", {C, V}}}};
  return weights;
}

void add_sharded_buffers(Builder& b) {
  b.buffer("tokens", {S, T}, ids, {"z", ""});
  b.buffer("labels", {S, T}, ids, {"z", ""});
  b.buffer("up.full", {C, F}, activation, {"", "x"});
  b.buffer("down.full", {F, C}, activation, {"x", ""});
  for (const std::string_view name : {"i", "p", "i_grad", "p_grad"})
    b.buffer(name, {S, T, C}, activation, {"z", "", ""});
  for (const std::string_view name : {"h", "h_grad"})
    b.buffer(name, {S, T, F}, activation, {"z", "", "x"});
  b.buffer("logits", {S, T, V}, activation, {"z", "", ""});
  b.buffer("token_loss", {S, T}, activation, {"z", ""});
  b.buffer("lse", {S, T}, activation, {"z", ""});
  b.buffer("up.part", {C, F}, gradient, {"", "x"});
  b.buffer("down.part", {F, C}, gradient, {"x", ""});
  for (const Weight& w : sharded_weights())
    b.buffer(format("g.{}", w.name), w.shape, gradient, w.cuts);
  b.buffer("norm.whole", {}, {BufferRole::activation, DType::f64});
  b.buffer("norm.cut", {}, {BufferRole::activation, DType::f64});
  b.buffer("count.cut", {}, {BufferRole::activation, DType::i64});
}

void add_sharded_forward(Builder& b) {
  b.task(TaskKind::forward, 0);
  b.feed(0, "tokens");
  b.feed(0, "labels");
  b.all_gather("z", "up", "up.full");
  const EventId up = b.record("z");
  b.all_gather("z", "down", "down.full");
  b.order("feed", "math");
  b.op("math", op::Embedding{}, {"tokens", "embedding", "i"});
  b.wait("math", up);
  b.op("math", op::Contract{2, 1}, {"i", "up.full", "h"});
  b.order("z", "math");
  b.op("math", op::Contract{2, 1}, {"h", "down.full", "p"});
  b.order("math", "x");
  b.all_reduce("x", "p");
  b.order("x", "math");
  b.op("math", op::Contract{2, 1}, {"p", "head", "logits"});
  b.op("math", op::CrossEntropy{}, {"logits", "labels", "token_loss", "lse"});
  b.op("math", op::LossSum{}, {"token_loss", "labels", "result.loss_sum", "result.valid_count"});
}

void add_sharded_backward(Builder& b) {
  b.task(TaskKind::backward, 0);
  b.op("math", op::CrossEntropyGradient{1.0 / 16}, {"logits", "labels", "lse", "logits"});
  b.op("math", op::Contract{2, 2, true, false}, {"p", "logits", "g.head"});
  b.op("math", op::Contract{2, 1, false, true}, {"logits", "head", "p_grad"});
  b.op("math", op::Contract{2, 2, true, false}, {"h", "p_grad", "down.part"});
  b.order("math", "z");
  b.reduce_scatter("z", "down.part", "g.down");
  b.op("math", op::Contract{2, 1, false, true}, {"p_grad", "down.full", "h_grad"});
  b.op("math", op::Contract{2, 1, false, true}, {"h_grad", "up.full", "i_grad"});
  b.order("math", "x");
  b.all_reduce("x", "i_grad");
  b.op("math", op::Contract{2, 2, true, false}, {"i", "h_grad", "up.part"});
  b.order("math", "z");
  b.reduce_scatter("z", "up.part", "g.up");
  b.order("x", "math");
  b.op("math", op::EmbeddingGradient{V}, {"tokens", "i_grad", "g.embedding"});
}

}  // namespace

Program sharded_train() {
  const Mesh mesh{"main", {{"z", 2}, {"x", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  Builder b(op::ProgramKind::train, Rank(3), mesh, {"math", "feed", "z", "x"});
  b.group({"z"});
  b.group({"x"});
  add_state(b, sharded_weights());
  add_sharded_buffers(b);
  b.program.feeds = {1, S, 2, 2};
  add_sharded_forward(b);
  add_sharded_backward(b);

  b.task(TaskKind::gradient_sync);
  b.order("math", "z");
  for (const std::string_view name :
       {"g.embedding", "g.head", "result.loss_sum", "result.valid_count"})
    b.all_reduce("z", name);
  b.order("z", "math");
  b.task(TaskKind::update);
  b.op("math", op::SquaredNorm{}, {"g.up", "norm.cut"});
  b.op("math", op::SquaredNorm{true}, {"g.down", "norm.cut"});
  b.order("math", "z");
  b.all_reduce("z", "norm.cut");
  b.order("z", "x");
  b.all_reduce("x", "norm.cut");
  b.op("math", op::SquaredNorm{}, {"g.embedding", "norm.whole"});
  b.op("math", op::SquaredNorm{true}, {"g.head", "norm.whole"});
  b.order("x", "math");
  b.op("math", op::Add{}, {"norm.whole", "norm.cut", "result.squared_norm"}, DType::f64);
  add_vote(b);
  b.order("math", "z");
  b.all_reduce("z", "result.votes");
  b.order("z", "x");
  b.all_reduce("x", "result.votes");
  b.order("x", "math");
  add_control(b);
  std::vector<Weight> cut, whole;
  for (const Weight& w : sharded_weights())
    (w.name == "up" || w.name == "down" ? cut : whole).push_back(w);
  add_adamw(b, cut, "count.cut");
  b.order("math", "z");
  b.all_reduce("z", "count.cut");
  b.order("z", "x");
  b.all_reduce("x", "count.cut");
  add_adamw(b, whole, "result.non_finite");
  b.order("x", "math");
  b.op("math", op::Add{}, {"result.non_finite", "count.cut", "result.non_finite"}, DType::i64);
  add_counts(b);
  return b.finish();
}

Program every_kind() {
  const Mesh mesh{"left", {{"data", 2}, {"z", 2}}, {Rank(4), Rank(5), Rank(7), Rank(6)}};
  Builder b(op::ProgramKind::train, Rank(5), mesh, {"math", "net/x"});
  b.program.world = 9;
  b.group({"data"});
  b.group({"z"});
  b.program.meshes.push_back({"right", {{"w", 3}}, {Rank(0), Rank(1), Rank(5)}});
  b.program.groups.push_back({"w", MeshId(1), {AxisId(0)}, {Rank(0), Rank(1), Rank(5)}});
  b.blocks();
  b.buffer("a", {8, 8}, {BufferRole::activation, DType::f32}, {"data,z", ""});
  b.buffer("b#1", {8, 8}, {BufferRole::output, DType::bf16}, {"", "z"});
  b.buffer("c", {}, {BufferRole::workspace, DType::i64});
  b.program.buffers[2].sharding.partial = {};
  b.program.buffers[3].sharding.partial = {{AxisId(0), op::Reduction::max}};
  b.program.buffers[3].sharding.dims[1][0].stride = 2;
  b.program.buffers[4].sharding = {MeshId(1), {}, {{AxisId(0), op::Reduction::sum}}};
  const Slice part{BufferId(2), 4, 1, 8, 0}, strided{BufferId(2), 0, 2, 8, 32},
      odd{BufferId(2), 0, 1, 8, 8};
  b.task(TaskKind::weight_backward, 3);
  b.add("math", AllReduce{GroupId(0), op::Reduction::max, {part}});
  b.add("net/x", ReduceScatter{GroupId(1), op::Reduction::sum, {b.slice("a")}, {strided}});
  b.add("net/x", AllGather{GroupId(2), {strided, part}, {b.slice("a"), odd}});
  b.add("net/x", AllToAll{GroupId(1), {odd}, {b.slice("b#1")}});
  b.task(TaskKind::digest);
  b.add("math", Send{Rank(8), -7, b.slice("c")});
  b.add("math", Recv{Rank(0), 1LL << 40, part});
  b.add("math", Copy{strided, odd});
  b.program.inputs = {{"pixels", DType::u8, {4, 4, 3}}, {"labels", DType::i32, {}}};
  b.add("math", Feed{InputId(1), 3, b.slice("a")});
  b.add("math", b.program.instructions[0].what);
  b.record("math");
  b.wait("net/x", EventId(0));
  b.op("math", op::Fill{0, {}}, {"step.lr"}, DType::f64);
  std::get<Compute>(b.program.instructions.back().what).workspace = strided;
  b.op("math", op::Fill{0, {}}, {"result.votes"}, DType::i64);
  std::get<Compute>(b.program.instructions.back().what).implementation.clear();
  return b.finish();
}

}  // namespace fourfold::program
