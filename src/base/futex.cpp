#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>

namespace fourfold {
namespace {

constexpr int looks = 32;

/// Tells the core that this thread only looks.
void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

std::uint32_t Futex::wait(std::uint32_t value) {
  for (int i = 0; i < looks; ++i) {
    if (const std::uint32_t now = load(); now != value) return now;
    relax();
  }
  sleepers_.fetch_add(1);
  std::uint32_t now = word_.load();
  while (now == value) {
    // The kernel looks again before the thread sleeps; signals wake it too.
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
    now = word_.load();
  }
  sleepers_.fetch_sub(1);
  return now;
}

void Futex::wake_all() {
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max(), nullptr, nullptr,
          0);
}

}  // namespace fourfold
