#include "tokenizer/line_sample.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

/// Bytes of the first part of a line that is too long.
std::size_t first_part(std::string_view line, std::size_t most) {
  const std::size_t space = line.substr(0, most).rfind(' ');
  if (space != line.npos && space >= most / 2) return space + 1;
  // A character has at most four bytes.
  std::size_t end = most;
  while (end > most - 4 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80) --end;
  return end;
}

}  // namespace

LineSample::LineSample(std::int64_t most_bytes, std::size_t most_line_bytes)
    : most_bytes_(most_bytes), most_line_bytes_(most_line_bytes) {
  require(most_bytes > 0 && most_line_bytes >= 8, "there is room for lines");
}

void LineSample::add(std::string_view text, std::string_view place) {
  if (const std::size_t bad = well_formed_prefix(text); bad != text.size())
    throw UserError(ExitCode::bad_data,
                    format("{}: its byte {} (0x{:02x}) is not UTF-8 text; convert the file to "
                           "UTF-8, or leave it out",
                           place, bad, static_cast<unsigned char>(text[bad])));
  bytes_seen_ += static_cast<std::int64_t>(text.size());
  std::string_view rest = text;
  for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    if (open_.empty()) {
      add_line(rest.substr(0, end));
    } else {
      open_ += rest.substr(0, end);
      add_line(std::exchange(open_, {}));
    }
  }
  open_ += rest;
}

void LineSample::finish() {
  if (!open_.empty()) add_line(std::exchange(open_, {}));
}

void LineSample::add_line(std::string_view line) {
  ++lines_seen_;
  if (line.size() > most_line_bytes_) ++lines_cut_;
  while (line.size() > most_line_bytes_) {
    const std::size_t size = first_part(line, most_line_bytes_);
    keep(line.substr(0, size));
    line.remove_prefix(size);
  }
  if (!line.empty()) keep(line);
}

void LineSample::keep(std::string_view part) {
  const std::int64_t place[] = {lines_seen_, static_cast<std::int64_t>(part.size())};
  const std::uint64_t lot = hash64(std::as_bytes(std::span(place)));
  if (lot > highest_lot_) return;
  kept_.push_back({std::string(part), lot});
  bytes_kept_ += static_cast<std::int64_t>(part.size());
  while (bytes_kept_ > most_bytes_ && highest_lot_ > 1) thin_out();
}

void LineSample::thin_out() {
  highest_lot_ /= 2;
  std::erase_if(kept_, [&](const Line& line) { return line.lot > highest_lot_; });
  bytes_kept_ = 0;
  for (const Line& line : kept_) bytes_kept_ += static_cast<std::int64_t>(line.text.size());
}

std::string LineSample::take() {
  require(!kept_.empty(), "there is a line to take");
  std::string text = std::move(kept_.front().text);
  kept_.pop_front();
  return text;
}

}  // namespace fourfold::tokenizer
