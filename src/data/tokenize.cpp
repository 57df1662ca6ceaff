#include "data/tokenize.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"
#include "data/data_file.h"
#include "data/sidecar.h"
#include "data/text_source.h"
#include "data/token_dtype.h"
#include "data/token_set_writer.h"
#include "tokenizer/utf8.h"

namespace fourfold::data {
namespace {

/// What became of one stretch of text, or why nothing did.
struct Encoded {
  std::vector<std::byte> tokens;  // as they lie in the file
  std::vector<TokenSetWriter::Piece> pieces;
  TextPosition behind;
  std::int64_t bytes_read = 0;
  std::int64_t empty_documents = 0;
  std::exception_ptr fault;
};

class Encoder {
 public:
  Encoder(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer)
      : field_(options.field),
        tokenizer_(tokenizer),
        dtype_(dtype_for(tokenizer.vocab_size())),
        closing_(tokenizer.closing_tokens()) {
    const auto end = options.append_eod ? tokenizer.end_of_document() : std::nullopt;
    if (end && (closing_.empty() || closing_.back() != *end)) closing_.push_back(*end);
  }

  void encode(RawText raw, Encoded& into) const {
    for_each_piece(std::move(raw), field_, [&](TextPiece piece) {
      std::vector<std::int32_t> ids = piece.begins_document
                                          ? tokenizer_.encode(piece.text, piece.place)
                                          : tokenizer_.encode_rest(piece.text, piece.place);
      if (piece.begins_document && piece.ends_document && ids.empty()) {
        ++into.empty_documents;
        return;
      }
      if (piece.ends_document) ids.insert(ids.end(), closing_.begin(), closing_.end());
      append(ids, into.tokens);
      into.pieces.push_back({static_cast<std::int64_t>(ids.size()), piece.ends_document});
    });
  }

 private:
  void append(const std::vector<std::int32_t>& ids, std::vector<std::byte>& bytes) const {
    const auto size = static_cast<std::size_t>(facts_of(dtype_).size_bytes);
    const std::size_t before = bytes.size();
    bytes.resize(before + ids.size() * size);
    // Little-endian: the first bytes of an id are those of the smaller type.
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::memcpy(bytes.data() + before + i * size, &ids[i], size);
  }

  const std::string& field_;
  const tokenizer::Tokenizer& tokenizer_;
  TokenDtype dtype_;
  std::vector<std::int32_t> closing_;  // after each document
};

/// Threads that take stretches in turn; what they make is handed out in the order of the text.
class Workshop {
 public:
  Workshop(RawTextReader& reader, const Encoder& encoder, int jobs)
      : reader_(reader), encoder_(encoder), ahead_(4 * jobs) {
    threads_.reserve(static_cast<std::size_t>(jobs));
    try {
      for (int job = 0; job < jobs; ++job) threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      close();
      throw;
    }
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  ~Workshop() { close(); }

  /// Nothing at the end. Throws the fault of the first stretch that has one.
  std::optional<Encoded> next() {
    std::unique_lock lock(mutex_);
    is_done_.wait(
        lock, [&] { return done_.contains(handed_out_) || (at_end_ && handed_out_ == taken_); });
    const auto found = done_.find(handed_out_);
    if (found == done_.end()) return std::nullopt;
    Encoded encoded = std::move(found->second);
    done_.erase(found);
    ++handed_out_;
    lock.unlock();
    may_work_.notify_all();
    if (encoded.fault) std::rethrow_exception(encoded.fault);
    return encoded;
  }

 private:
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    may_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void work() {
    while (true) {
      Encoded encoded;
      std::optional<RawText> raw;
      std::int64_t number = 0;
      {
        std::unique_lock lock(mutex_);
        may_work_.wait(lock,
                       [&] { return is_closed_ || at_end_ || taken_ < handed_out_ + ahead_; });
        if (is_closed_ || at_end_) return;
        // Reading is quick beside encoding, and one thread at a time keeps the order.
        raw = take(encoded);
        if (raw || encoded.fault) number = taken_++;
        if (!raw) at_end_ = true;
      }
      if (raw) try_to(encoded.fault, [&] { encoder_.encode(std::move(*raw), encoded); });
      if (raw || encoded.fault) {
        const std::lock_guard lock(mutex_);
        done_.emplace(number, std::move(encoded));
      }
      is_done_.notify_all();
    }
  }

  std::optional<RawText> take(Encoded& encoded) {
    std::optional<RawText> raw;
    try_to(encoded.fault, [&] { raw = reader_.next(); });
    encoded.behind = reader_.position();
    encoded.bytes_read = reader_.bytes_read();
    return raw;
  }

  template <class Action>
  static void try_to(std::exception_ptr& fault, Action&& action) {
    try {
      action();
    } catch (const std::exception&) {
      fault = std::current_exception();
    }
  }

  RawTextReader& reader_;
  const Encoder& encoder_;
  const std::int64_t ahead_;  // so many stretches may be in memory
  std::mutex mutex_;
  std::condition_variable may_work_, is_done_;
  std::map<std::int64_t, Encoded> done_;
  std::int64_t taken_ = 0, handed_out_ = 0;
  bool at_end_ = false, is_closed_ = false;
  std::vector<std::thread> threads_;
};

/// What makes the set what it is: two calls with the same recipe write the same bytes.
std::string recipe_of(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
                      const std::vector<std::string>& paths) {
  Json files = Json::array();
  for (const std::string& path : paths) {
    const DataFile file(path);
    files.push(Json::array({path, file.size(), file.modified_ns()}));
  }
  const Json recipe = Json::object({{"files", std::move(files)},
                                    {"field", options.field},
                                    {"tokenizer", tokenizer.fingerprint()},
                                    {"append_eod", options.append_eod}});
  return hash128_text(recipe.dump());
}

Sidecar facts_of(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer) {
  Sidecar facts;
  facts.tokenizer = tokenizer.to_text();
  facts.fingerprint = tokenizer.fingerprint();
  facts.vocab_size = tokenizer.vocab_size();
  facts.ends_documents = options.append_eod;
  return facts;
}

void add_texts(TokenSetWriter& writer, const std::vector<std::string>& paths,
               const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
               const std::function<void(const TokenizeProgress&)>& tell, TokenizeResult& result) {
  RawTextReader reader(paths, writer.position(),
                       [&](std::string_view text) { return tokenizer.last_cut(text); });
  result.bytes_resumed = reader.bytes_read() + writer.position().byte;
  const std::int64_t bytes_in_all = reader.bytes_in_all();
  const Encoder encoder(options, tokenizer);
  Workshop workshop(reader, encoder, options.jobs);
  std::int64_t unnoted = 0;
  while (const auto encoded = workshop.next()) {
    writer.add(encoded->tokens, encoded->pieces);
    result.empty_documents += encoded->empty_documents;
    unnoted += static_cast<std::int64_t>(encoded->tokens.size());
    if (unnoted >= options.note_bytes) {
      writer.note(encoded->behind);
      unnoted = 0;
    }
    tell({encoded->bytes_read, bytes_in_all, writer.documents(), writer.tokens()});
  }
  result.forms = reader.forms(options.field);
}

void check(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer) {
  if (options.append_eod && !tokenizer.end_of_document())
    throw UserError(ExitCode::bad_config,
                    format("--append-eod: the tokenizer {} has no token between documents; leave "
                           "the option out or choose another tokenizer",
                           tokenizer.name()));
}

}  // namespace

TokenizeResult tokenize(FileSystem& files, const TokenizeOptions& options,
                        const tokenizer::Tokenizer& tokenizer,
                        const std::function<void(const TokenizeProgress&)>& tell) {
  check(options, tokenizer);
  const TakenFiles files_taken = list_text_files(options.inputs);
  const std::vector<std::string>& paths = files_taken.taken;
  const TokenDtype dtype = dtype_for(tokenizer.vocab_size());
  TokenSetWriter writer(files, {.prefix = options.prefix,
                                .recipe = recipe_of(options, tokenizer, paths),
                                .dtype = dtype,
                                .overwrite = options.overwrite});
  TokenizeResult result;
  result.notes = files_taken.notes();
  result.dtype = facts_of(dtype).name;
  try {
    if (writer.is_whole())
      result.bytes_resumed = RawTextReader(paths).bytes_in_all();
    else
      add_texts(writer, paths, options, tokenizer, tell, result);
    if (writer.tokens() == 0)
      throw UserError(ExitCode::bad_data,
                      format("{}: no text in {} file{}, expected some; check "
                             "the inputs and --field",
                             paths.front(), paths.size(), paths.size() == 1 ? "" : "s"));
  } catch (const UserError&) {
    writer.drop_unless_noted();
    throw;
  }
  result.documents = writer.documents();
  result.tokens = writer.tokens();
  writer.finish(facts_of(options, tokenizer));
  return result;
}

std::unique_ptr<tokenizer::Tokenizer> characters_of(const std::vector<std::string>& inputs,
                                                    const std::string& field) {
  std::vector<bool> seen(0x110000);
  std::string characters;
  TextSource source(inputs, field);
  while (const auto piece = source.next()) {
    const std::string_view text = piece->text;
    for (std::size_t at = 0; at < text.size();) {
      const auto found = tokenizer::first_code_point(text.substr(at));
      if (!found) {
        tokenizer::character_tokenizer(text, piece->place);  // says what is wrong with it
        fail_internal("text that is not UTF-8 makes no tokenizer");
      }
      if (!seen[found->value]) tokenizer::append_utf8(characters, found->value);
      seen[found->value] = true;
      at += found->num_bytes;
    }
  }
  return tokenizer::character_tokenizer(characters, inputs.front());
}

}  // namespace fourfold::data
