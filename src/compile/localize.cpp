#include "compile/localize.h"

namespace fourfold::compile {

op::Op localize(op::Op op, const std::function<Shape(std::size_t)>& local_shape) {
  op::for_each_place(op, [&]<class T>(const op::Place& place, T& told) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (place.told != op::Place::Told::local_size) return;
      const Shape shape = local_shape(place.operand);
      told = shape[place.dim_of(shape)];
    } else if constexpr (std::is_same_v<T, Shape>) {
      told = local_shape(place.operand);
    }
  });
  return op;
}

}  // namespace fourfold::compile
