// The library of tests/bench/kernel_times.cpp with a CUPTI that was made up: it has two kernels of
// a graph, a copy and a clear to tell, in buffers that each hold one record.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "unit/checkpoint/temporary_folder.h"

extern "C" int InitializeInjection();

namespace {

CUpti_BuffersCallbackRequestFunc give_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc take_buffer = nullptr;
std::vector<CUpti_ActivityKind> enabled;
std::size_t dropped = 0;

template <class Record>
void deliver(const Record& record) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0, records = 0;
  give_buffer(&buffer, &bytes, &records);
  ASSERT_GE(bytes, sizeof record);
  std::memcpy(buffer, &record, sizeof record);
  take_buffer(nullptr, 0, buffer, bytes, sizeof record);
}

CUpti_ActivityKernel9 kernel(const char* name, std::uint64_t start, std::uint64_t end) {
  CUpti_ActivityKernel9 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = name;
  record.start = start;
  record.end = end;
  record.correlationId = 5;
  record.graphId = 3;
  return record;
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  give_buffer = give;
  take_buffer = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (std::getenv("NO_DRIVER") != nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  enabled.push_back(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_NOT_INITIALIZED";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                       CUpti_Activity** record) {
  if (valid == 0 || *record != nullptr) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* count) {
  *count = dropped;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  deliver(kernel("_ZN4ours4stepILi128EEEvPf", 1000, 1300));
  deliver(kernel("not mangled", 1300, 1400));
  CUpti_ActivityMemcpy5 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.correlationId = 6;
  copy.start = 1;
  copy.end = 2;
  deliver(copy);
  CUpti_ActivityMemset4 clear{};
  clear.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  clear.correlationId = 7;
  clear.graphId = 3;
  clear.start = 3;
  clear.end = 4;
  deliver(clear);
  return CUPTI_SUCCESS;
}

}  // extern "C"

namespace fourfold::test {
namespace {

TEST(KernelTimes, are_written_at_the_end_a_line_for_each_record) {
  const TemporaryFolder folder;
  const std::string path = folder.file("times");
  setenv("FOURFOLD_KERNEL_TIMES", path.c_str(), 1);
  EXPECT_EXIT(
      {
        const bool is_well = InitializeInjection() == 1 && enabled.size() == 3;
        std::exit(is_well ? 0 : 1);
      },
      testing::ExitedWithCode(0), "^$");
  EXPECT_EQ(read_bytes(path),
            "5\t3\t1000\t1300\tvoid ours::step<128>(float*)\n"
            "5\t3\t1300\t1400\tnot mangled\n"
            "6\t0\t1\t2\tcopy\n"
            "7\t3\t3\t4\tclear\n");
}

TEST(KernelTimes, that_are_lost_are_said) {
  const TemporaryFolder folder;
  setenv("FOURFOLD_KERNEL_TIMES", folder.file("times").c_str(), 1);
  EXPECT_EXIT(
      {
        dropped = 7;
        InitializeInjection();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "7 records were lost");
}

TEST(KernelTimes, without_a_driver_one_line_says_so_and_the_program_goes_on) {
  const TemporaryFolder folder;
  setenv("FOURFOLD_KERNEL_TIMES", folder.file("times").c_str(), 1);
  setenv("NO_DRIVER", "1", 1);
  EXPECT_EXIT(std::exit(InitializeInjection()), testing::ExitedWithCode(0),
              "^kernel_times: cuptiActivityEnable: CUPTI_ERROR_NOT_INITIALIZED\n$");
  unsetenv("NO_DRIVER");
}

}  // namespace
}  // namespace fourfold::test
