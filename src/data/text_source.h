// Texts from files and folders, document by document, in an order that depends on the names alone:
// plain text, JSON lines, gzip, zstd. Not tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/taken_files.h"
#include "data/text_form.h"

namespace fourfold::data {

/// The files of the inputs: a file is itself; of a folder those of `files_below`. Errors:
/// UserError(bad_data) for an input that is missing or a folder without files.
TakenFiles list_text_files(const std::vector<std::string>& inputs);

/// A stretch of a file as it was read and unpacked: whole lines of JSON, or a piece of a text.
struct RawText {
  std::string bytes;
  std::string file;
  TextForm form = TextForm::text;
  std::int64_t first_byte = 0;  // of the stretch in the unpacked file
  std::int64_t first_line = 1;  // JSON lines only
  bool begins_file = false, ends_file = false;
};

/// A document, or a piece of a text that is longer than a megabyte.
struct TextPiece {
  std::string text;
  bool begins_document = true, ends_document = true;
  std::string place;  // "a.jsonl:17", "a.txt", "a.txt from byte 1048570": for messages
};

/// Before a stretch: the number of the file, and the place in it once unpacked.
struct TextPosition {
  std::int64_t file = 0, byte = 0, line = 1;
  bool operator==(const TextPosition&) const = default;
};

/// The last place, above 0, where a text that begins so may be cut; 0: nowhere yet.
using LastCut = std::function<std::size_t(std::string_view)>;

/// Reads the files one after the other; memory for one stretch, whatever their size. Errors:
/// UserError(bad_data) with the file and the place.
class RawTextReader {
 public:
  /// `last_cut` says where a text of more than a megabyte is cut; without it, after a line, else a
  /// word, else a character.
  explicit RawTextReader(std::vector<std::string> files, TextPosition from = {},
                         LastCut last_cut = {});
  ~RawTextReader();

  /// Nothing at the end. Stretches of JSON end after a line, those of a text where `last_cut`
  /// says; where they end depends on the file alone.
  std::optional<RawText> next();
  /// Where the next stretch begins.
  TextPosition position() const;
  /// The bytes of the files as they lie on the disk: read so far, and all.
  std::int64_t bytes_read() const;
  std::int64_t bytes_in_all() const;
  /// What the files that were opened so far are taken for: "2 files of JSON lines, ...".
  std::string forms(std::string_view field) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls `visit` with each document of a stretch, or with the piece of one. `field` is the member
/// of each line's JSON object that holds the text. Empty documents are pieces too. Errors:
/// UserError(bad_data) with file and line for a line that is no such object.
void for_each_piece(RawText raw, std::string_view field,
                    const std::function<void(TextPiece)>& visit);

/// All pieces of all files, in order.
class TextSource {
 public:
  /// Files and folders.
  explicit TextSource(const std::vector<std::string>& inputs, std::string field = "text");
  TextSource(TakenFiles files, std::string field);

  std::optional<TextPiece> next();
  std::int64_t bytes_read() const { return reader_.bytes_read(); }
  std::int64_t bytes_in_all() const { return reader_.bytes_in_all(); }
  /// What people should know of the files.
  const std::vector<std::string>& notes() const { return notes_; }
  std::string forms() const { return reader_.forms(field_); }

 private:
  std::vector<std::string> notes_;
  RawTextReader reader_;
  std::string field_;
  std::vector<TextPiece> pieces_;  // of the present stretch, the next one last
};

}  // namespace fourfold::data
