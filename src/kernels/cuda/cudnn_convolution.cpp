// cuDNN's graph API through cudnn-frontend: one graph for each form of a convolution, of which the
// library proposes several plans, best first. https://docs.nvidia.com/deeplearning/cudnn/frontend,
// "Convolutions". Its dims are (B, C, H, W) and (O, C, I, J), whatever lies in memory; strides say
// that channels lie last.
#include "kernels/cuda/cudnn_convolution.h"

#include <cudnn_frontend.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn_check.h"

namespace fourfold::kernels::cuda::cudnn {
namespace {

namespace fe = cudnn_frontend;
using cublaslt::Precision;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Kind = ConvolutionForm::Kind;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

/// The first version whose kernels are asked for: 9.0, as cudnnGetVersion counts.
constexpr std::size_t least_version = 90000;

/// No plan may take more: as much as an arena can spare beside what a step keeps.
constexpr std::int64_t most_workspace_bytes = std::int64_t{256} << 20;

/// Names of tensors in a graph.
enum Id : std::int64_t { first = 1, second, bias, out };

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

/// Dims in cuDNN's order and their strides, channels last.
struct Place {
  std::vector<std::int64_t> dims, strides;

  static Place of(std::int64_t count, std::int64_t rows, std::int64_t columns,
                  std::int64_t channels) {
    return {{count, channels, rows, columns},
            {rows * columns * channels, 1, columns * channels, channels}};
  }
};

/// Who writes the gradient of a weight: the convolution, or an identity after it. cuDNN 9.19 has
/// kernels that compile what follows a convolution with it, and these give f32 of bf16.
enum class Output : std::uint8_t { direct, passed_on };

/// Writes down the tensors of one graph.
class Builder {
 public:
  explicit Builder(const ConvolutionForm& form)
      : form_(form), sizes_(form.sizes), graph_(std::make_shared<Graph>()) {
    graph_->set_io_data_type(type_of(form.in))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<Graph> graph(Output output) {
    TensorPtr result;
    if (form_.kind == Kind::forward) {
      result = graph_->conv_fprop(tensor(first, x()), tensor(second, weight()),
                                  as_told(fe::graph::Conv_fprop_attributes()));
      if (form_.adds_bias) {
        describe(*result, y());
        result =
            graph_->pointwise(result, tensor(bias, Place::of(1, 1, 1, sizes_.outputs)),
                              fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
      }
      describe(*result, y());
    } else if (form_.kind == Kind::x_gradient) {
      result = graph_->conv_dgrad(tensor(first, y()), tensor(second, weight()),
                                  as_told(fe::graph::Conv_dgrad_attributes()));
      describe(*result, x());
    } else {
      result = graph_->conv_wgrad(tensor(second, y()), tensor(first, x()),
                                  as_told(fe::graph::Conv_wgrad_attributes()));
      describe(*result, weight());
      if (output == Output::passed_on) {
        result->set_data_type(fe::DataType_t::FLOAT);
        result = graph_->pointwise(
            result, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY));
        describe(*result, weight());
      }
    }
    result->set_uid(out).set_output(true).set_data_type(type_of(form_.out));
    return graph_;
  }

 private:
  Place x() const {
    return Place::of(sizes_.samples, sizes_.height, sizes_.width, sizes_.channels);
  }
  Place y() const { return Place::of(sizes_.samples, sizes_.rows, sizes_.columns, sizes_.outputs); }
  Place weight() const {
    return Place::of(sizes_.outputs, sizes_.kernel_height, sizes_.kernel_width, sizes_.channels);
  }
  static void describe(Tensor_attributes& tensor, const Place& place) {
    tensor.set_dim(place.dims).set_stride(place.strides);
  }
  TensorPtr tensor(Id id, const Place& place) {
    Tensor_attributes tensor;
    describe(tensor, place);
    return graph_->tensor(tensor.set_uid(id));
  }
  template <class Settings>
  Settings as_told(Settings settings) const {
    return settings.set_padding({sizes_.padding, sizes_.padding})
        .set_stride({sizes_.stride, sizes_.stride})
        .set_dilation({1, 1});
  }

  ConvolutionForm form_;
  ConvolutionSizes sizes_;
  std::shared_ptr<Graph> graph_;
};

/// No plan may sum in less than f32, or compute in another domain, whose errors are not those of
/// sums of products. In full precision f32 is not rounded going in, as tensor cores do.
std::vector<fe::NumericalNote_t> refused(const ConvolutionForm& form,
                                         const ConvolutionMethod& method) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes = {Note::REDUCED_PRECISION_REDUCTION, Note::FFT, Note::WINOGRAD_TILE_6x6,
                             Note::WINOGRAD_TILE_13x13};
  if (method.order == Order::fixed) notes.push_back(Note::NONDETERMINISTIC);
  if (form.in == DType::f32 && method.precision == Precision::full) {
    notes.push_back(Note::TENSOR_CORE);
    notes.push_back(Note::DOWN_CONVERT_INPUTS);
  }
  return notes;
}

struct Plan {
  std::shared_ptr<Graph> graph;
  std::int64_t number = 0;  // among the graph's
};
struct Plans {
  std::vector<Plan> proposed = {}, built = {};
  std::size_t looked_at = 0;  // of those that are proposed
};

/// What was built so far, and the handle that runs it. Building takes tenths of a second, and a
/// program has the same convolution in several micro-batches.
class Library {
 public:
  static Library& instance() {
    static Library& library = *new Library;  // never destroyed: at exit the driver may be gone
    return library;
  }

  /// The last plan where there are fewer; nothing where there is none.
  std::optional<Plan> find(const ConvolutionForm& form, const ConvolutionMethod& method) {
    const std::lock_guard lock(mutex_);
    const std::vector<Plan>& built = build(form, method, method.candidate + 1);
    if (built.empty()) return std::nullopt;
    return built[std::min(static_cast<std::size_t>(method.candidate), built.size() - 1)];
  }
  int count(const ConvolutionForm& form, const ConvolutionMethod& method) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(build(form, method, max_convolution_candidates).size());
  }

  /// `memory` is used up: the frontend adds pointers of its own to it.
  void run(const Plan& plan, std::unordered_map<std::int64_t, void*> memory, void* workspace,
           Stream stream) {
    const std::lock_guard lock(mutex_);
    check(cudnnSetStream(handle_, stream), "cudnnSetStream");
    check(plan.graph->execute_plan_at_index(handle_, memory, workspace, plan.number),
          "a convolution runs");
  }

 private:
  Library() = default;

  /// Null without a device, and with a library that is too old.
  cudnnHandle_t handle() {
    if (handle_ == nullptr && cudnnGetVersion() >= least_version &&
        cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS)
      handle_ = nullptr;
    return handle_;
  }

  /// Builds plans until there are `wanted`, or none is left.
  const std::vector<Plan>& build(const ConvolutionForm& form, const ConvolutionMethod& method,
                                 int wanted) {
    if (handle() == nullptr) return none_;
    const auto [place, is_new] = plans_.try_emplace({form, method.precision, method.order});
    Plans& plans = place->second;
    if (is_new) {
      propose(form, method, Output::direct, plans);
      if (form.in != form.out) propose(form, method, Output::passed_on, plans);
    }
    for (; plans.looked_at < plans.proposed.size() && std::ssize(plans.built) < wanted;
         ++plans.looked_at) {
      const Plan& plan = plans.proposed[plans.looked_at];
      if (plan.graph->build_plan_at_index(handle_, plan.number).is_good())
        plans.built.push_back(plan);
    }
    return plans.built;
  }

  void propose(const ConvolutionForm& form, const ConvolutionMethod& method, Output output,
               Plans& plans) {
    const std::shared_ptr<Graph> graph = Builder(form).graph(output);
    // What works for more shapes follows the proposals of the heuristics.
    if (graph->validate().is_bad() || graph->build_operation_graph(handle_).is_bad() ||
        graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad())
      return;
    graph->deselect_workspace_greater_than(most_workspace_bytes);
    graph->deselect_numeric_notes(refused(form, method));
    for (std::int64_t i = 0; i < graph->get_execution_plan_count(); ++i)
      plans.proposed.push_back({graph, i});
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<std::tuple<ConvolutionForm, Precision, Order>, Plans> plans_;
  const std::vector<Plan> none_;
};

class Call {
 public:
  explicit Call(Plan plan) : plan_(std::move(plan)) {}

  void operator()(const void* first_data, const void* second_data, const void* bias_data,
                  void* out_data, Workspace workspace, Stream stream) const {
    // The frontend takes what it only reads without `const`.
    std::unordered_map<std::int64_t, void*> memory = {{first, const_cast<void*>(first_data)},
                                                      {second, const_cast<void*>(second_data)},
                                                      {out, out_data}};
    if (bias_data != nullptr) memory[bias] = const_cast<void*>(bias_data);
    Library::instance().run(plan_, std::move(memory), workspace.data(), stream);
  }

 private:
  Plan plan_;
};

}  // namespace

std::optional<LibraryConvolution> find_convolution(const ConvolutionForm& form,
                                                   const ConvolutionMethod& method) {
  std::optional<Plan> plan = Library::instance().find(form, method);
  if (!plan) return std::nullopt;
  std::int64_t bytes = 0;
  check(plan->graph->get_workspace_size_plan_at_index(plan->number, bytes),
        "a plan has a workspace");
  return LibraryConvolution{Call(std::move(*plan)), bytes};
}

int count_convolutions(const ConvolutionForm& form, const ConvolutionMethod& method) {
  return Library::instance().count(form, method);
}

}  // namespace fourfold::kernels::cuda::cudnn
