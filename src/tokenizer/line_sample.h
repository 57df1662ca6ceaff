// Lines of texts to learn from, of which only so many are kept that they fit in memory. Not an
// order: which lines are kept depends on their numbers alone.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace fourfold::tokenizer {

class LineSample {
 public:
  /// Lines above `most_line_bytes` are cut into several, after a space where there is one; of all
  /// lines at most `most_bytes` are kept, chosen evenly.
  LineSample(std::int64_t most_bytes, std::size_t most_line_bytes);

  /// A text, or what follows of one. `place` is where it stands, for messages: "a.txt from byte
  /// 1048570". Errors: UserError(bad_data) with place and byte for what is not UTF-8.
  void add(std::string_view text, std::string_view place);
  /// The line that is still open ends here, as where a document ends.
  void finish();

  /// The next of the kept lines, which is then forgotten; requires one.
  std::string take();
  bool empty() const { return kept_.empty(); }

  std::int64_t lines_seen() const { return lines_seen_; }
  std::int64_t lines_kept() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t lines_cut() const { return lines_cut_; }
  std::int64_t bytes_seen() const { return bytes_seen_; }
  std::int64_t bytes_kept() const { return bytes_kept_; }

 private:
  struct Line {
    std::string text;
    std::uint64_t lot = 0;
  };

  void add_line(std::string_view line);
  void keep(std::string_view part);
  void thin_out();

  std::int64_t most_bytes_;
  std::size_t most_line_bytes_;
  std::uint64_t highest_lot_ = UINT64_MAX;
  std::deque<Line> kept_;
  std::string open_;  // the begin of a line whose end has not come yet
  std::int64_t lines_seen_ = 0, lines_cut_ = 0, bytes_seen_ = 0, bytes_kept_ = 0;
};

}  // namespace fourfold::tokenizer
