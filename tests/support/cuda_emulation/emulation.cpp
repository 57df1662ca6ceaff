#include "support/cuda_emulation/emulation.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/launch_shape.h"
#include "support/cuda_emulation/late_code.h"
#include "support/cuda_emulation/stack.h"

namespace fourfold::cuda_emulation {

thread_local Place place;

namespace {

enum class State : std::uint8_t { ready, waits_for_warp, waits_for_block, done };

/// Orders what threads do before they arrive before what they do after it: all that the thread
/// sanitizer learns of barriers. Of `turns`, two are in use: who has arrived at the next barrier
/// must not seem to have been at this one, which others still leave.
class Ordering {
 public:
#if defined(FOURFOLD_FIND_RACES)
  void arrive(unsigned turn) { __tsan_release(&turns_[turn % 2]); }
  void leave(unsigned turn) { __tsan_acquire(&turns_[turn % 2]); }
#else
  void arrive(unsigned) {}
  void leave(unsigned) {}
#endif

 private:
  std::array<char, 2> turns_{};
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool is_there;
};

struct Fiber {
  Stack stack;
  State state = State::ready;
  Site site;  // where it waits
  unsigned phase = 0;
  unsigned block_barriers = 0, warp_barriers = 0;  // passed so far
  std::vector<std::vector<Copy>> groups;  // of copies that are not waited for; the last is open
  bool has_begun = false;                 // begin_kernel() was called
};

struct Warp {
  std::array<std::array<std::array<std::byte, slot_bytes>, 32>, 2> slots;
  Ordering barrier;
};

std::string text_of(const Site& site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line());
}
bool are_same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == b.file_name();
}

Order order_of_threads = Order::forward;
Streams streams_in_use;
std::function<void(const void* kernel)> before_launch;

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
  explicit Block(unsigned threads) : fibers_(threads), warps_(threads / 32) {
    for (Fiber& fiber : fibers_) fiber.stack.prepare(&Block::enter);
#if defined(FOURFOLD_FIND_RACES)
    // Lanes read in slots what others wrote; that is what a shuffle is.
    AnnotateBenignRaceSized(__FILE__, __LINE__, warps_.data(), warps_.size() * sizeof(Warp),
                            "shuffle");
#endif
  }

  /// Lets the fibers that have begun leave their stacks.
  void end() {
    is_over_ = true;
    for (unsigned thread = 0; thread < fibers_.size(); ++thread) resume(thread);
  }

  /// `body` once for each thread, warps in the given order.
  void run(const std::vector<unsigned>& order, const std::function<void()>& body) {
    body_ = &body;
    lanes_ = ordered(32);
    for (Fiber& fiber : fibers_) {
      fiber.state = State::ready;
      fiber.phase = fiber.block_barriers = fiber.warp_barriers = 0;
      fiber.groups.assign(1, {});
    }
    launch_.arrive(0);
    while (true) {
      bool ran = false;
      for (const unsigned warp : order)
        while (run_warp(warp)) {
          if (!fault_.empty()) throw std::logic_error(fault_);
          ran = true;
        }
      if (all(0, fibers_.size(), State::done)) return launch_.leave(1);
      ran = release(0, fibers_.size(), State::waits_for_block) || ran;
      if (!ran)
        throw std::logic_error(
            "threads of a block wait for one another: a barrier or a shuffle is "
            "not reached by all of them");
    }
  }

  void wait(State state, const Site& site) {
    Fiber& fiber = fibers_[running_];
    fiber.state = state;
    fiber.site = site;
    fiber.stack.switch_to(main_);
  }
  void pass_block_barrier(const Site& site) {
    const unsigned turn = running().block_barriers++;
    barrier_.arrive(turn);
    wait(State::waits_for_block, site);
    barrier_.leave(turn);
  }
  void pass_warp_barrier(const Site& site) {
    const unsigned turn = running().warp_barriers++;
    warp().barrier.arrive(turn);
    wait(State::waits_for_warp, site);
    warp().barrier.leave(turn);
  }

  /// The running thread does not go on.
  void fail(const std::string& what) {
    fault_ = "thread " + std::to_string(running_) + ": " + what;
    wait(State::done, Site::current());
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
    for (std::size_t i = first; i < last; ++i) {
      if (!are_same(fibers_[i].site, fibers_[first].site))
        throw std::logic_error("threads wait for one another at different places: " +
                               text_of(fibers_[first].site) + " and " + text_of(fibers_[i].site));
      fibers_[i].state = State::ready;
    }
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
  std::vector<unsigned> lanes_;
  const std::function<void()>* body_ = nullptr;
  Stack main_;
  Ordering barrier_;
  Ordering launch_;  // the first turn is its begin, the second its end
  unsigned running_ = 0;
  bool is_over_ = false;
  std::string fault_;
};

thread_local Block* block = nullptr;
thread_local std::byte* shared = nullptr;

void Block::enter() {
  Fiber& fiber = block->running();
  fiber.stack.arrived();
  while (!block->is_over_) {
    block->launch_.leave(0);
    (*block->body_)();
    for (const std::vector<Copy>& group : fiber.groups)
      if (!group.empty()) block->fail("ends before an asynchronous copy that it has begun");
    block->launch_.arrive(1);
    fiber.state = State::done;
    fiber.stack.switch_to(block->main_);
  }
  fiber.stack.switch_to(block->main_, true);
}

/// By their number of threads. To make fibers takes longer than most kernels run.
struct KeptBlocks {
  std::map<unsigned, std::unique_ptr<Block>> of_threads;
  ~KeptBlocks() {
    for (const auto& [threads, kept] : of_threads)
      if (kept != nullptr) {
        block = kept.get();
        kept->end();
      }
  }
};

}  // namespace

void set_streams(Streams streams) {
  streams_in_use = std::move(streams);
}
void set_before_launch(std::function<void(const void* kernel)> call) {
  before_launch = std::move(call);
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
  thread_local KeptBlocks kept;
  // Not kept where it throws: its threads stand where they were.
  std::unique_ptr<Block> own = std::move(kept.of_threads[threads]);
  if (own == nullptr) own = std::make_unique<Block>(threads);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(shared_bytes);
  block = own.get();
  shared = memory.get();
  const std::vector<unsigned> order = ordered(threads / 32);
  for (const unsigned index : ordered(blocks.x * blocks.y * blocks.z)) {
    place.block = {index % blocks.x, index / blocks.x % blocks.y, index / blocks.x / blocks.y};
    place.threads = {threads, 1, 1};
    place.blocks = blocks;
    std::fill_n(memory.get(), shared_bytes, std::byte{0xFF});  // NaN in floats
    own->run(order, body);
  }
  kept.of_threads[threads] = std::move(own);
  block = nullptr;
  shared = nullptr;
}

namespace {

// CUDA C++ Programming Guide, "Compute Capabilities", of what code for compute capability 8.0 runs
// on. More than the default takes cudaFuncSetAttribute.
constexpr std::size_t default_shared_bytes = 48 << 10, most_shared_bytes = 163 << 10;
constexpr unsigned most_blocks_x = 0x7fffffffU, most_blocks_yz = 65535;

std::mutex allowed_mutex;
std::map<const void*, std::size_t> allowed_bytes;

}  // namespace

void allow_shared_memory(const void* kernel, std::size_t bytes) {
  if (bytes > most_shared_bytes)
    throw std::logic_error("a block wants " + std::to_string(bytes) +
                           " bytes of shared memory, more than a GPU has");
  const std::lock_guard lock(allowed_mutex);
  allowed_bytes[kernel] = bytes;
}

void check_launch(const void* kernel, Index3 blocks, std::size_t shared_bytes) {
  if (blocks.x > most_blocks_x || blocks.y > most_blocks_yz || blocks.z > most_blocks_yz)
    throw std::logic_error("a grid of " + std::to_string(blocks.x) + " x " +
                           std::to_string(blocks.y) + " x " + std::to_string(blocks.z) +
                           " blocks is larger than CUDA launches");
  {
    const std::lock_guard lock(allowed_mutex);
    const auto allowed = allowed_bytes.find(kernel);
    if (shared_bytes > (allowed == allowed_bytes.end()
                            ? default_shared_bytes
                            : std::max(default_shared_bytes, allowed->second)))
      throw std::logic_error("a kernel was not allowed " + std::to_string(shared_bytes) +
                             " bytes of shared memory");
  }
  if (before_launch) before_launch(kernel);
}

std::byte* shared_memory() {
  return shared;
}
void wait_for_block(Site site) {
  block->pass_block_barrier(site);
}
void wait_for_warp(Site site) {
  block->pass_warp_barrier(site);
}
void check_mask(unsigned mask) {
  if (mask != 0xffffffffU) throw std::logic_error("a mask is not of all lanes of a warp");
}

void fail(const std::string& what) {
  block->fail(what);
  std::abort();  // not reached: nobody lets the thread go on
}

void begin_kernel() {
  block->running().has_begun = true;
}
void end_kernel() {
  if (!std::exchange(block->running().has_begun, false))
    fail("a kernel does not begin with begin_kernel()");
}

void copy_async(void* to, const void* from, std::size_t bytes, bool is_there) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      (is_there && reinterpret_cast<std::uintptr_t>(from) % bytes != 0))
    fail("an asynchronous copy of " + std::to_string(bytes) + " bytes is not aligned");
  std::memset(to, 0xFF, bytes);
  block->running().groups.back().push_back({to, from, bytes, is_there});
}
void end_copy_group() {
  block->running().groups.emplace_back();
}
void wait_for_copies(std::size_t but) {
  std::vector<std::vector<Copy>>& groups = block->running().groups;
  while (groups.size() > but + 1) {
    for (const Copy& copy : groups.front())
      if (copy.is_there)
        std::memcpy(copy.to, copy.from, copy.bytes);
      else
        std::memset(copy.to, 0, copy.bytes);
    groups.erase(groups.begin());
  }
}

Exchange::Exchange(const void* bytes, std::size_t count, Site site) {
  phase_ = block->running().phase;
  block->running().phase ^= 1U;
  std::memcpy(block->warp().slots[phase_][place.thread.x % 32].data(), bytes, count);
  block->wait(State::waits_for_warp, site);
}
const void* Exchange::slot(unsigned lane) const {
  return block->warp().slots[phase_][lane].data();
}

}  // namespace fourfold::cuda_emulation
