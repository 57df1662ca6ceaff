#include "comm/nccl_api.h"

#include <dlfcn.h>

#include <string_view>

#include "base/error.h"
#include "base/format.h"

#ifndef FOURFOLD_NCCL_LIBRARY
#define FOURFOLD_NCCL_LIBRARY ""  // a build without CUDA looks for none
#endif

namespace fourfold::comm {
namespace {

constexpr const char* library_name = "libnccl.so.2";
constexpr std::string_view advice =
    "install libnccl2 or the wheel nvidia-nccl-cu12 or -cu13 as CUDA is, and name its folder in "
    "LD_LIBRARY_PATH (scripts/cuda-libraries prints it)";

std::string text_of(int version) {
  return format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

class NcclLibrary {
 public:
  explicit NcclLibrary(const std::string& name)
      : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* why = dlerror();
    throw UserError(ExitCode::environment,
                    format("NCCL, by which GPUs talk to each other, cannot be loaded: {}; {}",
                           why != nullptr ? why : name.c_str(), advice));
  }

  /// Null where the library has no such function.
  template <class Function>
  void look_for(const char* function, Function*& found) const {
    found = reinterpret_cast<Function*>(dlsym(handle_, function));
  }
  template <class Function>
  void find(const char* function, Function*& found) const {
    look_for(function, found);
    if (found == nullptr)
      throw UserError(ExitCode::environment,
                      format("{} has no function {}, so it is no NCCL from {} on; {}", name_,
                             function, text_of(oldest_nccl), advice));
  }

 private:
  std::string name_;
  void* handle_;
};

}  // namespace

NcclApi load_nccl() {
  // As kernels/cuda/library_versions.cpp looks it up: Python's wheels have no folder that the
  // loader knows. What is loaded by its path is then found by its name.
  constexpr std::string_view built_with = FOURFOLD_NCCL_LIBRARY;
  if (!built_with.empty() && dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD) == nullptr)
    dlopen(built_with.data(), RTLD_LAZY | RTLD_LOCAL);
  return load_nccl(library_name);
}

NcclApi load_nccl(const std::string& library) {
  const NcclLibrary nccl(library);
  NcclApi api{};
  nccl.find("ncclGetVersion", api.get_version);
  int version = 0;
  if (api.get_version(&version) != NcclResult::success || version < oldest_nccl)
    throw UserError(ExitCode::environment,
                    format("{} is NCCL {}; {} or later is needed: {}", library, text_of(version),
                           text_of(oldest_nccl), advice));
  nccl.find("ncclGetUniqueId", api.get_unique_id);
  nccl.find("ncclCommInitRankConfig", api.comm_init_rank_config);
  nccl.find("ncclCommSplit", api.comm_split);
  nccl.find("ncclCommFinalize", api.comm_finalize);
  nccl.find("ncclCommDestroy", api.comm_destroy);
  nccl.find("ncclCommAbort", api.comm_abort);
  nccl.find("ncclCommGetAsyncError", api.comm_get_async_error);
  nccl.find("ncclGetErrorString", api.get_error_string);
  nccl.find("ncclGetLastError", api.get_last_error);
  nccl.find("ncclGroupStart", api.group_start);
  nccl.find("ncclGroupEnd", api.group_end);
  nccl.find("ncclAllReduce", api.all_reduce);
  nccl.find("ncclReduceScatter", api.reduce_scatter);
  nccl.find("ncclAllGather", api.all_gather);
  nccl.find("ncclSend", api.send);
  nccl.find("ncclRecv", api.recv);
  nccl.find("ncclMemAlloc", api.mem_alloc);
  nccl.find("ncclMemFree", api.mem_free);
  nccl.look_for("ncclCommRegister", api.comm_register);
  nccl.look_for("ncclCommDeregister", api.comm_deregister);
  if (api.comm_deregister == nullptr) api.comm_register = nullptr;
  if (api.comm_register == nullptr) api.comm_deregister = nullptr;
  return api;
}

std::string nccl_version(const NcclApi& api) {
  int version = 0;
  return api.get_version(&version) == NcclResult::success ? text_of(version) : "unknown";
}

NcclType nccl_type(DType type) {
  switch (type) {
    case DType::f32:
      return NcclType::f32;
    case DType::f64:
      return NcclType::f64;
    case DType::bf16:
      return NcclType::bf16;
    case DType::i32:
      return NcclType::i32;
    case DType::i64:
      return NcclType::i64;
    case DType::u64:
      return NcclType::u64;
    case DType::u8:
      return NcclType::u8;
  }
  fail_internal("every element type has one of NCCL's");
}

NcclReduction nccl_reduction(Reduction reduction) {
  return reduction == Reduction::sum ? NcclReduction::sum : NcclReduction::max;
}

}  // namespace fourfold::comm
