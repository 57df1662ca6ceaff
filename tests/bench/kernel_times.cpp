// A shared library that CUDA loads into a program (CUDA_INJECTION64_PATH), and that writes when
// each kernel, copy and clear ran on the GPU, by the GPU's clock: CUPTI's activity records.
// Launches are not held for it, graphs stay graphs, and the program knows nothing of it. Not the
// figures: gpu_rows.py.
//
// A line each in the file that FOURFOLD_KERNEL_TIMES names: launch (all nodes of one launch of a
// graph have one number), graph (0: none), first and last nanosecond, name; with tabs between them.
// https://docs.nvidia.com/cupti, "CUPTI Activity API" and "CUPTI Initialization" (injection).
#include <cupti.h>
#include <cxxabi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

// Records that no device has filled yet; CUPTI asks for more where they do not do.
constexpr std::size_t buffer_bytes = std::size_t{4} << 20;

std::FILE* out = nullptr;

void write_line(std::uint32_t launch, std::uint32_t graph, std::uint64_t begin, std::uint64_t end,
                const char* name) {
  std::fprintf(out, "%u\t%u\t%llu\t%llu\t%s\n", launch, graph,
               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end), name);
}

void write_kernel(const CUpti_ActivityKernel9& kernel) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(kernel.name, nullptr, nullptr, &status), &std::free);
  write_line(kernel.correlationId, kernel.graphId, kernel.start, kernel.end,
             status == 0 ? name.get() : kernel.name);
}

/// Later versions of a record only add fields at its end.
void write_record(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
      record.kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    write_kernel(reinterpret_cast<const CUpti_ActivityKernel9&>(record));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
    write_line(copy.correlationId, copy.graphId, copy.start, copy.end, "copy");
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& clear = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    write_line(clear.correlationId, clear.graphId, clear.start, clear.end, "clear");
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *bytes = *buffer == nullptr ? 0 : buffer_bytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t, std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
    write_record(*record);
  std::size_t lost = 0;
  cuptiActivityGetNumDroppedRecords(context, stream, &lost);
  if (lost > 0)
    std::fprintf(stderr, "kernel_times: %zu records were lost; the times are too short\n", lost);
  std::free(buffer);
}

bool works(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = "unknown error";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernel_times: %s: %s\n", call, text);
  return false;
}

}  // namespace

/// Called by CUDA when it starts, in every process that it starts in; 1: all is well.
extern "C" int InitializeInjection() {
  const char* path = std::getenv("FOURFOLD_KERNEL_TIMES");
  if (path == nullptr) return 1;
  if (!works(cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
             "cuptiActivityRegisterCallbacks"))
    return 0;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (!works(cuptiActivityEnable(kind), "cuptiActivityEnable")) return 0;
  out = std::fopen(path, "w");
  if (out == nullptr) {
    std::fprintf(stderr, "kernel_times: %s cannot be written\n", path);
    return 0;
  }
  std::atexit([] {
    works(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    std::fclose(out);
  });
  return 1;
}
