// The formats of data: what each is called, holds and feeds, and how it is opened and described.
// Not what a run reads of them (source.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/bad_pictures.h"

namespace fourfold::data {

struct DataSpec;
struct Description;
struct TokenSets;
class PictureSet;

/// In the order in which they are shown; formats.cpp has a row for each.
enum class Format : std::uint8_t {
  text,
  megatron,
  llmc,
  pictures,
  synthetic,
};

/// How a format knows that a path is its own: by what the files look like, by their names, or by
/// their first bytes. The surest one counts.
enum class Match : std::uint8_t { none, looks, names, bytes };

struct FormatRow {
  Format format;
  std::string_view name;            // "megatron": the word of data.format
  std::string_view holds;           // "a text file, or a folder of them"
  std::string_view path_hint = {};  // "a text file": what to set data.path to
  /// The streams of tokens of a run; null: it feeds no model of text. Errors: those of
  /// token_sets.h.
  TokenSets (*open_tokens)(const DataSpec& spec) = nullptr;
  /// The pictures of a path; null: it feeds no model of pictures. Errors: those of picture_set.h.
  std::unique_ptr<const PictureSet> (*open_pictures)(const DataSpec& spec,
                                                     const std::string& path) = nullptr;
  bool is_made_up = false;  // from nothing: it has no files, sizes and documents of its own
  bool has_words = false;   // data.tokenizer makes its tokens, so that text can be sampled
  /// Sets of tokens on the disk: several may be blended, and windows are seen once an epoch.
  bool is_of_sets = false;
  bool counts_documents = true;  // their number is known without reading everything
  /// The file that has to be there for a path; null: that of the path itself.
  std::string (*file_of)(const std::string& path) = nullptr;
  /// How `describe` knows its data; null: by nothing.
  Match (*match)(const std::string& path) = nullptr;
  /// What it says of them; null: there is nothing to say. `field`: of JSON lines, the text.
  Description (*describe)(const std::string& path, const std::string& field,
                          BadPictures bad) = nullptr;
};

std::span<const FormatRow> formats();
const FormatRow& row_of(Format format);

}  // namespace fourfold::data
