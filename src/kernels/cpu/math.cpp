#include "kernels/cpu/math.h"

namespace fourfold::kernels::cpu {

const float exp2_least_f32 = -127.F;
const double exp2_least_f64 = -1023.;

}  // namespace fourfold::kernels::cpu
