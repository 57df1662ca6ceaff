// What comm/nccl_api.h declares of NCCL is what NCCL's own header does, where a build finds it.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "comm/nccl_api.h"

namespace fourfold::comm {
namespace {

/// What a parameter or a result of the header's is called in ours.
template <class T>
struct Ours {
  using Type = T;
};
template <>
struct Ours<ncclResult_t> {
  using Type = NcclResult;
};
template <>
struct Ours<ncclResult_t*> {
  using Type = NcclResult*;
};
template <>
struct Ours<ncclDataType_t> {
  using Type = NcclType;
};
template <>
struct Ours<ncclRedOp_t> {
  using Type = NcclReduction;
};
template <>
struct Ours<ncclUniqueId> {
  using Type = NcclUniqueId;
};
template <>
struct Ours<ncclUniqueId*> {
  using Type = NcclUniqueId*;
};
template <>
struct Ours<ncclConfig_t*> {
  using Type = NcclConfig*;
};

template <class Result, class... Parameters>
auto ours(Result (*)(Parameters...)) ->
    typename Ours<Result>::Type (*)(typename Ours<Parameters>::Type...);

#define SAME_FUNCTION(member, function) \
  static_assert(std::is_same_v<decltype(NcclApi::member), decltype(ours(function))>, #function)
SAME_FUNCTION(get_version, &ncclGetVersion);
SAME_FUNCTION(get_unique_id, &ncclGetUniqueId);
SAME_FUNCTION(comm_init_rank_config, &ncclCommInitRankConfig);
SAME_FUNCTION(comm_split, &ncclCommSplit);
SAME_FUNCTION(comm_finalize, &ncclCommFinalize);
SAME_FUNCTION(comm_destroy, &ncclCommDestroy);
SAME_FUNCTION(comm_abort, &ncclCommAbort);
SAME_FUNCTION(comm_get_async_error, &ncclCommGetAsyncError);
SAME_FUNCTION(get_error_string, &ncclGetErrorString);
SAME_FUNCTION(get_last_error, &ncclGetLastError);
SAME_FUNCTION(group_start, &ncclGroupStart);
SAME_FUNCTION(group_end, &ncclGroupEnd);
SAME_FUNCTION(all_reduce, &ncclAllReduce);
SAME_FUNCTION(reduce_scatter, &ncclReduceScatter);
SAME_FUNCTION(all_gather, &ncclAllGather);
SAME_FUNCTION(send, &ncclSend);
SAME_FUNCTION(recv, &ncclRecv);
SAME_FUNCTION(mem_alloc, &ncclMemAlloc);
SAME_FUNCTION(mem_free, &ncclMemFree);
SAME_FUNCTION(comm_register, &ncclCommRegister);
SAME_FUNCTION(comm_deregister, &ncclCommDeregister);
#undef SAME_FUNCTION

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
// The first part of theirs is all of ours.
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(NcclConfig, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));

TEST(NcclHeader, numbers_are_those_of_nccl) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig config;
  EXPECT_EQ(config.magic, theirs.magic);
  EXPECT_EQ(config.version, static_cast<unsigned>(NCCL_VERSION(2, 18, 0)));
  EXPECT_EQ(config.blocking, theirs.blocking);
  EXPECT_EQ(config.split_share, theirs.splitShare);
  EXPECT_EQ(oldest_nccl, NCCL_VERSION(2, 19, 0));
  EXPECT_LE(oldest_nccl, NCCL_VERSION_CODE);
  EXPECT_EQ(nccl_no_color, NCCL_SPLIT_NOCOLOR);
  const auto same = [](auto ours, auto theirs_) {
    return static_cast<int>(ours) == static_cast<int>(theirs_);
  };
  EXPECT_TRUE(same(NcclResult::success, ncclSuccess));
  EXPECT_TRUE(same(NcclResult::unhandled_cuda_error, ncclUnhandledCudaError));
  EXPECT_TRUE(same(NcclResult::system_error, ncclSystemError));
  EXPECT_TRUE(same(NcclResult::internal_error, ncclInternalError));
  EXPECT_TRUE(same(NcclResult::invalid_argument, ncclInvalidArgument));
  EXPECT_TRUE(same(NcclResult::invalid_usage, ncclInvalidUsage));
  EXPECT_TRUE(same(NcclResult::remote_error, ncclRemoteError));
  EXPECT_TRUE(same(NcclResult::in_progress, ncclInProgress));
  EXPECT_TRUE(same(NcclType::u8, ncclUint8));
  EXPECT_TRUE(same(NcclType::i32, ncclInt32));
  EXPECT_TRUE(same(NcclType::i64, ncclInt64));
  EXPECT_TRUE(same(NcclType::u64, ncclUint64));
  EXPECT_TRUE(same(NcclType::f32, ncclFloat32));
  EXPECT_TRUE(same(NcclType::f64, ncclFloat64));
  EXPECT_TRUE(same(NcclType::bf16, ncclBfloat16));
  EXPECT_TRUE(same(NcclReduction::sum, ncclSum));
  EXPECT_TRUE(same(NcclReduction::max, ncclMax));
}

}  // namespace
}  // namespace fourfold::comm
