// Where OpenMP binds its threads, if the environment has it bind any.
#pragma once

#include <vector>

namespace fourfold::kernels::cpu {

/// The logical CPUs of all of OpenMP's places: those that the process might run on before OpenMP
/// bound its first thread to the first place, which it does when it is loaded. Empty where it binds
/// nothing.
std::vector<int> openmp_cores();

}  // namespace fourfold::kernels::cpu
