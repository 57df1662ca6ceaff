// fourfold bench --device cuda. Two folders have this function, cuda/ and no_cuda/, and CMake takes
// one.
#pragma once

#include "cli/commands.h"

namespace fourfold::cli {

/// `bench gemm|attention|kernels|copy` on the first GPU. Throws UserError(environment) where none
/// can be used.
void bench_cuda(const BenchArguments& arguments);

}  // namespace fourfold::cli
