// Errors and exit codes. Not logging: who catches an error decides how it is shown.
#pragma once

#include <concepts>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fourfold {

/// How the process ends; the table that users and job scripts rely on. A code never changes its
/// meaning.
enum class ExitCode : int {
  done = 0,
  bad_config = 2,       // command line or configuration
  bad_data = 3,         // input data
  no_checkpoint = 4,    // none usable, or it does not fit the model
  does_not_fit = 5,     // memory, disk, divisibility: found at plan time
  storage = 6,          // storage error or full at run time; requeue after making space
  numeric_stop = 7,     // non-finite loss, gradient or state
  peer_lost = 8,        // requeue
  no_progress = 9,      // watchdog; requeue
  ranks_disagree = 10,  // binary, config, data or program
  output_in_use = 11,   // the output is there already, or another job holds it
  out_of_memory = 12,   // at run time
  environment = 13,     // driver, NCCL or MPI unusable
  internal = 70,        // an invariant broke: our bug
  stopped = 75,         // asked to stop, saved, resume me
};

/// A problem that the user can mend. The text says what was read, what was expected and what to do,
/// in one line (several lines when several problems are reported together).
class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// A broken invariant: a bug in Fourfold. Thrown by `require`.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_internal(std::string_view sentence,
                                std::source_location where = std::source_location::current());

/// Throws InternalError with the source location when `condition` is false. `sentence` states what
/// should hold.
inline void require(bool condition, std::string_view sentence,
                    std::source_location where = std::source_location::current()) {
  if (!condition) fail_internal(sentence, where);
}
/// As above, for a sentence that is made only when it is needed: what runs once for each value or
/// instruction of a program does not format text that nobody reads.
template <std::invocable Sentence>
void require(bool condition, const Sentence& sentence,
             std::source_location where = std::source_location::current()) {
  if (!condition) fail_internal(sentence(), where);
}

}  // namespace fourfold
