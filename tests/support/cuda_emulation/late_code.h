// Tells whoever makes up a device that a kernel is about to be launched: its code may have to be
// loaded (support/fake_device.h). Apart from emulation.h, which all kernels include.
#pragma once

#include <functional>

namespace fourfold::cuda_emulation {

/// Called with each kernel by the thread that launches it, before the launch; null: nobody is told.
void set_before_launch(std::function<void(const void* kernel)> call);

}  // namespace fourfold::cuda_emulation
