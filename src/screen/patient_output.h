// Lines to a terminal, pipe or file of which nobody may be reading: nothing waits for a reader, and
// what cannot be told is counted. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold::screen {

class PatientOutput {
 public:
  /// Lines that are held back for a slow reader, in bytes; then new ones are dropped.
  static constexpr std::size_t most_held_bytes = std::size_t{1} << 16;

  /// `descriptor` must outlive this. A reader that goes away is no reason for SIGPIPE to end the
  /// process if the process ignores it.
  explicit PatientOutput(int descriptor) : descriptor_(descriptor) {}

  /// Writes what the reader takes at once, and holds back the rest.
  void write(std::string_view text);
  /// Gives a slow reader so long to take what is held back; the rest is dropped.
  void finish(double patience_s);

  /// Lines that nobody will read: dropped for a slow reader or after an error.
  std::int64_t lines_lost() const { return lines_lost_; }

 private:
  bool push(int patience_ms);
  void drop(std::string_view text);

  int descriptor_;
  std::string held_;
  bool is_broken_ = false;
  std::int64_t lines_lost_ = 0;
};

}  // namespace fourfold::screen
