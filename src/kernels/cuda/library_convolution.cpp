#include "kernels/cuda/library_convolution.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/launch_shape.h"
#include "kernels/cuda/library_workspace.h"

namespace fourfold::kernels::cuda {
namespace {

using Kind = ConvolutionForm::Kind;

/// A convolution without what follows it. Numbers are those of the operands of the whole.
struct Core {
  op::Op op;
  std::vector<Shape> shapes;
  std::size_t first = 0, second = 1, out = 2;
  std::optional<std::size_t> bias = {};
};

std::optional<Core> core_of(const op::Op& op, op::Shapes shapes) {
  const auto* chain = op.get_if<op::Fused>();
  if (chain == nullptr) {
    if (!is_convolution(op)) return std::nullopt;
    return Core{op, {shapes.begin(), shapes.end()}};
  }
  if (!is_convolution(op)) return std::nullopt;
  const std::vector<std::size_t>& own = chain->piece(0).operands;
  Core core{chain->piece(0).op, {}, own[0], own[1], own[2], chain->piece(1).operands[1]};
  for (const std::size_t operand : own) core.shapes.push_back(shapes[operand]);
  return core;
}

/// An operand for a kernel that knows its shape: a list of dims would have to be copied.
Tensor bare(void* data, DType dtype) {
  return {data, {}, dtype};
}
Tensor bare(const Tensor& tensor) {
  return bare(tensor.data, tensor.dtype);
}

/// What a problem asks a library for, and what is done besides.
struct Task {
  Core core;
  ConvolutionForm form;
  bool widens = false;
  bool accumulates = false;
};

Task task_of(const Problem& problem, ConvolutionInput input) {
  std::optional<Core> core = core_of(problem.op, problem.shapes);
  require(core.has_value(), format("{} is a convolution", op::name(problem.op)));
  Task task{std::move(*core), {}};
  task.form.in = task.form.out = problem.dtype;
  task.form.adds_bias = task.core.bias.has_value();
  const op::Shapes shapes = task.core.shapes;
  if (const auto* forward = task.core.op.get_if<op::Convolution>()) {
    task.form.sizes = convolution_sizes(*forward, shapes);
  } else if (const auto* gradient = task.core.op.get_if<op::ConvolutionGradient>()) {
    task.form.kind = Kind::x_gradient;
    task.form.sizes = convolution_sizes(*gradient, shapes);
  } else {
    const auto& weight = task.core.op.get<op::ConvolutionWeightGradient>();
    task.form.kind = Kind::weight_gradient;
    task.form.sizes = convolution_sizes(weight, shapes);
    task.accumulates = weight.accumulate;
    // Sums that are added to others are not rounded before.
    if (weight.unrounded || weight.accumulate) task.form.out = DType::f32;
  }
  if (input == ConvolutionInput::widened) task.form.in = DType::f32;
  task.widens = task.form.in != problem.dtype;
  return task;
}

/// True if widening may help: for a sum of f32 from bf16, of a weight with so few tiles that a
/// kernel with a block for each of them leaves most of a GPU idle.
bool allows(const Task& task, const Problem& problem, ConvolutionInput input) {
  constexpr std::int64_t tile = 128, multiprocessors = 132;  // an H100's
  if (input == ConvolutionInput::as_stored) return true;
  const ConvolutionSizes& sizes = task.form.sizes;
  return problem.dtype == DType::bf16 && task.form.kind == Kind::weight_gradient &&
         task.form.out == DType::f32 &&
         ceil_divide(sizes.outputs, tile) * ceil_divide(sizes.taps() * sizes.channels, tile) <
             multiprocessors;
}

struct Found {
  LibraryConvolution library;
  bool adds_bias = false;
};
std::optional<Found> find_for(const Task& task, const FindConvolution& find) {
  if (auto whole = find(task.form)) return Found{std::move(*whole), task.form.adds_bias};
  if (!task.form.adds_bias) return std::nullopt;
  ConvolutionForm alone = task.form;
  alone.adds_bias = false;
  if (auto found = find(alone)) return Found{std::move(*found), false};
  return std::nullopt;
}

Found found_for(const Problem& problem, const Task& task, const FindConvolution& find) {
  std::optional<Found> found = find_for(task, find);
  require(found.has_value(),
          format("the library has a kernel for {} of {} in {}", op::name(problem.op),
                 to_string(task.core.shapes[0]), to_string(problem.dtype)));
  return std::move(*found);
}

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + library_alignment - 1) / library_alignment * library_alignment;
}

/// Bytes of the workspace before the library's part: operands in f32, then sums in f32.
struct Scratch {
  std::int64_t first = 0, second = 0, sums = 0;

  explicit Scratch(const Task& task) {
    const auto bytes = [&](std::size_t operand) {
      return rounded_up(task.core.shapes[operand].elements() * size_bytes(DType::f32));
    };
    if (task.widens) first = bytes(0), second = bytes(1);
    if (task.accumulates) sums = bytes(2);
  }
  std::int64_t bytes() const { return first + second + sums; }
};

Problem elementwise(const op::Op& op, DType dtype, const Shape& shape, std::size_t operands) {
  return {op, dtype, std::vector<Shape>(operands, shape), 1};
}

/// out += sums, in f32. In bf16, out is rounded once.
Enqueue adding(const Shape& shape, DType out) {
  if (out == DType::f32)
    return [add = prepare_own(elementwise(op::Add{}, out, shape, 3))](Tensors operands, Workspace,
                                                                      Stream stream) {
      const Tensor old = bare(operands[0]);
      add(std::array{old, bare(operands[1]), old}, {}, stream);
    };
  return [add = prepare_own(elementwise(op::AddRounded{}, out, shape, 3)),
          round = prepare_own(elementwise(op::Cast{}, out, shape, 2))](Tensors operands, Workspace,
                                                                       Stream stream) {
    const Tensor &old = operands[0], sums{operands[1].data, old.shape, DType::f32};
    add(std::array{bare(sums), bare(old), bare(sums)}, {}, stream);
    round(std::array{sums, old}, {}, stream);
  };
}

/// All that a call needs.
struct Prepared {
  Task task;
  Scratch scratch;
  Convolve convolve;
  bool adds_bias;
  std::array<Enqueue, 2> widen = {};
  Enqueue add_bias = {}, add = {};

  Prepared(const Problem& problem, Task its, Found found)
      : task(std::move(its)),
        scratch(task),
        convolve(std::move(found.library.run)),
        adds_bias(found.adds_bias) {
    const std::vector<Shape>& shapes = task.core.shapes;
    if (task.widens)
      for (std::size_t i = 0; i < 2; ++i)
        widen[i] = prepare_own(elementwise(op::Widen{}, problem.dtype, shapes[i], 2));
    if (task.accumulates)
      add = adding(shapes[2], task.core.op.get<op::ConvolutionWeightGradient>().unrounded
                                  ? DType::f32
                                  : problem.dtype);
    if (!task.core.bias || adds_bias) return;
    const Shape& bias = problem.shapes[*task.core.bias];
    add_bias = prepare_own({op::AddBias{}, problem.dtype, {shapes[2], bias, shapes[2]}, 1});
  }

  void operator()(Tensors operands, Workspace workspace, Stream stream) const {
    const Core& core = task.core;
    std::array<const void*, 2> read{operands[core.first].data, operands[core.second].data};
    const Tensor out = bare(operands[core.out]);
    Workspace rest = library_part(workspace);
    const auto take = [&](std::int64_t bytes) {
      void* const memory = rest.data();
      rest = rest.subspan(static_cast<std::size_t>(bytes));
      return memory;
    };
    if (task.widens)
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor wide = bare(take(i == 0 ? scratch.first : scratch.second), DType::f32);
        const Tensor from = bare(operands[i == 0 ? core.first : core.second]);
        widen[i](std::array{from, wide}, {}, stream);
        read[i] = wide.data;
      }
    const Tensor sums = task.accumulates ? bare(take(scratch.sums), DType::f32) : out;
    const void* const bias = core.bias ? operands[*core.bias].data : nullptr;
    convolve(read[0], read[1], adds_bias ? bias : nullptr, sums.data, rest, stream);
    if (task.accumulates) add(std::array{operands[core.out], sums}, {}, stream);
    if (add_bias) add_bias(std::array{out, bare(operands[*core.bias]), out}, {}, stream);
  }
};

}  // namespace

bool is_convolution(const op::Op& op) {
  if (const auto* chain = op.get_if<op::Fused>())
    return chain->chain_name() == "convolution+add_bias";
  return op.is<op::Convolution>() || op.is<op::ConvolutionGradient>() ||
         op.is<op::ConvolutionWeightGradient>();
}

bool has_convolution(const Problem& problem, ConvolutionInput input, const FindConvolution& find) {
  if (!is_convolution(problem.op) || (problem.dtype != DType::f32 && problem.dtype != DType::bf16))
    return false;
  const Task task = task_of(problem, input);
  return allows(task, problem, input) && find_for(task, find).has_value();
}

Enqueue prepare_convolution(const Problem& problem, ConvolutionInput input,
                            const FindConvolution& find) {
  Task task = task_of(problem, input);
  Found found = found_for(problem, task, find);
  return Prepared(problem, std::move(task), std::move(found));
}

std::int64_t convolution_workspace_bytes(const Problem& problem, ConvolutionInput input,
                                         const FindConvolution& find) {
  const Task task = task_of(problem, input);
  return room_for_library(Scratch(task).bytes() +
                          found_for(problem, task, find).library.workspace_bytes);
}

std::optional<ConvolutionProduct> product_of_convolution(const Problem& problem) {
  if (!is_convolution(problem.op)) return std::nullopt;
  const Task task = task_of(problem, ConvolutionInput::as_stored);
  const Core& core = task.core;
  const ConvolutionSizes& sizes = task.form.sizes;
  if (sizes.taps() != 1 || sizes.stride != 1 || sizes.padding != 0) return std::nullopt;
  const Shape x{sizes.pixels(), sizes.channels}, y{sizes.places(), sizes.outputs},
      weight{sizes.outputs, sizes.channels};
  op::Contract contract;
  ConvolutionProduct product{{contract, problem.dtype, {}, problem.threads},
                             {core.first, core.second, core.out}};
  std::vector<Shape>& shapes = product.problem.shapes;
  if (task.form.kind == Kind::forward) {
    contract.transpose_b = true;
    shapes = {x, weight, y};
  } else if (task.form.kind == Kind::x_gradient) {
    shapes = {y, weight, x};
  } else {
    const auto& gradient = core.op.get<op::ConvolutionWeightGradient>();
    contract.transpose_a = true;
    contract.accumulate = gradient.accumulate;
    contract.unrounded = gradient.unrounded;
    shapes = {y, x, weight};
    std::swap(product.operands[0], product.operands[1]);
  }
  product.problem.op = contract;
  if (core.bias) {
    shapes.insert(shapes.begin() + 2, problem.shapes[*core.bias]);
    product.operands.insert(product.operands.begin() + 2, *core.bias);
    product.problem.op =
        std::get<op::Fused>(op::Fused::of({{contract, {0, 1, 3}}, {op::AddBias{}, {3, 2, 3}}}));
  }
  return product;
}

Enqueue on_operands_of_convolution(const ConvolutionProduct& product, Enqueue kernel) {
  return [numbers = product.operands, kernel = std::move(kernel)](
             Tensors operands, Workspace workspace, Stream stream) {
    std::array<Tensor, 4> own;
    for (std::size_t i = 0; i < numbers.size(); ++i) own[i] = bare(operands[numbers[i]]);
    kernel(Tensors(own).first(numbers.size()), workspace, stream);
  };
}

}  // namespace fourfold::kernels::cuda
