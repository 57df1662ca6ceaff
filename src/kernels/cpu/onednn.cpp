// Matrix products by oneDNN: transposes are strides, accumulation is a sum post-op, the scratchpad
// is our workspace.
#include "kernels/cpu/onednn.h"

#include <omp.h>

#include <dnnl.hpp>

#include "base/error.h"
#include "base/format.h"
#include "kernels/matmul_sizes.h"

namespace fourfold::kernels::cpu::onednn {
namespace {

using dnnl::memory;

struct Primitive {
  dnnl::engine engine;
  dnnl::matmul::primitive_desc description;
};

/// oneDNN plans for the number of threads that OpenMP would start now.
Primitive describe(const op::Matmul& op, const Problem& problem) {
  require(problem.dtype == DType::f32, "oneDNN's matmul is used in f32");
  if (omp_get_max_threads() != problem.threads) omp_set_num_threads(problem.threads);
  const MatmulSizes sizes = matmul_sizes(op, problem.shapes);
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                         std::int64_t column_stride) {
    return memory::desc({rows, columns}, memory::data_type::f32, {row_stride, column_stride});
  };
  const dnnl::matmul::desc product(
      matrix(sizes.m, sizes.k, sizes.a_row_stride, sizes.a_inner_stride),
      matrix(sizes.k, sizes.n, sizes.b_inner_stride, sizes.b_column_stride),
      matrix(sizes.m, sizes.n, sizes.n, 1));
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (op.accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.F);
    attributes.set_post_ops(after);
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return {engine, dnnl::matmul::primitive_desc(product, attributes, engine)};
}

/// The handles in it are reference-counted by oneDNN, so a copy names the same objects.
struct Product {
  dnnl::stream stream;
  dnnl::matmul primitive;
  memory a, b, out, scratchpad;
  int threads;

  /// Through the C interface: the C++ one builds a map on each call.
  void operator()(Tensors operands, Workspace workspace) const {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
    const std::pair<int, std::pair<const memory*, void*>> bindings[] = {
        {DNNL_ARG_SRC, {&a, operands[0].data}},
        {DNNL_ARG_WEIGHTS, {&b, operands[1].data}},
        {DNNL_ARG_DST, {&out, operands[2].data}},
        {DNNL_ARG_SCRATCHPAD, {&scratchpad, workspace.data()}}};
    dnnl_exec_arg_t arguments[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& [handle, pointer] = bindings[i].second;
      handle->set_data_handle(pointer);
      arguments[i] = {bindings[i].first, handle->get()};
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive.get(), stream.get(), 4, arguments);
    require(status == dnnl_success, "oneDNN executes a matmul it prepared");
  }
};

}  // namespace

Run prepare(const op::Matmul& op, const Problem& problem) {
  const Primitive made = describe(op, problem);
  const auto unbound = [&](const memory::desc& description) {
    return memory(description, made.engine, DNNL_MEMORY_NONE);
  };
  return Product{dnnl::stream(made.engine),
                 dnnl::matmul(made.description),
                 unbound(made.description.src_desc()),
                 unbound(made.description.weights_desc()),
                 unbound(made.description.dst_desc()),
                 unbound(made.description.scratchpad_desc()),
                 problem.threads};
}

std::int64_t workspace_bytes(const op::Matmul& op, const Problem& problem) {
  return static_cast<std::int64_t>(describe(op, problem).description.scratchpad_desc().get_size());
}

std::string version() {
  const dnnl_version_t* version = dnnl_version();
  return format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace fourfold::kernels::cpu::onednn
