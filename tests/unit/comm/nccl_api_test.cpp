// How NCCL is loaded: libraries that only have its names stand for it.
#include "comm/nccl_api.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace fourfold::comm {
namespace {

std::string fault_of_loading(const std::string& library) {
  try {
    load_nccl(library);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    return error.what();
  }
  return "loaded";
}

TEST(NcclApi, every_function_of_the_table_is_the_one_of_its_name) {
  const NcclApi api = load_nccl(NUMBERED_NCCL);
  EXPECT_EQ(nccl_version(api), "2.28.9");
  const auto number = [](NcclResult result) { return static_cast<int>(result); };
  EXPECT_EQ(number(api.get_unique_id(nullptr)), 101);
  EXPECT_EQ(number(api.comm_init_rank_config(nullptr, 0, {}, 0, nullptr)), 102);
  EXPECT_EQ(number(api.comm_split(nullptr, 0, 0, nullptr, nullptr)), 103);
  EXPECT_EQ(number(api.comm_finalize(nullptr)), 104);
  EXPECT_EQ(number(api.comm_destroy(nullptr)), 105);
  EXPECT_EQ(number(api.comm_abort(nullptr)), 106);
  EXPECT_EQ(number(api.comm_get_async_error(nullptr, nullptr)), 107);
  EXPECT_STREQ(api.get_error_string(NcclResult::success), "108");
  EXPECT_STREQ(api.get_last_error(nullptr), "109");
  EXPECT_EQ(number(api.group_start()), 110);
  EXPECT_EQ(number(api.group_end()), 111);
  EXPECT_EQ(number(api.all_reduce(nullptr, nullptr, 0, NcclType::f32, NcclReduction::sum, nullptr,
                                  nullptr)),
            112);
  EXPECT_EQ(number(api.reduce_scatter(nullptr, nullptr, 0, NcclType::f32, NcclReduction::sum,
                                      nullptr, nullptr)),
            113);
  EXPECT_EQ(number(api.all_gather(nullptr, nullptr, 0, NcclType::f32, nullptr, nullptr)), 114);
  EXPECT_EQ(number(api.send(nullptr, 0, NcclType::f32, 0, nullptr, nullptr)), 115);
  EXPECT_EQ(number(api.recv(nullptr, 0, NcclType::f32, 0, nullptr, nullptr)), 116);
  EXPECT_EQ(number(api.mem_alloc(nullptr, 0)), 117);
  EXPECT_EQ(number(api.mem_free(nullptr)), 118);
  ASSERT_TRUE(api.can_register());
  EXPECT_EQ(number(api.comm_register(nullptr, nullptr, 0, nullptr)), 119);
  EXPECT_EQ(number(api.comm_deregister(nullptr, nullptr)), 120);
}

TEST(NcclApi, a_library_that_cannot_register_memory_is_taken_without_that) {
  const NcclApi api = load_nccl(PLAIN_NCCL);
  EXPECT_EQ(nccl_version(api), "2.19.3");
  EXPECT_FALSE(api.can_register());
  EXPECT_EQ(api.comm_deregister, nullptr);
}

TEST(NcclApi, a_missing_library_is_one_clear_line) {
  const std::string text = fault_of_loading("/nowhere/libnccl.so.2");
  EXPECT_NE(text.find("NCCL, by which GPUs talk to each other, cannot be loaded: /nowhere/libnccl"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("LD_LIBRARY_PATH"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(NcclApi, a_version_that_is_too_old_is_named_with_the_one_that_is_needed) {
  const std::string text = fault_of_loading(OLD_NCCL);
  EXPECT_NE(text.find("is NCCL 2.18.6; 2.19.0 or later is needed"), std::string::npos) << text;
}

TEST(NcclApi, a_library_without_a_function_is_named_with_it) {
  const std::string text = fault_of_loading(HALF_NCCL);
  EXPECT_NE(text.find("has no function ncclGetUniqueId"), std::string::npos) << text;
}

TEST(NcclApi, every_element_type_has_one_of_its_own_size) {
  // Numbers as in nccl.h.
  EXPECT_EQ(static_cast<int>(nccl_type(DType::u8)), 1);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::i32)), 2);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::i64)), 4);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::u64)), 5);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::f32)), 7);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::f64)), 8);
  EXPECT_EQ(static_cast<int>(nccl_type(DType::bf16)), 9);
  EXPECT_EQ(static_cast<int>(nccl_reduction(Reduction::sum)), 0);
  EXPECT_EQ(static_cast<int>(nccl_reduction(Reduction::max)), 2);
}

}  // namespace
}  // namespace fourfold::comm
