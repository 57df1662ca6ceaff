#include "data/token_set_writer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "data/megatron_index.h"

namespace fourfold::data {
namespace {

constexpr std::string_view tokens_name = "tokens.bin", lengths_name = "lengths.bin",
                           index_name = "index.idx", sidecar_name = "sidecar.json",
                           journal_name = "journal.json", journal_draft = "journal.new";

/// Under which names they lie at work and in the end.
constexpr std::pair<std::string_view, const char*> finished_files[] = {
    {tokens_name, ".bin"}, {sidecar_name, ".json"}, {index_name, ".idx"}};
constexpr std::string_view our_names[] = {tokens_name,  lengths_name, index_name,
                                          sidecar_name, journal_name, journal_draft};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
void append(std::vector<std::byte>& to, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Calls visit(span of lengths) for all of lengths.bin, by blocks.
void for_lengths(const FileSystem::Reader& file, std::int64_t count,
                 const std::function<void(std::span<const std::int32_t>)>& visit) {
  constexpr std::int64_t block = 1 << 16;
  std::vector<std::int32_t> lengths;
  for (std::int64_t at = 0; at < count; at += block) {
    lengths.resize(static_cast<std::size_t>(std::min(block, count - at)));
    file.read(4 * at, std::as_writable_bytes(std::span(lengths)));
    visit(lengths);
  }
}

std::string hash_of(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  return whole_hash_text(file->size(), [&](std::int64_t offset, std::span<std::byte> into) {
    file->read(offset, into);
  });
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

TokenSetWriter::TokenSetWriter(FileSystem& files, Options options)
    : files_(files), options_(std::move(options)), folder_(options_.prefix + ".partial") {
  const bool was_begun = files_.exists(work(std::string(journal_name)));
  if (!was_begun && !options_.overwrite)
    for (const char* ending : {".idx", ".bin", ".json"})
      if (files_.exists(options_.prefix + ending))
        throw UserError(ExitCode::output_in_use,
                        format("{}{}: is there already; choose another name, or pass --overwrite",
                               options_.prefix, ending));
  for (const auto& [name, ending] : finished_files)
    require_file_or_nothing(options_.prefix + ending);
  if (was_begun)
    go_on();
  else
    begin();
}

TokenSetWriter::~TokenSetWriter() = default;

std::string TokenSetWriter::work(const std::string& name) const {
  return format("{}/{}", folder_, name);
}

void TokenSetWriter::check_ours() const {
  for (const auto& entry : files_.list(folder_))
    if (std::find(std::begin(our_names), std::end(our_names), entry.name) == std::end(our_names))
      throw UserError(
          ExitCode::output_in_use,
          format("{}/{}: is no file of ours, and the work needs this folder for itself; "
                 "move it away or choose another name",
                 folder_, entry.name));
}

void TokenSetWriter::begin() {
  // What is there without a journal holds nothing that counts.
  // The folder stays: who calls this may hold it locked.
  if (files_.exists(folder_)) {
    check_ours();
    for (const auto& entry : files_.list(folder_)) files_.remove_file(work(entry.name));
  } else {
    files_.make_directory(folder_);
  }
  journal_ = {};
  bin_hash_ = {};
  lengths_hash_ = {};
  bin_ = files_.create(work(std::string(tokens_name)));
  lengths_file_ = files_.create(work(std::string(lengths_name)));
  write_journal();
}

void TokenSetWriter::go_on() {
  journal_ = read_journal();
  const std::string tokens = work(std::string(tokens_name)),
                    lengths = work(std::string(lengths_name));
  if (journal_.is_whole) return finish_publishing();
  bin_hash_ = proved(tokens, journal_.bin_bytes, journal_.bin_hash);
  lengths_hash_ = proved(lengths, 4 * journal_.documents, journal_.lengths_hash);
  bin_ = files_.reopen(tokens, journal_.bin_bytes);
  lengths_file_ = files_.reopen(lengths, 4 * journal_.documents);
}

/// What is whole is proved like what is not: only names were missing.
void TokenSetWriter::finish_publishing() {
  // After a loss of power a file may be under neither of its names.
  for (const auto& [name, ending] : finished_files)
    if (!files_.exists(work(std::string(name))) && !files_.exists(options_.prefix + ending))
      return begin();
  const std::string tokens = work(std::string(tokens_name)), index = work(std::string(index_name)),
                    sidecar = work(std::string(sidecar_name)),
                    facts = files_.exists(sidecar) ? sidecar : options_.prefix + ".json";
  if (files_.exists(tokens)) proved(tokens, journal_.bin_bytes, journal_.bin_hash);
  if (files_.exists(index) &&
      hash_of(files_, index) != parse_sidecar(read_text(files_, facts), facts).idx_hash)
    fail_damaged(index, "is not what was written");
}

void TokenSetWriter::fail_damaged(const std::string& path, std::string_view what) const {
  throw UserError(ExitCode::storage,
                  format("{}: {}; the unfinished work cannot be gone on from: remove the folder {} "
                         "and repeat the command",
                         path, what, folder_));
}

/// The hash of the first `bytes` bytes of a file, which must be this one. More may follow: what was
/// written after the last note.
RunningHash TokenSetWriter::proved(const std::string& path, std::int64_t bytes,
                                   const std::string& hash) const {
  if (!files_.exists(path)) fail_damaged(path, "is missing");
  const auto file = files_.open(path);
  if (file->size() < bytes)
    fail_damaged(path, format("has {} bytes, the journal counts {}", file->size(), bytes));
  RunningHash running;
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < bytes; at += std::ssize(block)) {
    const auto some =
        std::span(block).first(static_cast<std::size_t>(std::min(std::ssize(block), bytes - at)));
    file->read(at, some);
    running.add(some);
  }
  if (running.text() != hash)
    fail_damaged(path, format("its first {} bytes are not those that were noted", bytes));
  return running;
}

namespace {

Json json_of(const std::string& text) {
  return text;
}
Json json_of(bool value) {
  return value ? 1 : 0;
}
Json json_of(std::int64_t value) {
  return value;
}

}  // namespace

TokenSetWriter::Journal TokenSetWriter::read_journal() const {
  const std::string path = work(std::string(journal_name));
  const std::string text = read_text(files_, path);
  Json json;
  try {
    json = parse_json(text, path, ExitCode::storage);
  } catch (const UserError&) {
    fail_damaged(path, "is no JSON");
  }
  const auto find = [&](std::string_view key, Json::Kind kind) {
    const Json* value = json.find(key);
    if (value == nullptr || value->kind() != kind)
      fail_damaged(path,
                   format("has no {} '{}'", kind == Json::Kind::integer ? "number" : "text", key));
    return value;
  };
  if (find("recipe", Json::Kind::string)->as_string() != options_.recipe)
    throw UserError(ExitCode::output_in_use,
                    format("{}: holds the unfinished work of a call with other inputs, tokenizer "
                           "or options; repeat that call to finish it, or remove the folder",
                           folder_));
  Journal journal;
  Journal::fields(journal, [&]<class T>(std::string_view key, T& field) {
    if constexpr (std::is_same_v<T, std::string>) {
      field = find(key, Json::Kind::string)->as_string();
    } else {
      const std::int64_t number = find(key, Json::Kind::integer)->as_integer();
      constexpr std::int64_t most = std::int64_t{1} << 60;  // four times it is a number, too
      if (number < 0 || number > most) fail_damaged(path, format("{} is {}", key, number));
      field = static_cast<T>(number);
    }
  });
  if (find("hash", Json::Kind::string)->as_string() != text_of(journal).second)
    fail_damaged(path, "was changed");
  return journal;
}

std::pair<Json, std::string> TokenSetWriter::text_of(const Journal& journal) const {
  Json json = Json::object({{"recipe", options_.recipe}});
  Journal::fields(journal, [&](std::string_view key, const auto& field) {
    json.set(std::string(key), json_of(field));
  });
  std::string hash = hash128_text(json.dump());
  return {std::move(json), std::move(hash)};
}

void TokenSetWriter::write_journal() {
  journal_.bin_hash = bin_hash_.text();
  journal_.lengths_hash = lengths_hash_.text();
  auto [json, hash] = text_of(journal_);
  json.set("hash", hash);
  const std::string draft = work(std::string(journal_draft));
  if (files_.exists(draft)) files_.remove_file(draft);
  write_new_file(files_, draft, json.dump() + "\n");
  files_.rename(draft, work(std::string(journal_name)));
  files_.sync_directory(folder_);
}

void TokenSetWriter::add(std::span<const std::byte> tokens, std::span<const Piece> pieces) {
  bin_->write(tokens);
  bin_hash_.add(tokens);
  journal_.bin_bytes += static_cast<std::int64_t>(tokens.size());
  for (const Piece& piece : pieces) {
    journal_.open_tokens += piece.tokens;
    if (piece.ends_document) end_document();
  }
}

void TokenSetWriter::end_document() {
  if (!std::in_range<std::int32_t>(journal_.open_tokens))
    throw UserError(ExitCode::bad_data,
                    format("document {} has {} tokens, and the format holds fewer than 2^31 in "
                           "one; split it",
                           journal_.documents + 1, journal_.open_tokens));
  lengths_.push_back(static_cast<std::int32_t>(journal_.open_tokens));
  journal_.open_tokens = 0;
  ++journal_.documents;
  constexpr std::size_t block = 1 << 16;
  if (lengths_.size() >= block) flush_lengths();
}

void TokenSetWriter::drop_unless_noted() {
  if (journal_.position != TextPosition{}) return;
  bin_.reset();
  lengths_file_.reset();
  remove_folder_of_files(files_, folder_);
}

void TokenSetWriter::flush_lengths() {
  lengths_file_->write(bytes_of(lengths_));
  lengths_hash_.add(bytes_of(lengths_));
  lengths_.clear();
}

void TokenSetWriter::note(const TextPosition& position) {
  flush_lengths();
  bin_->sync();
  lengths_file_->sync();
  journal_.position = position;
  write_journal();
}

void TokenSetWriter::write_index() {
  const std::string path = work(std::string(index_name));
  if (files_.exists(path)) files_.remove_file(path);
  const auto lengths = files_.open(work(std::string(lengths_name)));
  const auto index = files_.create(path);
  std::vector<std::byte> bytes;
  constexpr std::string_view magic("MMIDIDX\0\0", 9);
  const auto magic_bytes = std::as_bytes(std::span(magic));
  bytes.insert(bytes.end(), magic_bytes.begin(), magic_bytes.end());
  append(bytes, std::uint64_t{1});
  append(bytes, megatron_code(options_.dtype));
  append(bytes, journal_.documents);
  append(bytes, journal_.documents + 1);
  index->write(bytes);
  const auto write_column = [&](const std::function<void(std::int32_t)>& add_length) {
    for_lengths(*lengths, journal_.documents, [&](std::span<const std::int32_t> some) {
      bytes.clear();
      for (const std::int32_t length : some) add_length(length);
      index->write(bytes);
    });
  };
  write_column([&](std::int32_t length) { append(bytes, length); });
  std::int64_t offset = 0;
  write_column([&](std::int32_t length) {
    append(bytes, offset);
    offset += length * facts_of(options_.dtype).size_bytes;
  });
  std::int64_t document = 0;
  write_column([&](std::int32_t /*length*/) { append(bytes, document++); });
  bytes.clear();
  append(bytes, document);
  index->write(bytes);
  index->sync();
  index->close();
}

void TokenSetWriter::finish(Sidecar facts) {
  if (!journal_.is_whole) {
    require(journal_.open_tokens == 0, "a set ends with a whole document");
    flush_lengths();
    for (auto* file : {&bin_, &lengths_file_}) {
      (*file)->sync();
      (*file)->close();
      file->reset();
    }
    write_index();
    facts.dtype = facts_of(options_.dtype).name;
    facts.documents = documents();
    facts.tokens = tokens();
    facts.bin_hash = hash_of(files_, work(std::string(tokens_name)));
    facts.idx_hash = hash_of(files_, work(std::string(index_name)));
    const std::string sidecar = work(std::string(sidecar_name));
    if (files_.exists(sidecar)) files_.remove_file(sidecar);
    write_new_file(files_, sidecar, to_text(facts));
    journal_.is_whole = true;
    write_journal();
  }
  publish();
}

/// The index comes last: without it there is no set. Each step may have been done before a kill.
void TokenSetWriter::publish() {
  const std::string& prefix = options_.prefix;
  const std::string index = work(std::string(index_name));
  if (files_.exists(index)) {
    if (files_.exists(prefix + ".idx")) files_.remove_file(prefix + ".idx");
    for (const auto& [name, ending] : finished_files) {
      const std::string from = work(std::string(name));
      if (name != index_name && files_.exists(from)) files_.rename(from, prefix + ending);
    }
    files_.sync_directory(folder_of(prefix));
    files_.rename(index, prefix + ".idx");
  }
  files_.sync_directory(folder_of(prefix));
  // The journal goes last, so that what is left is known to be ours.
  for (const auto& entry : files_.list(folder_))
    if (entry.name != journal_name) files_.remove_file(work(entry.name));
  files_.remove_file(work(std::string(journal_name)));
  files_.remove_directory(folder_);
}

}  // namespace fourfold::data
