// The GPU itself behind run/cuda/device.h. This header compiles without CUDA.
#pragma once

#include <memory>

#include "run/cuda/device.h"

namespace fourfold::run::cuda {

/// Makes a context on the device of that number for this thread, which takes a part of a second and
/// some hundred MiB there. Errors: UserError(environment) where it does not answer.
std::unique_ptr<Device> open_device(int index);

}  // namespace fourfold::run::cuda
