// The end of a process that has no memory left, as orderly as any other. Not the usual way, which
// is an exception that somebody catches.
#pragma once

#include <exception>
#include <new>

namespace fourfold {

/// Writes the message to standard error without an allocation: there may be nothing left. Returns
/// the exit code of out_of_memory.
int report_out_of_memory(const char* message);

/// While it lives, an allocation that fails where nobody can catch it ends the process with that
/// message and exit code: in a destructor, on a thread of a library, or in what a library declares
/// noexcept though it copies names. Whatever else is not caught ends it as before.
class LastResort {
 public:
  /// The message must outlive the process: a literal.
  explicit LastResort(const char* message);
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;
  ~LastResort();

 private:
  std::terminate_handler terminate_before_;
  std::new_handler memory_before_;
};

}  // namespace fourfold
