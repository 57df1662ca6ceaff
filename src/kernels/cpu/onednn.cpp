// Matrix products and convolutions by oneDNN: transposes are strides, accumulation is a sum
// post-op, the scratchpad is our workspace. A convolution takes pictures as they are, channels
// last, and weights in a format of its own, to which or from which they are reordered in each call:
// the reorder is a small part of the work, and what a weight is stored as stays ours.
#include "kernels/cpu/onednn.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "kernels/contract_sizes.h"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cpu::onednn {
namespace {

using dnnl::memory;

struct Primitive {
  dnnl::engine engine;
  dnnl::matmul::primitive_desc description;
};

/// oneDNN plans for the number of threads that OpenMP would start now.
void use_threads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

dnnl::engine cpu_engine() {
  return {dnnl::engine::kind::cpu, 0};
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}
/// The type of a result that a row leaves unrounded where it is `unrounded`.
memory::data_type type_of_result(DType dtype, bool unrounded) {
  return type_of(unrounded ? accumulation_type(dtype) : dtype);
}

/// Scratch is ours; `accumulate` adds to what is there.
dnnl::primitive_attr attributes_of(bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.F);
    attributes.set_post_ops(after);
  }
  return attributes;
}

/// What a primitive is to do, which oneDNN 3 describes in one step and oneDNN 2 in two.
template <class Primitive, class... Of>
typename Primitive::primitive_desc describe_as(const dnnl::engine& engine,
                                               const dnnl::primitive_attr& attributes,
                                               const Of&... of) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, of..., attributes};
#else
  return {typename Primitive::desc(of...), attributes, engine};
#endif
}
/// The same of a gradient, which is told what the forward primitive does.
template <class Primitive, class Forward, class... Of>
typename Primitive::primitive_desc describe_gradient_as(const dnnl::engine& engine,
                                                        const dnnl::primitive_attr& attributes,
                                                        const Forward& forward, const Of&... of) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, of..., forward, attributes};
#else
  return {typename Primitive::desc(of...), attributes, engine, forward};
#endif
}

// --- contract

memory::desc description_of(const MatrixForm& form) {
  return {{form.rows, form.columns}, type_of(form.dtype), {form.row_stride, form.column_stride}};
}

Primitive describe(const MatrixForm& a, const MatrixForm& b, const MatrixForm& out,
                   bool accumulate) {
  const dnnl::engine engine = cpu_engine();
  return {engine, describe_as<dnnl::matmul>(engine, attributes_of(accumulate), description_of(a),
                                            description_of(b), description_of(out))};
}

Primitive describe(const op::Contract& op, const Problem& problem) {
  use_threads(problem.threads);
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  const DType result = op.unrounded ? accumulation_type(problem.dtype) : problem.dtype;
  return describe({sizes.m, sizes.k, sizes.a_row_stride, sizes.a_inner_stride, problem.dtype},
                  {sizes.k, sizes.n, sizes.b_inner_stride, sizes.b_column_stride, problem.dtype},
                  {sizes.m, sizes.n, sizes.n, 1, result}, op.accumulate);
}

/// A product whose matrices are given when it is called. The handles in it are reference-counted by
/// oneDNN, so a copy names the same objects.
class Multiplication {
 public:
  explicit Multiplication(const Primitive& made)
      : stream_(made.engine),
        primitive_(made.description),
        a_(unbound(made.description.src_desc(), made.engine)),
        b_(unbound(made.description.weights_desc(), made.engine)),
        out_(unbound(made.description.dst_desc(), made.engine)),
        scratchpad_(unbound(made.description.scratchpad_desc(), made.engine)) {}

  /// Through the C interface: the C++ one builds a map on each call.
  void operator()(const void* a, const void* b, void* out, std::byte* scratch) const {
    const std::pair<int, std::pair<const memory*, void*>> bindings[] = {
        {DNNL_ARG_SRC, {&a_, const_cast<void*>(a)}},
        {DNNL_ARG_WEIGHTS, {&b_, const_cast<void*>(b)}},
        {DNNL_ARG_DST, {&out_, out}},
        {DNNL_ARG_SCRATCHPAD, {&scratchpad_, scratch}}};
    dnnl_exec_arg_t arguments[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& [handle, pointer] = bindings[i].second;
      handle->set_data_handle(pointer);
      arguments[i] = {bindings[i].first, handle->get()};
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream_.get(), 4, arguments);
    require(status == dnnl_success, "oneDNN executes a product it prepared");
  }

 private:
  static memory unbound(const memory::desc& description, const dnnl::engine& engine) {
    return {description, engine, DNNL_MEMORY_NONE};
  }

  dnnl::stream stream_;
  dnnl::matmul primitive_;
  memory a_, b_, out_, scratchpad_;
};

Run prepare_row(const op::Contract& op, const Problem& problem) {
  const std::int64_t bytes = size_bytes(problem.dtype),
                     result_bytes =
                         op.unrounded ? size_bytes(accumulation_type(problem.dtype)) : bytes;
  return [multiply = Multiplication(describe(op, problem)), bytes, result_bytes,
          sizes = contract_sizes(op, problem.shapes),
          threads = problem.threads](Tensors operands, Workspace workspace) {
    use_threads(threads);
    for (std::int64_t i = 0; i < sizes.count; ++i)
      multiply(operands[0].as<std::byte>() + i * sizes.m * sizes.k * bytes,
               operands[1].as<std::byte>() + i * sizes.k * sizes.n * bytes,
               operands[2].as<std::byte>() + i * sizes.m * sizes.n * result_bytes,
               workspace.data());
  };
}

std::int64_t bytes_for(const op::Contract& op, const Problem& problem) {
  return static_cast<std::int64_t>(describe(op, problem).description.scratchpad_desc().get_size());
}

// --- convolution

/// A primitive and what it works on: operands of the row, and pieces of the workspace.
class Step {
 public:
  Step(const dnnl::primitive& primitive, const dnnl::engine& engine)
      : primitive_(primitive), engine_(engine) {}

  void bind_operand(int argument, const memory::desc& description, std::size_t operand) {
    bindings_.push_back({argument, unbound(description), operand, std::nullopt});
  }
  void bind_workspace(int argument, const memory::desc& description, std::size_t offset) {
    bindings_.push_back({argument, unbound(description), 0, offset});
  }

  /// The call goes through the C interface, as that of a product does.
  void run(const dnnl::stream& stream, Tensors operands, std::byte* workspace) const {
    dnnl_exec_arg_t arguments[most_bindings];
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      const Binding& binding = bindings_[i];
      binding.handle.set_data_handle(binding.offset ? workspace + *binding.offset
                                                    : operands[binding.operand].data);
      arguments[i] = {binding.argument, binding.handle.get()};
    }
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_.get(), stream.get(), static_cast<int>(bindings_.size()), arguments);
    require(status == dnnl_success, "oneDNN executes a convolution it prepared");
  }

 private:
  static constexpr std::size_t most_bindings = 4;
  struct Binding {
    int argument;
    memory handle;
    std::size_t operand;
    std::optional<std::size_t> offset;  // in the workspace
  };
  memory unbound(const memory::desc& description) const {
    require(bindings_.size() < most_bindings, "a primitive has four operands at most");
    return {description, engine_, DNNL_MEMORY_NONE};
  }

  dnnl::primitive primitive_;
  dnnl::engine engine_;
  std::vector<Binding> bindings_;
};

/// A convolution in steps. The workspace holds the weights in oneDNN's format, then a scratchpad
/// that all steps use.
struct Convolving {
  std::vector<Step> steps;
  std::size_t weight_bytes = 0, scratch_bytes = 0;
};

constexpr std::size_t alignment = 64;  // a cache line

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Pictures (B, C, H, W) as oneDNN counts dims, stored with the channels last; weights (O, C, I, J)
/// as they are stored here, and in a format that oneDNN chooses; so their gradient.
struct ConvolutionForms {
  memory::desc x, y, weight, stored_weight, weight_grad, stored_weight_grad;
  memory::dims strides, padding;

  ConvolutionForms(const ConvolutionSizes& s, memory::data_type type, memory::data_type grad_type)
      : x({s.samples, s.channels, s.height, s.width}, type, memory::format_tag::nhwc),
        y({s.samples, s.outputs, s.rows, s.columns}, type, memory::format_tag::nhwc),
        weight(dims_of_weight(s), type, memory::format_tag::any),
        stored_weight(dims_of_weight(s), type, memory::format_tag::ohwi),
        weight_grad(dims_of_weight(s), grad_type, memory::format_tag::any),
        stored_weight_grad(dims_of_weight(s), grad_type, memory::format_tag::ohwi),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding} {}

 private:
  static memory::dims dims_of_weight(const ConvolutionSizes& s) {
    return {s.outputs, s.channels, s.kernel_height, s.kernel_width};
  }
};

// The algorithm is the direct one: its bound on rounding is that of a sum of products, and that of
// Winograd's algorithm is not.
constexpr auto algorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_of(const ConvolutionForms& of,
                                                     const dnnl::engine& engine) {
  return describe_as<dnnl::convolution_forward>(
      engine, attributes_of(false), dnnl::prop_kind::forward_training, algorithm, of.x, of.weight,
      of.y, of.strides, of.padding, of.padding);
}

dnnl::convolution_forward::primitive_desc describe(const op::Convolution&,
                                                   const ConvolutionForms& of,
                                                   const dnnl::engine& engine) {
  return forward_of(of, engine);
}
dnnl::convolution_backward_data::primitive_desc describe(const op::ConvolutionGradient&,
                                                         const ConvolutionForms& of,
                                                         const dnnl::engine& engine) {
  return describe_gradient_as<dnnl::convolution_backward_data>(
      engine, attributes_of(false), forward_of(of, engine), algorithm, of.x, of.weight, of.y,
      of.strides, of.padding, of.padding);
}
dnnl::convolution_backward_weights::primitive_desc describe(const op::ConvolutionWeightGradient&,
                                                            const ConvolutionForms& of,
                                                            const dnnl::engine& engine) {
  return describe_gradient_as<dnnl::convolution_backward_weights>(
      engine, attributes_of(false), forward_of(of, engine), algorithm, of.x, of.weight_grad, of.y,
      of.strides, of.padding, of.padding);
}

/// Reads operand 0 and the weight, operand 1, and writes operand 2.
template <class Primitive, class Description>
Convolving with_weight_read(const Description& description, const ConvolutionForms& of,
                            const std::pair<int, memory::desc>& from,
                            const std::pair<int, memory::desc>& to, const dnnl::engine& engine) {
  const memory::desc weight = description.weights_desc();
  const bool reorders = weight != of.stored_weight;
  Convolving made;
  made.weight_bytes = reorders ? aligned(weight.get_size()) : 0;
  const auto needs = [&](const memory::desc& scratchpad) {
    made.scratch_bytes = std::max(made.scratch_bytes, scratchpad.get_size());
  };
  if (reorders) {
    const dnnl::reorder::primitive_desc reorder(engine, of.stored_weight, engine, weight,
                                                attributes_of(false));
    Step& step = made.steps.emplace_back(dnnl::reorder(reorder), engine);
    step.bind_operand(DNNL_ARG_FROM, of.stored_weight, 1);
    step.bind_workspace(DNNL_ARG_TO, weight, 0);
    step.bind_workspace(DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc(), made.weight_bytes);
    needs(reorder.scratchpad_desc());
  }
  Step& step = made.steps.emplace_back(Primitive(description), engine);
  step.bind_operand(from.first, from.second, 0);
  if (reorders)
    step.bind_workspace(DNNL_ARG_WEIGHTS, weight, 0);
  else
    step.bind_operand(DNNL_ARG_WEIGHTS, weight, 1);
  step.bind_operand(to.first, to.second, 2);
  step.bind_workspace(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc(), made.weight_bytes);
  needs(description.scratchpad_desc());
  return made;
}

Convolving convolving(const op::Convolution& op, const ConvolutionForms& of,
                      const dnnl::engine& engine) {
  return with_weight_read<dnnl::convolution_forward>(
      describe(op, of, engine), of, {DNNL_ARG_SRC, of.x}, {DNNL_ARG_DST, of.y}, engine);
}
Convolving convolving(const op::ConvolutionGradient& op, const ConvolutionForms& of,
                      const dnnl::engine& engine) {
  return with_weight_read<dnnl::convolution_backward_data>(
      describe(op, of, engine), of, {DNNL_ARG_DIFF_DST, of.y}, {DNNL_ARG_DIFF_SRC, of.x}, engine);
}
/// The gradient in oneDNN's format, which a reorder then writes or adds to ours.
Convolving convolving(const op::ConvolutionWeightGradient& op, const ConvolutionForms& of,
                      const dnnl::engine& engine) {
  const auto description = describe(op, of, engine);
  const memory::desc gradient = description.diff_weights_desc();
  const dnnl::reorder::primitive_desc reorder(engine, gradient, engine, of.stored_weight_grad,
                                              attributes_of(op.accumulate));
  Convolving made;
  made.weight_bytes = aligned(gradient.get_size());
  made.scratch_bytes =
      std::max(description.scratchpad_desc().get_size(), reorder.scratchpad_desc().get_size());
  Step& first = made.steps.emplace_back(dnnl::convolution_backward_weights(description), engine);
  first.bind_operand(DNNL_ARG_SRC, of.x, 0);
  first.bind_operand(DNNL_ARG_DIFF_DST, of.y, 1);
  first.bind_workspace(DNNL_ARG_DIFF_WEIGHTS, gradient, 0);
  first.bind_workspace(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc(), made.weight_bytes);
  Step& second = made.steps.emplace_back(dnnl::reorder(reorder), engine);
  second.bind_workspace(DNNL_ARG_FROM, gradient, 0);
  second.bind_operand(DNNL_ARG_TO, of.stored_weight_grad, 2);
  second.bind_workspace(DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc(), made.weight_bytes);
  return made;
}

template <class Row>
Convolving convolving(const Row& op, const Problem& problem, const dnnl::engine& engine) {
  use_threads(problem.threads);
  bool unrounded = false;
  if constexpr (requires { op.unrounded; }) unrounded = op.unrounded;
  return convolving(op,
                    ConvolutionForms(convolution_sizes(op, problem.shapes), type_of(problem.dtype),
                                     type_of_result(problem.dtype, unrounded)),
                    engine);
}

template <class Row>
  requires requires(const Row& op, const Problem& problem) {
    convolution_sizes(op, problem.shapes);
  }
Run prepare_row(const Row& op, const Problem& problem) {
  const dnnl::engine engine = cpu_engine();
  return [steps = convolving(op, problem, engine).steps, stream = dnnl::stream(engine),
          threads = problem.threads](Tensors operands, Workspace workspace) {
    use_threads(threads);
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    for (const Step& step : steps)
      step.run(stream, operands, workspace.data() + (alignment - address % alignment) % alignment);
  };
}

template <class Row>
  requires requires(const Row& op, const Problem& problem) {
    convolution_sizes(op, problem.shapes);
  }
std::int64_t bytes_for(const Row& op, const Problem& problem) {
  const Convolving made = convolving(op, problem, cpu_engine());
  return static_cast<std::int64_t>(made.weight_bytes + made.scratch_bytes + alignment);
}

}  // namespace

bool computes(const op::Op& op, DType dtype) {
  const bool has_type = dtype == DType::f32 || (dtype == DType::bf16 && has_bf16());
  return has_type && op::visit_row(
                         [](const auto& row) {
                           return requires(const Problem& problem) { prepare_row(row, problem); };
                         },
                         op);
}

Run prepare_sgemm(const op::Contract& op, const Problem& problem) {
  require(problem.dtype == DType::f32, "oneDNN's interface of a BLAS is used in f32");
  return [sizes = contract_sizes(op, problem.shapes), transpose_a = op.transpose_a ? 'T' : 'N',
          transpose_b = op.transpose_b ? 'T' : 'N', keep = op.accumulate ? 1.F : 0.F,
          threads = problem.threads](Tensors operands, Workspace) {
    use_threads(threads);
    sizes.for_each_product(
        operands[0].as<float>(), operands[1].as<float>(), operands[2].as<float>(),
        [&](const float* a, const float* b, float* out) {
          const dnnl_status_t status =
              dnnl_sgemm(transpose_a, transpose_b, sizes.m, sizes.n, sizes.k, 1, a,
                         sizes.a_stride(), b, sizes.b_stride(), keep, out, sizes.n);
          require(status == dnnl_success, "oneDNN computes a product of matrices");
        });
  };
}

Run prepare(const Problem& problem) {
  require(computes(problem.op, problem.dtype), "oneDNN is used for products in f32 and bf16");
  return op::visit_row(
      [&](const auto& row) -> Run {
        if constexpr (requires { prepare_row(row, problem); }) return prepare_row(row, problem);
        return {};
      },
      problem.op);
}

std::int64_t workspace_bytes(const Problem& problem) {
  return op::visit_row(
      [&](const auto& row) -> std::int64_t {
        if constexpr (requires { bytes_for(row, problem); }) return bytes_for(row, problem);
        return 0;
      },
      problem.op);
}

ThreadProduct::ThreadProduct(const MatrixForm& a, const MatrixForm& b, const MatrixForm& out,
                             bool accumulate) {
  use_threads(1);
  const Primitive made = describe(a, b, out, accumulate);
  multiply_ = Multiplication(made);
  scratch_bytes_ = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(made.description.scratchpad_desc().get_size()));
}

bool has_bf16() {
  constexpr auto least = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & least) == least;
}

std::string version() {
  const dnnl_version_t* version = dnnl_version();
  return format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace fourfold::kernels::cpu::onednn
