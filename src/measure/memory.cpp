#include "measure/memory.h"

#include <sys/mman.h>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::measure {

namespace {

std::byte* reserve(std::int64_t size_bytes) {
  const auto size = static_cast<std::size_t>(size_bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw UserError(ExitCode::out_of_memory,
                    format("the system does not give {} of memory to measure in; free some",
                           format_bytes(size_bytes)));
  madvise(memory, size, MADV_HUGEPAGE);  // advice only: small pages serve as well
  return static_cast<std::byte*>(memory);
}

}  // namespace

Memory::Memory(std::int64_t size_bytes) : base_(reserve(size_bytes), Unmap{size_bytes}) {}

void Memory::Unmap::operator()(std::byte* base) const {
  munmap(base, static_cast<std::size_t>(size_bytes));
}

}  // namespace fourfold::measure
