#include "tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <optional>
#include <unordered_set>
#include <variant>

#include "base/format.h"
#include "base/json.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/protobuf.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

using Kind = SentencePieceModel::Kind;
using PieceKind = SentencePieceModel::PieceKind;

// User-defined pieces that are prefixes of one text: the library reads beyond more of them.
constexpr int most_nested_pieces = 64;

/// Numbers of fields in ModelProto, TrainerSpec, NormalizerSpec and SentencePiece.
namespace field {
enum Model : std::uint32_t { pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5 };
enum Trainer : std::uint32_t {
  kind = 3,
  suffix = 24,
  byte_fallback = 35,
  unk_surface = 44,
  unk_piece = 45
};
enum Normalizer : std::uint32_t { charsmap = 2, dummy_prefix = 3, extra_spaces = 4, escapes = 5 };
enum Piece : std::uint32_t { text = 1, score = 2, piece_kind = 3 };
}  // namespace field

class Reader {
 public:
  Reader(std::string_view source, ExitCode code) : source_(source), code_(code) {}

  SentencePieceModel read(std::string_view bytes) {
    for_each_field(bytes, "the model", {field::trainer, field::normalizer, field::denormalizer},
                   [&](const ProtobufField& f) { read_field(f); });
    check_pieces();
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw UserError(code_,
                    format("{}: is no sentencepiece model: {}; expected the .model file that "
                           "`fourfold data train-tokenizer` or spm_train writes, whole",
                           source_, what));
  }

  /// Where fields come twice the library takes the last, or joins both: `once` lists those that
  /// are read here.
  void for_each_field(std::string_view bytes, std::string_view what,
                      std::initializer_list<std::uint32_t> once,
                      const std::function<void(const ProtobufField&)>& visit) const {
    ProtobufReader reader(bytes);
    std::uint64_t seen = 0;
    while (const auto found = reader.next()) {
      if (std::find(once.begin(), once.end(), found->number) != once.end()) {
        const std::uint64_t bit = std::uint64_t{1} << found->number;  // below 64, all of them
        if ((seen & bit) != 0) fail(format("{} has field {} twice", what, found->number));
        seen |= bit;
      }
      visit(*found);
    }
    if (!reader.fault().empty())
      fail(format("{}: {} at its byte {}", what, reader.fault(), reader.offset()));
  }

  std::string_view text_of(const ProtobufField& f, std::string_view what) const {
    if (f.type != ProtobufField::Type::bytes) fail(format("{} is no text", what));
    return f.bytes;
  }
  std::uint64_t number_of(const ProtobufField& f, std::string_view what) const {
    if (f.type != ProtobufField::Type::varint) fail(format("{} is no whole number", what));
    return f.number_value;
  }

  void read_field(const ProtobufField& f) {
    switch (f.number) {
      case field::pieces:
        return read_piece(text_of(f, "a piece"));
      case field::trainer:
        return read_trainer(text_of(f, "its training"));
      case field::normalizer:
        return read_normalizer(text_of(f, "its normalisation"));
      case field::denormalizer:
        return refuse_denormalizer(text_of(f, "its denormalisation"));
      default:
        return;
    }
  }

  void read_piece(std::string_view bytes) {
    SentencePieceModel::Piece piece;
    const std::string what = format("piece {}", model_.pieces.size());
    for_each_field(bytes, what, {field::text, field::score, field::piece_kind},
                   [&](const ProtobufField& f) {
                     if (f.number == field::text) piece.text = text_of(f, what);
                     if (f.number == field::score) piece.score = score_of(f, what);
                     if (f.number != field::piece_kind) return;
                     const std::uint64_t number = number_of(f, what);
                     if (number < 1 || number > 6)
                       fail(format("{} is of type {}, expected 1 to 6", what, number));
                     piece.kind = static_cast<PieceKind>(number);
                   });
    check_piece_text(piece.text, what);
    model_.pieces.push_back(piece);
  }

  float score_of(const ProtobufField& f, std::string_view what) const {
    const auto score = std::bit_cast<float>(static_cast<std::uint32_t>(f.number_value));
    if (f.type != ProtobufField::Type::fixed32 || !std::isfinite(score))
      fail(format("{} has a score that is no number", what));
    return score;
  }

  void check_piece_text(std::string_view text, std::string_view what) const {
    if (text.empty()) fail(format("{} is empty", what));
    if (text.size() > most_piece_bytes)
      fail(format("{} has {} bytes, expected at most {}", what, text.size(), most_piece_bytes));
    if (text.find('\0') != text.npos) fail(format("{} holds a zero byte", what));
    if (well_formed_prefix(text) != text.size()) fail(format("{} is not UTF-8", what));
  }

  void read_trainer(std::string_view bytes) {
    for_each_field(bytes, "its training",
                   {field::kind, field::suffix, field::byte_fallback, field::unk_surface},
                   [&](const ProtobufField& f) {
                     if (f.number == field::kind) {
                       const std::uint64_t number = number_of(f, "its type");
                       if (number < 1 || number > 4)
                         fail(format("it is of type {}, expected 1 to 4", number));
                       model_.kind = static_cast<Kind>(number);
                     }
                     if (f.number == field::suffix)
                       model_.space_is_suffix = number_of(f, "a setting") != 0;
                     if (f.number == field::byte_fallback)
                       model_.byte_fallback = number_of(f, "a setting") != 0;
                     if (f.number == field::unk_surface)
                       model_.unknown_surface = text_of(f, "a setting");
                   });
  }

  void read_normalizer(std::string_view bytes) {
    for_each_field(bytes, "its normalisation",
                   {field::charsmap, field::dummy_prefix, field::extra_spaces, field::escapes},
                   [&](const ProtobufField& f) {
                     const auto flag = [&] { return number_of(f, "a setting") != 0; };
                     if (f.number == field::charsmap)
                       read_charsmap(text_of(f, "its normalisation"));
                     if (f.number == field::dummy_prefix) model_.adds_dummy_prefix = flag();
                     if (f.number == field::extra_spaces) model_.removes_extra_spaces = flag();
                     if (f.number == field::escapes) model_.escapes_spaces = flag();
                   });
  }

  void read_charsmap(std::string_view blob) {
    if (blob.empty()) return;
    const auto checked = check_charsmap(blob);
    if (const auto* fault = std::get_if<std::string>(&checked))
      fail(format("its normalisation is broken: {}", *fault));
    model_.has_charsmap = true;
    model_.charsmap = blob;
    model_.charsmap_keeps_spaces_apart = std::get<CharsmapFacts>(checked).keeps_spaces_apart;
  }

  void refuse_denormalizer(std::string_view bytes) const {
    for_each_field(bytes, "its denormalisation", {field::charsmap}, [&](const ProtobufField& f) {
      if (f.number == field::charsmap && !text_of(f, "a setting").empty())
        fail("it denormalises what it decodes, which is not supported");
    });
  }

  void check_pieces() const {
    std::unordered_set<std::string_view> texts;
    std::vector<std::string_view> user_defined;
    std::array<bool, 256> has_byte{};
    std::size_t num_unknown = 0;
    for (const auto& piece : model_.pieces) {
      if (!texts.insert(piece.text).second)
        fail(format("the piece {} is there twice", Json(piece.text).dump()));
      if (piece.kind == PieceKind::unknown) ++num_unknown;
      if (piece.kind == PieceKind::user_defined) user_defined.push_back(piece.text);
      if (piece.kind == PieceKind::byte) note_byte(piece.text, has_byte);
    }
    if (num_unknown != 1) fail(format("it has {} unknown pieces, expected 1", num_unknown));
    const auto num_bytes = std::count(has_byte.begin(), has_byte.end(), true);
    if (num_bytes != (model_.byte_fallback ? 256 : 0))
      fail(format("it has pieces for {} bytes, expected {}", num_bytes,
                  model_.byte_fallback ? 256 : 0));
    check_nesting(std::move(user_defined));
  }

  void note_byte(std::string_view text, std::array<bool, 256>& has_byte) const {
    const auto byte = byte_of_piece(text);
    if (!byte) fail(format("the piece {} is no byte", Json(text).dump()));
    has_byte[*byte] = true;
  }

  void check_nesting(std::vector<std::string_view> texts) const {
    std::sort(texts.begin(), texts.end());
    std::vector<std::string_view> prefixes;
    for (const std::string_view text : texts) {
      while (!prefixes.empty() && !text.starts_with(prefixes.back())) prefixes.pop_back();
      prefixes.push_back(text);
      if (prefixes.size() > most_nested_pieces)
        fail(format("more than {} user-defined pieces begin alike", most_nested_pieces));
    }
  }

  std::string_view source_;
  ExitCode code_;
  SentencePieceModel model_;
};

}  // namespace

std::optional<std::uint8_t> byte_of_piece(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const std::size_t high = digits.find(text[3]), low = digits.find(text[4]);
  if (high == digits.npos || low == digits.npos) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

SentencePieceModel read_sentencepiece_model(std::string_view bytes, std::string_view source,
                                            ExitCode code) {
  return Reader(source, code).read(bytes);
}

std::string sentencepiece_model_bytes(const SentencePieceModel& model) {
  ProtobufWriter trainer, normalizer, message;
  trainer.number(field::kind, static_cast<std::uint64_t>(model.kind));
  trainer.number(field::suffix, model.space_is_suffix ? 1 : 0);
  trainer.number(field::byte_fallback, model.byte_fallback ? 1 : 0);
  trainer.bytes(field::unk_surface, model.unknown_surface);
  for (const auto& piece : model.pieces)
    if (piece.kind == PieceKind::unknown) trainer.bytes(field::unk_piece, piece.text);
  normalizer.bytes(field::charsmap, model.charsmap);
  normalizer.number(field::dummy_prefix, model.adds_dummy_prefix ? 1 : 0);
  normalizer.number(field::extra_spaces, model.removes_extra_spaces ? 1 : 0);
  normalizer.number(field::escapes, model.escapes_spaces ? 1 : 0);
  for (const auto& piece : model.pieces) {
    ProtobufWriter one;
    one.bytes(field::text, piece.text);
    one.fixed32(field::score, std::bit_cast<std::uint32_t>(piece.score));
    one.number(field::piece_kind, static_cast<std::uint64_t>(piece.kind));
    message.bytes(field::pieces, one.text());
  }
  message.bytes(field::trainer, trainer.text());
  message.bytes(field::normalizer, normalizer.text());
  return message.text();
}

}  // namespace fourfold::tokenizer
