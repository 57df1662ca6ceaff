// A stack with what runs on it, to be left and gone back to: what a fiber is made of. Sanitizers
// are told of every switch. Not when to switch: emulation.cpp.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(FOURFOLD_FIND_RACES)
#include <sanitizer/tsan_interface.h>
// A function of the thread sanitizer; no header has it.
extern "C" void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory,
                                        unsigned long bytes, const char* why);
#endif

namespace fourfold::cuda_emulation {

#if defined(__SANITIZE_ADDRESS__) || defined(FOURFOLD_FIND_RACES)

class Stack {
 public:
  /// The thread's own.
  Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
#if defined(FOURFOLD_FIND_RACES)
  ~Stack() {
    if (memory_ != nullptr) __tsan_destroy_fiber(fiber_);
  }
#endif
  void prepare(void (*entry)()) {
    constexpr std::size_t stack_bytes = 256 << 10;
    memory_ = std::make_unique_for_overwrite<char[]>(stack_bytes);
    bottom_ = memory_.get();
    size_ = stack_bytes;
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
#if defined(FOURFOLD_FIND_RACES)
    fiber_ = __tsan_create_fiber(0);
#endif
  }
  /// Goes on there; returns when something comes back here. `for_ever`: nothing will.
  void switch_to(Stack& other, bool for_ever = false) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack_, other.bottom_, other.size_);
#else
    static_cast<void>(for_ever);
    if (fiber_ == nullptr) fiber_ = __tsan_get_current_fiber();
    // A switch orders nothing: only barriers do.
    __tsan_switch_to_fiber(other.fiber_, __tsan_switch_to_fiber_no_sync);
#endif
    left = this;
    swapcontext(&context_, &other.context_);
    arrived();
  }
  /// To be called first on a new stack.
  void arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack_, &left->bottom_, &left->size_);
#endif
  }

 private:
  static inline thread_local Stack* left = nullptr;
  std::unique_ptr<char[]> memory_;
  ucontext_t context_{};
  void* fake_stack_ = nullptr;
  void* fiber_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};

#else

/// Once it runs, jumps take the place of swapcontext, which asks the kernel for the signal mask
/// each time.
class Stack {
 public:
  /// The thread's own.
  Stack() = default;
  void prepare(void (*entry)()) {
    constexpr std::size_t stack_bytes = 64 << 10;
    memory_ = std::make_unique_for_overwrite<char[]>(stack_bytes);
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
    is_new_ = true;
  }
  /// Goes on there; returns when something comes back here. `for_ever`: nothing will.
  void switch_to(Stack& other, bool = false) {
    if (_setjmp(place_) != 0) return;
    if (!other.is_new_) _longjmp(other.place_, 1);
    other.is_new_ = false;
    setcontext(&other.context_);
  }
  void arrived() {}

 private:
  std::unique_ptr<char[]> memory_;
  ucontext_t context_{};
  jmp_buf place_{};
  bool is_new_ = false;
};

#endif

}  // namespace fourfold::cuda_emulation
