#include "unit/run/allocation_counter.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {
namespace {

/// An allocation fails as the C++ library's own does: the program's handler hears of it first.
[[noreturn]] void fail() {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

std::atomic<bool> counting{false};
std::atomic<std::int64_t> own{0}, third_party{0};
std::atomic<void*> first_own{nullptr};
std::atomic<std::int64_t> seen{0}, failing{-1};  // failing: negative while nothing is counted
thread_local bool looking = false;               // the look-ups below may allocate

bool is_run_time_library(std::string_view path) {
  for (const std::string_view name : {"/libstdc++.so", "/libc.so", "/libgcc_s.so"})
    if (path.find(name) != path.npos) return true;
  return false;
}

void* base_of_this_program() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&base_of_this_program), &info);
  return info.dli_fbase;
}

/// Files an allocation whose operator new returns to `caller`.
[[gnu::noinline]] void count(void* caller) {
  looking = true;
  std::array<void*, 32> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  int frame = 0;
  while (frame < depth && frames[static_cast<std::size_t>(frame)] != caller) ++frame;
  bool is_own = true;  // when the stack cannot be read
  void* culprit = caller;
  for (; frame < depth; ++frame) {
    Dl_info info{};
    culprit = frames[static_cast<std::size_t>(frame)];
    if (dladdr(culprit, &info) == 0 || is_run_time_library(info.dli_fname)) continue;
    is_own = info.dli_fbase == base_of_this_program();
    break;
  }
  ++(is_own ? own : third_party);
  void* none = nullptr;
  if (is_own) first_own.compare_exchange_strong(none, culprit);
  looking = false;
}

[[gnu::noinline]] void* allocate(std::size_t bytes, std::size_t alignment, void* caller) {
  if (counting.load(std::memory_order_relaxed) && !looking) count(caller);
  const std::int64_t number = failing.load(std::memory_order_relaxed);
  if (number >= 0 && ++seen == number) fail();
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, whole)
                                                       : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) fail();
  return memory;
}

}  // namespace

AllocationCounter::AllocationCounter() {
  require(!counting, "one allocation counter counts at a time");
  std::array<void*, 2> frames{};
  backtrace(frames.data(), 2);  // loads libgcc now rather than while counting
  own = 0;
  third_party = 0;
  first_own = nullptr;
  counting = true;
}

AllocationCounter::~AllocationCounter() {
  counting = false;
}

Allocations AllocationCounter::stop() {
  counting = false;
  Allocations result{own, third_party, ""};
  if (void* address = first_own) {
    Dl_info info{};
    dladdr(address, &info);
    const auto offset = static_cast<std::byte*>(address) - static_cast<std::byte*>(info.dli_fbase);
    result.first_own = format("{}+{:#x}", info.dli_fname, offset);
  }
  return result;
}

void fail_allocation(std::int64_t number) {
  seen = 0;
  failing = number;
}

std::int64_t allocations_so_far() {
  return seen;
}

}  // namespace fourfold

// All replaceable operators: one left out would pair the library's allocation with our release.
void* operator new(std::size_t bytes) {
  return fourfold::allocate(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return fourfold::allocate(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return fourfold::allocate(bytes, static_cast<std::size_t>(alignment),
                            __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return fourfold::allocate(bytes, static_cast<std::size_t>(alignment),
                            __builtin_return_address(0));
}
// As std::stable_sort's buffer asks for it.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return fourfold::allocate(bytes, alignof(std::max_align_t), __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return fourfold::allocate(bytes, alignof(std::max_align_t), __builtin_return_address(0));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
