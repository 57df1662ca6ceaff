#include "support/cuda_emulation/emulation.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace fourfold::cuda_emulation {

thread_local Place place;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t stack_bytes = 256 << 10;
/// A stack with what runs on it.
class Stack {
 public:
  /// The thread's own.
  Stack() = default;
  void prepare(void (*entry)()) {
    memory_ = std::make_unique_for_overwrite<char[]>(stack_bytes);
    bottom_ = memory_.get();
    size_ = stack_bytes;
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  /// Goes on there; returns when something comes back here. `for_ever`: nothing will.
  void switch_to(Stack& other, bool for_ever = false) {
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack_, other.bottom_, other.size_);
    left = this;
    swapcontext(&context_, &other.context_);
    arrived();
  }
  /// To be called first on a new stack.
  void arrived() { __sanitizer_finish_switch_fiber(fake_stack_, &left->bottom_, &left->size_); }

 private:
  static inline thread_local Stack* left = nullptr;
  std::unique_ptr<char[]> memory_;
  ucontext_t context_{};
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
};
#else
constexpr std::size_t stack_bytes = 64 << 10;
/// A stack with what runs on it. Once it runs, jumps take the place of swapcontext, which asks the
/// kernel for the signal mask each time.
class Stack {
 public:
  /// The thread's own.
  Stack() = default;
  void prepare(void (*entry)()) {
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

enum class State : std::uint8_t { ready, waits_for_warp, waits_for_block, done };

struct Fiber {
  Stack stack;
  State state = State::ready;
  unsigned phase = 0;
};

struct Warp {
  std::array<std::array<std::array<std::byte, slot_bytes>, 32>, 2> slots;
};

Order order_of_threads = Order::forward;
Streams streams_in_use;

/// 0 ... count - 1 in that order.
std::vector<unsigned> ordered(unsigned count) {
  std::vector<unsigned> list(count);
  for (unsigned i = 0; i < count; ++i) list[i] = i;
  if (order_of_threads == Order::backward) std::reverse(list.begin(), list.end());
  if (order_of_threads == Order::shuffled) {
    std::minstd_rand random(count);
    std::shuffle(list.begin(), list.end(), random);
  }
  return list;
}

/// The threads of the block that runs.
class Block {
 public:
  Block(unsigned threads, const std::function<void()>& body)
      : fibers_(threads), warps_(threads / 32), body_(body) {
    for (Fiber& fiber : fibers_) fiber.stack.prepare(&Block::enter);
  }

  /// Lets the fibers that have begun leave their stacks.
  void end() {
    is_over_ = true;
    for (unsigned thread = 0; thread < fibers_.size(); ++thread) resume(thread);
  }

  /// Once for each thread, warps in the given order.
  void run(const std::vector<unsigned>& order) {
    for (Fiber& fiber : fibers_) {
      fiber.state = State::ready;
      fiber.phase = 0;
    }
    while (true) {
      bool ran = false;
      for (const unsigned warp : order)
        while (run_warp(warp)) ran = true;
      if (all(0, fibers_.size(), State::done)) return;
      ran = release(0, fibers_.size(), State::waits_for_block) || ran;
      if (!ran)
        throw std::logic_error(
            "threads of a block wait for one another: a barrier or a shuffle is "
            "not reached by all of them");
    }
  }

  void wait(State state) {
    Fiber& fiber = fibers_[running_];
    fiber.state = state;
    fiber.stack.switch_to(main_);
  }

  Fiber& running() { return fibers_[running_]; }
  Warp& warp() { return warps_[running_ / 32]; }

 private:
  static void enter();

  void resume(unsigned thread) {
    running_ = thread;
    place.thread = {thread, 0, 0};
    main_.switch_to(fibers_[thread].stack);
  }

  bool all(std::size_t first, std::size_t last, State state) const {
    return std::all_of(fibers_.begin() + static_cast<std::ptrdiff_t>(first),
                       fibers_.begin() + static_cast<std::ptrdiff_t>(last),
                       [&](const Fiber& fiber) { return fiber.state == state; });
  }
  bool release(std::size_t first, std::size_t last, State state) {
    if (!all(first, last, state)) return false;
    for (std::size_t i = first; i < last; ++i) fibers_[i].state = State::ready;
    return true;
  }
  /// Runs a warp's lanes until each of them waits, lets them go on if all wait for the warp: a warp
  /// runs ahead of the others as far as barriers of the block allow. False: none of them could run.
  bool run_warp(unsigned warp) {
    const unsigned first = 32 * warp;
    bool ran = false;
    for (const unsigned lane : lanes_)
      if (fibers_[first + lane].state == State::ready) {
        resume(first + lane);
        ran = true;
      }
    return release(first, first + 32, State::waits_for_warp) || ran;
  }

  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> lanes_ = ordered(32);
  const std::function<void()>& body_;
  Stack main_;
  unsigned running_ = 0;
  bool is_over_ = false;
};

thread_local Block* block = nullptr;
thread_local std::byte* shared = nullptr;

void Block::enter() {
  Fiber& fiber = block->running();
  fiber.stack.arrived();
  while (!block->is_over_) {
    block->body_();
    fiber.state = State::done;
    fiber.stack.switch_to(block->main_);
  }
  fiber.stack.switch_to(block->main_, true);
}

}  // namespace

void set_streams(Streams streams) {
  streams_in_use = std::move(streams);
}
void enqueue(void* stream, std::function<void()> work) {
  if (streams_in_use.enqueue)
    streams_in_use.enqueue(stream, std::move(work));
  else
    work();
}
void synchronize(void* stream) {
  if (streams_in_use.synchronize) streams_in_use.synchronize(stream);
}

void set_order(Order order) {
  order_of_threads = order;
}

void run(Index3 blocks, unsigned threads, std::size_t shared_bytes,
         const std::function<void()>& body) {
  if (threads == 0 || threads > 1024 || threads % 32 != 0)
    throw std::logic_error("a block has " + std::to_string(threads) + " threads, not whole warps");
  Block own(threads, body);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(shared_bytes);
  block = &own;
  shared = memory.get();
  const std::vector<unsigned> order = ordered(threads / 32);
  for (const unsigned index : ordered(blocks.x * blocks.y * blocks.z)) {
    place.block = {index % blocks.x, index / blocks.x % blocks.y, index / blocks.x / blocks.y};
    place.threads = {threads, 1, 1};
    place.blocks = blocks;
    std::fill_n(memory.get(), shared_bytes, std::byte{0xFF});  // NaN in floats
    own.run(order);
  }
  own.end();
  block = nullptr;
  shared = nullptr;
}

std::byte* shared_memory() {
  return shared;
}
void wait_for_block() {
  block->wait(State::waits_for_block);
}
void wait_for_warp() {
  block->wait(State::waits_for_warp);
}

Exchange::Exchange(const void* bytes, std::size_t count) {
  phase_ = block->running().phase;
  block->running().phase ^= 1U;
  std::memcpy(block->warp().slots[phase_][place.thread.x % 32].data(), bytes, count);
  wait_for_warp();
}
const void* Exchange::slot(unsigned lane) const {
  return block->warp().slots[phase_][lane].data();
}

}  // namespace fourfold::cuda_emulation
