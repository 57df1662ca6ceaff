#include "program/all_rows.h"

#include "base/format.h"
#include "op/examples.h"
#include "program/builder.h"

namespace fourfold::program {

Program all_rows() {
  const Mesh one_rank{"main", {{"data", 1}}, {Rank(0)}};
  Builder builder(op::ProgramKind::train, Rank(0), one_rank, {"math"});
  builder.task(TaskKind::forward, 0);
  std::size_t number = 0;
  for (const op::Example& example : op::examples()) {
    constexpr DType dtype = DType::bf16;
    Compute compute{example.op, dtype, {}, std::nullopt, "reference"};
    std::vector<Shape> shapes = example.reads;
    for (const Shape& shape : op::outputs(example.op, example.reads)) shapes.push_back(shape);
    const op::Operands operands = op::operands(example.op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::string name = format("row{}.{}", number, i);
      builder.buffer(name, shapes[i],
                     {BufferRole::activation, op::element_dtype(operands[i].element, dtype)});
      compute.slices.push_back(builder.slice(name));
    }
    builder.add("math", compute);
    ++number;
  }
  return builder.finish();
}

}  // namespace fourfold::program
