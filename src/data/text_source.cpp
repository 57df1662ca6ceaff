#include "data/text_source.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "data/byte_source.h"
#include "data/data_file.h"
#include "data/json_line.h"

namespace fourfold::data {
namespace {

constexpr std::size_t stretch_bytes = 1 << 20;
/// What a file may ask of memory: one line of JSON, or a text that may not be cut.
constexpr std::size_t longest_line = std::size_t{256} << 20;

constexpr std::string_view blanks = " \t\r\n\v\f";

bool is_blank(char letter) {
  return blanks.find(letter) != blanks.npos;
}

/// Where to end a piece of a text that no tokenizer sees in pieces: after a single line break
/// between two words, else after any line break, any blank, or between two characters.
std::size_t find_cut(std::string_view text) {
  for (std::size_t i = text.size() - 1; i-- > 1;)
    if (text[i] == '\n' && !is_blank(text[i - 1]) && !is_blank(text[i + 1])) return i + 1;
  for (const std::string_view ends : {std::string_view("\n"), blanks})
    if (const auto at = text.find_last_of(ends); at != text.npos && at + 1 < text.size())
      return at + 1;
  std::size_t cut = text.size();
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
  };
  constexpr std::size_t longest_character = 4;
  while (cut > text.size() - longest_character && continues(text[cut - 1])) --cut;
  return cut > 1 ? cut - 1 : text.size();
}

}  // namespace

TakenFiles list_text_files(const std::vector<std::string>& inputs) {
  TakenFiles files;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(input, ignored)) {
      files.taken.push_back(input);
      continue;
    }
    TakenFiles below = files_below(input, inputs);
    if (below.taken.empty())
      throw UserError(ExitCode::bad_data,
                      format("{}: the folder has no files, expected texts{}; check the path", input,
                             below.passed_over.count > 0
                                 ? ", but " + below.passed_over.text("name", "passed over")
                                 : ""));
    files.add(std::move(below));
  }
  note_repeated(files);
  return files;
}

struct RawTextReader::State {
  std::vector<std::string> files;
  LastCut last_cut;
  std::int64_t bytes_in_all = 0, bytes_before = 0;  // on the disk; of the files before this one
  TextPosition position;
  std::unique_ptr<ByteSource> source;  // of the present file; none: it is yet to be opened
  TextForm form = TextForm::text;
  std::int64_t text_files = 0, json_files = 0;  // opened so far
  std::string held;                             // read, not yet handed out
  bool is_at_end = false;                       // of the present file: `held` is its rest

  const std::string& file() const { return files[static_cast<std::size_t>(position.file)]; }

  void open() {
    source = open_bytes(file());
    held.clear();
    is_at_end = false;
    std::optional<TextForm> found;
    for (std::size_t size = stretch_bytes; !found; size *= 2) {
      fill(size);
      found = form_of_text(held, is_at_end, file());
      if (!found && size >= longest_line) fail_long_line();
    }
    form = *found;
    ++(form == TextForm::json_lines ? json_files : text_files);
    if (position.byte == 0) return;
    source = open_bytes(file());
    source->skip(position.byte);
    held.clear();
    is_at_end = false;
  }

  void close() {
    bytes_before += source->position_in_file();
    source.reset();
    position = {position.file + 1, 0, 1};
  }

  /// Holds so many bytes, or the rest of the file.
  void fill(std::size_t bytes) {
    if (is_at_end || held.size() >= bytes) return;
    const std::size_t before = held.size();
    held.resize(bytes);
    const std::size_t got = source->read(std::as_writable_bytes(std::span(held)).subspan(before));
    held.resize(before + got);
    is_at_end = held.size() < bytes;
  }

  /// How much of what is held is the next stretch: the longest that ends after a line.
  std::size_t cut_lines() {
    for (std::size_t size = stretch_bytes;; size *= 2) {
      fill(size);
      if (is_at_end) return held.size();
      if (const auto end = held.rfind('\n'); end != std::string::npos) return end + 1;
      if (size >= longest_line) fail_long_line();
    }
  }

  [[noreturn]] void fail_long_line() const {
    throw UserError(
        ExitCode::bad_data,
        format("{}:{}: the line is longer than {}, expected JSON lines; split it", file(),
               position.line, format_bytes(static_cast<std::int64_t>(longest_line))));
  }

  std::size_t cut_text() {
    for (std::size_t size = stretch_bytes;; size *= 2) {
      // One more byte tells whether the file ends here.
      fill(size + 1);
      if (held.size() <= size) return held.size();
      if (const std::size_t cut = last_cut(std::string_view(held).substr(0, size + 1)); cut > 0)
        return cut;
      if (size < longest_line) continue;
      throw UserError(
          ExitCode::bad_data,
          format("{} from byte {}: {} without a place where the tokenizer may cut "
                 "them; split the text into documents",
                 file(), position.byte, format_bytes(static_cast<std::int64_t>(longest_line))));
    }
  }
};

RawTextReader::RawTextReader(std::vector<std::string> files, TextPosition from, LastCut last_cut)
    : state_(std::make_unique<State>()) {
  state_->files = std::move(files);
  state_->last_cut = last_cut ? std::move(last_cut) : find_cut;
  state_->position = from;
  for (std::size_t i = 0; i < state_->files.size(); ++i) {
    const std::int64_t size = DataFile(state_->files[i]).size();
    state_->bytes_in_all += size;
    if (static_cast<std::int64_t>(i) < from.file) state_->bytes_before += size;
  }
}

RawTextReader::~RawTextReader() = default;

TextPosition RawTextReader::position() const {
  return state_->position;
}

std::int64_t RawTextReader::bytes_read() const {
  return state_->bytes_before + (state_->source ? state_->source->position_in_file() : 0);
}

std::int64_t RawTextReader::bytes_in_all() const {
  return state_->bytes_in_all;
}

std::string RawTextReader::forms(std::string_view field) const {
  const auto lines = format("{} of JSON lines, a document in the member '{}' of each line",
                            counted(state_->json_files, "file"), field);
  const auto texts = format("{} of text, a document each", counted(state_->text_files, "file"));
  if (state_->text_files == 0) return state_->json_files == 0 ? "" : lines;
  return state_->json_files == 0 ? texts : lines + "; " + texts;
}

std::optional<RawText> RawTextReader::next() {
  State& s = *state_;
  if (s.position.file >= static_cast<std::int64_t>(s.files.size())) return std::nullopt;
  if (!s.source) s.open();
  const std::size_t size = s.form == TextForm::json_lines ? s.cut_lines() : s.cut_text();
  RawText raw{.bytes = s.held.substr(0, size),
              .file = s.file(),
              .form = s.form,
              .first_byte = s.position.byte,
              .first_line = s.position.line,
              .begins_file = s.position.byte == 0,
              .ends_file = false};
  s.held.erase(0, size);
  s.fill(1);
  raw.ends_file = s.is_at_end && s.held.empty();
  s.position.byte += static_cast<std::int64_t>(size);
  s.position.line += std::count(raw.bytes.begin(), raw.bytes.end(), '\n');
  if (raw.ends_file) s.close();
  return raw;
}

void for_each_piece(RawText raw, std::string_view field,
                    const std::function<void(TextPiece)>& visit) {
  if (raw.form == TextForm::text) {
    std::string place =
        raw.first_byte == 0 ? raw.file : format("{} from byte {}", raw.file, raw.first_byte);
    visit({std::move(raw.bytes), raw.begins_file, raw.ends_file, std::move(place)});
    return;
  }
  const std::string_view text = raw.bytes;
  std::int64_t number = raw.first_line;
  const bool is_marked = raw.begins_file && text.starts_with(byte_order_mark);
  for (std::size_t at = is_marked ? byte_order_mark.size() : 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    at = end + 1;
    if (line.empty()) continue;
    std::string place = format("{}:{}", raw.file, number);
    std::string document = text_of_line(line, place, field);
    visit({std::move(document), true, true, std::move(place)});
  }
}

TextSource::TextSource(const std::vector<std::string>& inputs, std::string field)
    : TextSource(list_text_files(inputs), std::move(field)) {}

TextSource::TextSource(TakenFiles files, std::string field)
    : notes_(files.notes()), reader_(std::move(files.taken)), field_(std::move(field)) {}

std::optional<TextPiece> TextSource::next() {
  while (pieces_.empty()) {
    std::optional<RawText> raw = reader_.next();
    if (!raw) return std::nullopt;
    for_each_piece(std::move(*raw), field_,
                   [&](TextPiece piece) { pieces_.push_back(std::move(piece)); });
    std::reverse(pieces_.begin(), pieces_.end());
  }
  TextPiece piece = std::move(pieces_.back());
  pieces_.pop_back();
  return piece;
}

}  // namespace fourfold::data
