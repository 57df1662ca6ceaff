// Versions of the libraries that go with CUDA: cuBLASLt is linked, cuDNN and NCCL are looked up by
// name, so that a program without them starts.
#include <cublasLt.h>
#include <dlfcn.h>

#include "base/format.h"
#include "kernels/cuda/devices.h"

namespace fourfold::kernels::cuda {
namespace {

/// The version in a number that is 10000 major + 100 minor + patch.
std::string version_text(std::size_t number) {
  return format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

/// The function of a library: of the one that this program uses, or else one that is loaded for it;
/// null where there is none. `path` is where the library lay at build time, `name` what the loader
/// finds elsewhere. It stays loaded.
template <class Function>
Function* function_of(const char* path, const char* name, const char* function) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr && path[0] != '\0') library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, function));
}

/// https://docs.nvidia.com/deeplearning/cudnn, cudnnGetVersion: from 9.0 on 10000 major + 100
/// minor.
std::string loaded_cudnn() {
  auto* version =
      function_of<std::size_t()>(FOURFOLD_CUDNN_LIBRARY, "libcudnn.so.9", "cudnnGetVersion");
  return version == nullptr ? "" : version_text(version());
}

/// https://docs.nvidia.com/deeplearning/nccl, ncclGetVersion: from 2.9 on 10000 major + 100 minor;
/// success is 0.
std::string loaded_nccl() {
  auto* version = function_of<int(int*)>(FOURFOLD_NCCL_LIBRARY, "libnccl.so.2", "ncclGetVersion");
  int number = 0;
  return version == nullptr || version(&number) != 0
             ? ""
             : version_text(static_cast<std::size_t>(number));
}

}  // namespace

std::vector<machine::CudaLibrary> libraries() {
  return {{"cuBLASLt", format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH),
           version_text(cublasLtGetVersion())},
          {"cuDNN", FOURFOLD_CUDNN_VERSION, loaded_cudnn()},
          {"NCCL", FOURFOLD_NCCL_VERSION, loaded_nccl()}};
}

}  // namespace fourfold::kernels::cuda
