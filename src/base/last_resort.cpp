#include "base/last_resort.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace fourfold {
namespace {

std::atomic<std::terminate_handler> usual_end{nullptr};
std::atomic<const char*> last_words{""};
thread_local bool an_allocation_failed = false;

void note_no_memory() {
  an_allocation_failed = true;
  throw std::bad_alloc();
}

[[noreturn]] void end_without_memory() {
  // The exception that nobody could catch; asking for it allocates nothing.
  const std::exception_ptr fault = std::current_exception();
  try {
    if (fault) std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    std::_Exit(report_out_of_memory(last_words));
  } catch (const std::exception&) {
  }
  // Before GCC 13, a noexcept function that has something to destroy ends the process without
  // catching what it was thrown, which cannot be asked for then.
  if (!fault && std::uncaught_exceptions() > 0 && an_allocation_failed)
    std::_Exit(report_out_of_memory(last_words));
  usual_end.load()();
  std::abort();
}

}  // namespace

int report_out_of_memory(const char* message) {
  std::fflush(stdout);
  std::fputs(message, stderr);
  return static_cast<int>(ExitCode::out_of_memory);
}

LastResort::LastResort(const char* message)
    : terminate_before_(std::get_terminate()), memory_before_(std::get_new_handler()) {
  last_words = message;
  if (terminate_before_ == end_without_memory) return;
  usual_end = terminate_before_;
  std::set_terminate(end_without_memory);
  std::set_new_handler(note_no_memory);
}

LastResort::~LastResort() {
  std::set_terminate(terminate_before_);
  std::set_new_handler(memory_before_);
}

}  // namespace fourfold
