// Runs CUDA kernels on the CPU, thread by thread: each thread of a block is a fiber that runs until
// it waits for others. Blocks run one after another.
//
// It sees: wrong indices (under sanitizers also reads and writes out of bounds and misaligned
// vectors, matrices and copies), missing barriers as far as some order of threads shows them,
// barriers and shuffles that part of a block or warp does not reach or reaches elsewhere,
// asynchronous copies that are not waited for or whose place is still read, masks of part of a
// warp, launches that CUDA refuses, wrong results; built with FOURFOLD_FIND_RACES and the thread
// sanitizer every two accesses of a block's threads that no barrier orders, in whatever order they
// ran (shuffles and votes order nothing, as in CUDA). It does not see: races of different blocks,
// static shared memory that is read before it is written, memory order, occupancy, registers, time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <type_traits>

namespace fourfold::cuda_emulation {

/// In which order blocks, warps and lanes run that all could. A warp runs ahead of the others as
/// far as barriers of the block allow. Results that depend on the order show a race.
enum class Order : std::uint8_t { forward, backward, shuffled };
void set_order(Order order);

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/// What CUDA calls threadIdx and so on, of the running thread.
struct Place {
  Index3 thread, block, threads, blocks;
};
extern thread_local Place place;

/// Runs body once for each thread of each block. Throws std::logic_error where threads of a block
/// wait for one another for ever, or leave while others wait.
void run(Index3 blocks, unsigned threads, std::size_t shared_bytes,
         const std::function<void()>& body);

/// Throws std::logic_error where CUDA refuses a launch on some GPU that is built for.
void check_launch(const void* kernel, Index3 blocks, std::size_t shared_bytes);
/// What cudaFuncSetAttribute does for a kernel.
void allow_shared_memory(const void* kernel, std::size_t bytes);

/// Who takes work that is given to a stream, and waits for it. Without one, work is done at once.
struct Streams {
  std::function<void(void* stream, std::function<void()> work)> enqueue;
  std::function<void(void* stream)> synchronize;
};
void set_streams(Streams streams);
void enqueue(void* stream, std::function<void()> work);
void synchronize(void* stream);

/// What every kernel that is launched calls first, and who launched it after it; the running thread
/// fails where the first call is missing.
void begin_kernel();
void end_kernel();

std::byte* shared_memory();

/// Where a kernel waits: those who wait for one another do so at the same place.
using Site = std::source_location;
void wait_for_block(Site site = Site::current());
void wait_for_warp(Site site = Site::current());
/// Throws std::logic_error unless the mask is of all lanes: all that this emulates.
void check_mask(unsigned mask);

/// The running thread does something that no device allows: `run` throws std::logic_error.
[[noreturn]] void fail(const std::string& what);

/// A copy of the running thread that may arrive at any time until it is waited for: its place holds
/// neither old nor new bytes before.
void copy_async(void* to, const void* from, std::size_t bytes, bool is_there);
void end_copy_group();
/// Ends all groups of the running thread but the last `but`.
void wait_for_copies(std::size_t but);

inline constexpr std::size_t slot_bytes = 32;
/// All lanes of the warp hand in their bytes and wait; then `slot(lane)` shows what each gave,
/// until the lane's next but one call.
struct Exchange {
  Exchange(const void* bytes, std::size_t count, Site site);
  const void* slot(unsigned lane) const;

 private:
  unsigned phase_;
};

template <class T>
T from_lane(T value, unsigned lane, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= slot_bytes);
  const Exchange exchange(&value, sizeof(T), site);
  std::memcpy(&value, exchange.slot(lane % 32), sizeof(T));
  return value;
}

}  // namespace fourfold::cuda_emulation
