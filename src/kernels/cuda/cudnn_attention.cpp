// cuDNN's graph API through cudnn-frontend: one graph of scaled dot-product attention, forward or
// backward, for each shape. https://docs.nvidia.com/deeplearning/cudnn/frontend, "Attention": the
// stats are the natural log sum exp of the scaled scores, (B, H, T, 1) in f32, which is our lse.
#include "kernels/cuda/cudnn_attention.h"

#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/attention_format.h"
#include "kernels/cuda/cudnn_check.h"
#include "kernels/cuda/library_workspace.h"

namespace fourfold::kernels::cuda::cudnn {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

/// Names of tensors in a graph.
enum Id : std::int64_t { query = 1, key, value, y, lse, y_grad, query_grad, key_grad, value_grad };
/// Where they lie.
using Memory = std::unordered_map<std::int64_t, void*>;

/// Writes down the tensors of one graph.
class Builder {
 public:
  Builder(const AttentionFormat& form, bool is_causal)
      : form_(form), is_causal_(is_causal), graph_(std::make_shared<Graph>()) {
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<Graph> forward() {
    const auto settings =
        with_mask(fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true));
    auto [out, stats] = graph_->sdpa(part(query), part(key), part(value), settings);
    describe(*out, y, form_.dims(), form_.y_strides()).set_output(true);
    describe(*stats, lse, form_.lse_dims(), form_.lse_strides())
        .set_output(true)
        .set_data_type(fe::DataType_t::FLOAT);
    return graph_;
  }

  std::shared_ptr<Graph> backward(Order order) {
    const auto settings = with_mask(fe::graph::SDPA_backward_attributes()
                                        .set_name("attention_gradient")
                                        .set_deterministic_algorithm(order == Order::fixed));
    Tensor_attributes stats;
    describe(stats, lse, form_.lse_dims(), form_.lse_strides())
        .set_data_type(fe::DataType_t::FLOAT);
    auto [dq, dk, dv] = graph_->sdpa_backward(part(query), part(key), part(value), whole(y),
                                              whole(y_grad), graph_->tensor(stats), settings);
    for (const auto& [tensor, id] : {std::pair{dq, query_grad}, {dk, key_grad}, {dv, value_grad}})
      describe(*tensor, id, form_.dims(), form_.qkv_strides()).set_output(true);
    return graph_;
  }

 private:
  template <class Settings>
  Settings with_mask(Settings settings) const {
    settings.set_attn_scale(static_cast<float>(form_.scale()));
    if (!is_causal_) return settings;
    return settings.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }
  static Tensor_attributes& describe(Tensor_attributes& tensor, Id id,
                                     const AttentionFormat::Strides& dims,
                                     const AttentionFormat::Strides& strides) {
    return tensor.set_uid(id)
        .set_dim({dims.begin(), dims.end()})
        .set_stride({strides.begin(), strides.end()});
  }
  TensorPtr part(Id id) {
    Tensor_attributes tensor;
    return graph_->tensor(describe(tensor, id, form_.dims(), form_.qkv_strides()));
  }
  TensorPtr whole(Id id) {
    Tensor_attributes tensor;
    return graph_->tensor(describe(tensor, id, form_.dims(), form_.y_strides()));
  }

  AttentionFormat form_;
  bool is_causal_;
  std::shared_ptr<Graph> graph_;
};

/// A graph that is ready to run; null where cuDNN has no kernel for it.
struct Built {
  std::shared_ptr<Graph> graph;
  std::int64_t workspace_bytes = 0;
};

/// What was built so far, and the handle that runs it. Building takes tenths of a second, and a
/// program has the same attention once for each layer and micro-batch.
class Library {
 public:
  static Library& instance() {
    static Library& library = *new Library;  // never destroyed: at exit the driver may be gone
    return library;
  }

  Built find(const Problem& problem, Order order) {
    const std::lock_guard lock(mutex_);
    if (handle() == nullptr) return {};
    const auto* forward = problem.op.get_if<op::Attention>();
    const bool is_forward = forward != nullptr;
    const bool is_causal =
        is_forward ? forward->causal : problem.op.get<op::AttentionGradient>().causal;
    const AttentionFormat form(problem.shapes[0]);
    Builder builder(form, is_causal);
    const auto [place, is_new] = built_.try_emplace(
        {is_forward, is_causal, order, form.batch, form.time, form.heads, form.width});
    if (is_new) place->second = build(is_forward ? builder.forward() : builder.backward(order));
    return place->second;
  }

  /// `memory` is used up: the frontend adds pointers to locals of its own, and a map that has them
  /// keeps them the next time.
  void run(const Graph& graph, Memory memory, void* workspace, Stream stream) {
    const std::lock_guard lock(mutex_);
    check(cudnnSetStream(handle_, stream), "cudnnSetStream");
    check(graph.execute(handle_, memory, workspace), "attention runs");
  }

 private:
  Library() = default;

  /// Null without a device.
  cudnnHandle_t handle() {
    if (handle_ == nullptr && cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS) handle_ = nullptr;
    return handle_;
  }

  Built build(const std::shared_ptr<Graph>& graph) {
    if (graph->build(handle_, {fe::HeurMode_t::A}).is_bad()) return {};
    Built built{graph, 0};
    check(graph->get_workspace_size(built.workspace_bytes), "a graph has a workspace");
    return built;
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<std::tuple<bool, bool, Order, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           Built>
      built_;
};

Built built(const Problem& problem, Order order) {
  require(attention_fits(problem, order), "cuDNN is asked for attention that it may have");
  const Built found = Library::instance().find(problem, order);
  require(found.graph != nullptr, format("cuDNN has a kernel for {} of {}", op::name(problem.op),
                                         to_string(problem.shapes[0])));
  return found;
}

class Call {
 public:
  Call(const Problem& problem, std::shared_ptr<Graph> graph)
      : form_(problem.shapes[0]),
        is_forward_(problem.op.is<op::Attention>()),
        graph_(std::move(graph)) {}

  void operator()(Tensors operands, Workspace workspace, Stream stream) const {
    Memory memory;
    set_parts(operands[0], query, memory);
    memory[y] = operands[1].data;
    memory[lse] = operands[2].data;
    if (!is_forward_) {
      memory[y_grad] = operands[3].data;
      set_parts(operands[4], query_grad, memory);
    }
    Library::instance().run(*graph_, std::move(memory), library_part(workspace).data(), stream);
  }

 private:
  void set_parts(const Tensor& qkv, Id first, Memory& memory) const {
    for (std::int64_t part = 0; part < 3; ++part)
      memory[first + part] = qkv.as<BFloat16>() + form_.part_offset(part);
  }

  AttentionFormat form_;
  bool is_forward_;
  std::shared_ptr<Graph> graph_;
};

}  // namespace

bool is_built() {
  return true;
}

bool computes(const Problem& problem, Order order) {
  return attention_fits(problem, order) &&
         Library::instance().find(problem, order).graph != nullptr;
}

Enqueue prepare(const Problem& problem, Order order) {
  return Call(problem, built(problem, order).graph);
}

std::int64_t workspace_bytes(const Problem& problem, Order order) {
  return room_for_library(built(problem, order).workspace_bytes);
}

}  // namespace fourfold::kernels::cuda::cudnn
