// T = 4 time, C = 8 channels, V = 16 vocabulary; two samples for each rank of a stage.
#include "base/format.h"
#include "base/random.h"
#include "program/builder.h"
#include "program/jobs.h"

namespace fourfold::program {
namespace {

constexpr std::int64_t T = 4, C = 8, V = 16, micros = 2;
constexpr Kind parameter{BufferRole::parameter, DType::f32};
constexpr Kind moment{BufferRole::moment, DType::f32};
constexpr Kind gradient{BufferRole::gradient, DType::f32};
constexpr Kind activation{BufferRole::activation, DType::f32};
constexpr Kind ids{BufferRole::feed, DType::i32};

// Tags: one for each edge between the meshes.
constexpr std::int64_t forward_tag = 1, backward_tag = 2, norm_tag = 3, loss_tag = 4, count_tag = 5,
                       votes_tag = 6;

class StageProgram {
 public:
  StageProgram(op::ProgramKind kind, Rank rank, const std::vector<Mesh>& meshes, std::int64_t width)
      : is_first_(static_cast<std::int64_t>(rank.index()) < width),
        S(2 * width),
        peer_(is_first_ ? rank.index() + static_cast<std::size_t>(width)
                        : rank.index() - static_cast<std::size_t>(width)),
        weight_(is_first_ ? "embedding" : "head"),
        b(kind, rank, meshes, MeshId(is_first_ ? 0 : 1), 2 * width,
          {"math", "feed", "data", "send", "recv"}) {
    b.serialize();
    b.group({"data"});
    b.blocks();
    const Shape shape = is_first_ ? Shape{V, C} : Shape{C, V};
    b.buffer(weight_, shape, parameter);
    b.buffer("m", shape, moment);
    b.buffer("v", shape, moment);
    b.buffer("updates", {}, {BufferRole::counter, DType::i64});
    b.buffer("non_finite", {}, {BufferRole::counter, DType::i64});
  }

  Program init() {
    b.task(TaskKind::init);
    const Shape shape = b.program.local_shape(*b.program.find_buffer(weight_));
    b.op("math", op::InitNormal{random_stream(weight_), 0.02, shape}, {"step.seed", weight_});
    b.op("math", op::Fill{0, shape}, {"m"});
    b.op("math", op::Fill{0, shape}, {"v"});
    for (const std::string counter : {"updates", "non_finite"})
      b.op("math", op::Fill{0, {}}, {counter}, DType::i64);
    return b.finish();
  }

  Program train() {
    const std::vector<std::string> cut = {"data", "", ""};
    b.buffer("tokens", {S, T}, ids, {"data", ""});
    b.buffer("labels", {S, T}, ids, {"data", ""});
    b.buffer("i0", {S, T, C}, activation, cut);
    b.buffer("i1", {S, T, C}, activation, cut);
    b.buffer("i_grad", {S, T, C}, activation, cut);
    b.buffer("logits", {S, T, V}, activation, cut);
    b.buffer("token_loss", {S, T}, activation, {"data", ""});
    b.buffer("lse", {S, T}, activation, {"data", ""});
    b.buffer("g", is_first_ ? Shape{V, C} : Shape{C, V}, gradient);
    b.buffer("norm.own", {}, {BufferRole::activation, DType::f64});
    b.buffer("norm.other", {}, {BufferRole::activation, DType::f64});
    b.buffer("votes.own", {}, {BufferRole::activation, DType::i64});
    b.buffer("votes.other", {}, {BufferRole::activation, DType::i64});
    b.program.feeds = {micros, S, b.first("tokens", 0), 2};
    if (is_first_)
      first_stage();
    else
      second_stage();
    update();
    return b.finish();
  }

 private:
  void send(std::int64_t tag, std::string_view what) {
    b.add("send", Send{peer_, tag, b.slice(what)});
  }
  void recv(std::int64_t tag, std::string_view what) {
    b.add("recv", Recv{peer_, tag, b.slice(what)});
  }

  void first_stage() {
    for (std::int64_t micro = 0; micro < micros; ++micro) {
      b.task(TaskKind::forward, micro);
      b.feed(micro, "tokens");
      b.op("math", op::Embedding{}, {"tokens", "embedding", "i0"});
      send(forward_tag, "i0");
      b.task(TaskKind::backward, micro);
      recv(backward_tag, "i_grad");
      b.op("math", op::EmbeddingGradient{V, 0, micro > 0}, {"tokens", "i_grad", "g"});
    }
  }

  void second_stage() {
    for (std::int64_t micro = 0; micro < micros; ++micro) {
      b.task(TaskKind::forward, micro);
      b.feed(micro, "tokens");
      b.feed(micro, "labels");
      recv(forward_tag, "i0");
      b.op("math", op::Contract{2, 1}, {"i0", "head", "logits"});
      b.op("math", op::CrossEntropy{}, {"logits", "labels", "token_loss", "lse"});
      b.op("math", op::LossSum{micro > 0},
           {"token_loss", "labels", "result.loss_sum", "result.valid_count"});
      b.task(TaskKind::backward, micro);
      b.op("math", op::CrossEntropyGradient{1.0 / 24}, {"logits", "labels", "lse", "logits"});
      b.op("math", op::Contract{2, 2, true, false, micro > 0}, {"i0", "logits", "g"});
      b.op("math", op::Contract{2, 1, false, true}, {"logits", "head", "i_grad"});
      send(backward_tag, "i_grad");
    }
  }

  void update() {
    b.task(TaskKind::gradient_sync);
    b.all_reduce("data", "g");
    if (!is_first_)
      for (const std::string_view field : {"result.loss_sum", "result.valid_count"})
        b.all_reduce("data", field);
    b.task(TaskKind::update);
    b.op("math", op::SquaredNorm{}, {"g", "norm.own"});
    // Each norm goes to the other mesh; who sends first and who receives first must differ.
    if (is_first_) {
      send(norm_tag, "norm.own");
      recv(norm_tag, "norm.other");
      recv(loss_tag, "result.loss_sum");
      recv(count_tag, "result.valid_count");
    } else {
      recv(norm_tag, "norm.other");
      send(norm_tag, "norm.own");
      send(loss_tag, "result.loss_sum");
      send(count_tag, "result.valid_count");
    }
    b.op("math", op::Add{}, {"norm.own", "norm.other", "result.squared_norm"}, DType::f64);
    b.op("math", op::Vote{},
         {"step.vote", "result.squared_norm", "result.loss_sum", "result.valid_count", "non_finite",
          "step.lr", "votes.own"},
         DType::f64);
    b.all_reduce("data", "votes.own");
    if (is_first_) {
      send(votes_tag, "votes.own");
      recv(votes_tag, "votes.other");
    } else {
      recv(votes_tag, "votes.other");
      send(votes_tag, "votes.own");
    }
    b.op("math", op::Add{}, {"votes.own", "votes.other", "result.votes"}, DType::i64);
    b.op("math", op::UpdateControl{24, 1.0},
         {"result.squared_norm", "result.valid_count", "result.votes", "result.grad_norm",
          "result.scale", "result.applied"},
         DType::f64);
    b.op("math", op::AdamW{},
         {"g", "step.lr", "result.scale", "result.applied", "updates", weight_, "m", "v",
          "result.non_finite"});
    b.op("math", op::CountUpdate{}, {"result.applied", "updates"});
    b.op("math", op::CountNonFinite{}, {"result.non_finite", "non_finite"});
  }

  bool is_first_;
  std::int64_t S;
  Rank peer_;
  std::string weight_;
  Builder b;
};

}  // namespace

std::vector<Bundle> pipeline_job(std::int64_t width) {
  std::vector<Mesh> meshes = {{"first", {{"data", width}}, {}}, {"second", {{"data", width}}, {}}};
  for (std::int64_t rank = 0; rank < 2 * width; ++rank)
    meshes[rank < width ? 0 : 1].ranks.push_back(Rank(static_cast<std::size_t>(rank)));
  std::vector<Bundle> bundles;
  for (std::int64_t i = 0; i < 2 * width; ++i) {
    const Rank rank(static_cast<std::size_t>(i));
    Bundle bundle{{StageProgram(op::ProgramKind::init, rank, meshes, width).init(),
                   StageProgram(op::ProgramKind::train, rank, meshes, width).train()},
                  0,
                  0};
    for (const Program& program : bundle.programs) {
      bundle.persistent_bytes = std::max(bundle.persistent_bytes, program.persistent_bytes);
      bundle.transient_bytes = std::max(bundle.transient_bytes, program.transient_bytes);
    }
    bundles.push_back(std::move(bundle));
  }
  return bundles;
}

}  // namespace fourfold::program
