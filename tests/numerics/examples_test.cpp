// Every row of the op table on the problems that it states itself (op/examples.h): its kernels
// within a bound that is derived from the reference alone, its gradient against central
// differences. A row that is added is covered by no line here.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/format.h"
#include "graph/autodiff.h"
#include "graph/gradients.h"
#include "numerics/harness.h"
#include "op/examples.h"

namespace fourfold::numerics {
namespace {

bool is_real(op::Element element) {
  return element == op::Element::compute || element == op::Element::accumulate ||
         element == op::Element::f64;
}

std::vector<Shape> all_shapes(const op::Example& example) {
  std::vector<Shape> shapes = example.reads;
  for (const Shape& shape : op::outputs(example.op, example.reads)) shapes.push_back(shape);
  return shapes;
}

Array operand_of(const op::Example& example, std::size_t index) {
  const op::Operand operand = op::operands(example.op)[index];
  const std::vector<Shape> shapes = all_shapes(example);
  const std::string name = format("{} {}", operand.name, index);
  if (!is_real(operand.element))
    return integers(shapes[index], name, op::integer_bound(example.op, shapes));
  const op::Range range = index < example.ranges.size() ? example.ranges[index] : op::Range{};
  return uniform(shapes[index], name, range.low, range.high);
}

/// How far each element of each output moves when every real number that the op reads moves by its
/// own size, one after another, beside its own size: |y| + sum of |x dy/dx|. What a kernel whose
/// every operation is rounded once may be wrong by, in units of that rounding. The sums that an
/// element is made of are as long as the list of numbers that it depends on.
struct Sensitivity {
  Arrays magnitude;
  double longest_sum = 1;
};

Sensitivity sensitivity_of(const Case& sample, const Arrays& outputs) {
  Sensitivity result{outputs, 1};
  std::vector<std::vector<double>> terms;
  for (Array& array : result.magnitude) {
    for (double& value : array.data) value = std::isfinite(value) ? std::abs(value) : 0;
    terms.emplace_back(array.data.size(), 0.0);
  }
  const op::Operands operands = op::operands(sample.op);
  Case moved = sample;
  const auto add = [&](Array& array) {
    for (double& value : array.data) {
      constexpr double step = 1e-6;
      const double original = value;
      value = original * (1 + step);
      const Arrays above = apply(sample.op, exact, moved.reads, moved.updates).values;
      value = original * (1 - step);
      const Arrays below = apply(sample.op, exact, moved.reads, moved.updates).values;
      value = original;
      for (std::size_t output = 0; output < outputs.size(); ++output)
        for (std::size_t i = 0; i < outputs[output].data.size(); ++i) {
          const double change =
              std::abs(above[output].data[i] - below[output].data[i]) / (2 * step);
          if (!(change > 0) || std::isinf(change)) continue;
          result.magnitude[output].data[i] += change;
          result.longest_sum = std::max(result.longest_sum, terms[output][i] += 1);
        }
    }
  };
  std::size_t update = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool is_read = i < sample.reads.size();
    if (!is_read && operands[i].role != op::Role::update) continue;
    Array& array = is_read ? moved.reads[i] : moved.updates[update++];
    if (is_real(operands[i].element)) add(array);
  }
  return result;
}

Case case_of(const op::Example& example) {
  Case made{.name = "example", .op = example.op, .reads = {}};
  const op::Operands operands = op::operands(example.op);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i < example.reads.size()) made.reads.push_back(operand_of(example, i));
    if (operands[i].role == op::Role::update) made.updates.push_back(operand_of(example, i));
  }
  made.reduction =
      sensitivity_of(made, apply(made.op, exact, made.reads, made.updates).values).longest_sum;
  made.magnitude = [](const Case& sample, const Arrays& outputs) {
    return sensitivity_of(sample, outputs).magnitude;
  };
  return made;
}

}  // namespace

std::vector<Case> example_cases() {
  std::vector<Case> cases;
  for (const op::Example& example : op::examples()) cases.push_back(case_of(example));
  return cases;
}

namespace {

/// One node in a graph whose real reads are activations, each the sum of a parameter and nothing,
/// with what differentiates the node's first output.
class Differentiated {
 public:
  explicit Differentiated(const op::Example& example) : builder_(op::ProgramKind::train) {
    const op::Operands operands = op::operands(example.op);
    std::vector<graph::ValueId> reads;
    for (std::size_t i = 0; i < example.reads.size(); ++i) {
      const Shape& shape = example.reads[i];
      const Array array = operand_of(example, i);
      if (!is_real(operands[i].element)) {
        reads.push_back(given(format("given{}", i), array, operands[i].element));
        continue;
      }
      const graph::ValueId zero = given(format("zero{}", i), filled(shape, 0));
      const graph::ValueId parameter =
          builder_.parameter(parameter_name(i), shape, op::Fill{0, shape});
      held_[parameter.index()] = array;
      reads.push_back(builder_.apply_one(op::AddBias{}, {zero, parameter}, format("read{}", i)));
    }
    const std::vector<graph::ValueId> outputs = builder_.apply(example.op, reads, "y");
    const Shape shape = builder_.graph().value(outputs[0]).shape;
    weight_ = uniform(shape, "weight");
    graph::differentiate(builder_, outputs[0], given("y_grad", weight_));
    run();
  }

  const Array& weight() const { return weight_; }
  /// Nothing where no gradient was made.
  std::optional<Array> gradient(std::size_t read) const {
    const auto id = builder_.graph().find(graph::gradient_name(parameter_name(read)));
    if (!id) return std::nullopt;
    return held_.at(id->index());
  }

 private:
  static std::string parameter_name(std::size_t read) { return format("parameter{}", read); }

  graph::ValueId given(const std::string& name, Array array,
                       op::Element element = op::Element::compute) {
    const graph::ValueId id =
        builder_.given(name, array.shape, element, graph::ValueRole::activation);
    held_[id.index()] = std::move(array);
    return id;
  }

  void run() {
    for (const graph::Node& node : builder_.graph().nodes) {
      Arrays reads;
      for (const graph::ValueId id : node.reads) reads.push_back(held_.at(id.index()));
      Arrays made = apply(node.op, exact, reads).values;
      for (std::size_t i = 0; i < made.size(); ++i)
        held_[node.outputs[i].index()] = std::move(made[i]);
    }
  }

  graph::Builder builder_;
  std::map<std::size_t, Array> held_;  // by value
  Array weight_;
};

/// layer_norm_apply: the gradient of x contains that of its moments, which are x too.
bool has_gradient_of_its_own(const op::Op& op) {
  return graph::has_gradient(op) && !op.is<op::LayerNormApply>();
}

TEST(Examples, every_gradient_equals_central_differences) {
  std::size_t rows = 0;
  for (op::Example example : op::examples()) {
    if (!has_gradient_of_its_own(example.op)) continue;
    SCOPED_TRACE(format("{} {}", op::name(example.op), op::attributes_text(example.op, {})));
    if (op::can_accumulate(example.op)) example.op = op::with_accumulate(example.op, false);
    ++rows;
    const Differentiated made(example);
    Arrays reads;
    for (std::size_t i = 0; i < example.reads.size(); ++i) reads.push_back(operand_of(example, i));
    const op::Operands operands = op::operands(example.op);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (!is_real(operands[i].element)) continue;
      const std::optional<Array> gradient = made.gradient(i);
      ASSERT_TRUE(gradient) << "read " << operands[i].name << " gets no gradient";
      expect_gradient(example.op, reads, i, {made.weight()}, *gradient);
    }
  }
  EXPECT_GE(rows, 8U);
}

TEST(Examples, hide_no_nan) {
  for (const Case& sample : example_cases())
    for (const Backend& backend : {exact, Backend{"vector", DType::f64}, {"vector", DType::f32}})
      expect_no_hidden_nan(sample, backend);
}

}  // namespace
}  // namespace fourfold::numerics
