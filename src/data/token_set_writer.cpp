#include "data/token_set_writer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

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
                        format("{}{}: exists already; choose another name, or pass --overwrite",
                               options_.prefix, ending));
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
  bin_ = files_.create(work(std::string(tokens_name)));
  lengths_file_ = files_.create(work(std::string(lengths_name)));
  write_journal();
}

void TokenSetWriter::go_on() {
  journal_ = read_journal();
  if (journal_.is_whole) {
    // After a loss of power a file may be under neither of its names.
    for (const auto& [name, ending] : finished_files)
      if (!files_.exists(work(std::string(name))) && !files_.exists(options_.prefix + ending))
        return begin();
    return;
  }
  bin_ = files_.reopen(work(std::string(tokens_name)), journal_.bin_bytes);
  lengths_file_ = files_.reopen(work(std::string(lengths_name)), 4 * journal_.documents);
}

TokenSetWriter::Journal TokenSetWriter::read_journal() const {
  const std::string path = work(std::string(journal_name));
  const Json json = parse_json(read_text(files_, path), path, ExitCode::storage);
  const auto number = [&](std::string_view key) {
    const Json* value = json.find(key);
    if (value == nullptr || value->kind() != Json::Kind::integer || value->as_integer() < 0)
      throw UserError(ExitCode::storage,
                      format("{}: has no number '{}'; remove the folder {} and begin again", path,
                             key, folder_));
    return value->as_integer();
  };
  const Json* recipe = json.find("recipe");
  if (recipe == nullptr || recipe->kind() != Json::Kind::string ||
      recipe->as_string() != options_.recipe)
    throw UserError(ExitCode::output_in_use,
                    format("{}: holds the unfinished work of a call with other inputs, tokenizer "
                           "or options; repeat that call to finish it, or remove the folder",
                           folder_));
  return {{number("file"), number("byte"), number("line")},
          number("bin_bytes"),
          number("documents"),
          number("open_tokens"),
          number("is_whole") == 1};
}

void TokenSetWriter::write_journal() {
  const Json json = Json::object({{"recipe", options_.recipe},
                                  {"file", journal_.position.file},
                                  {"byte", journal_.position.byte},
                                  {"line", journal_.position.line},
                                  {"bin_bytes", journal_.bin_bytes},
                                  {"documents", journal_.documents},
                                  {"open_tokens", journal_.open_tokens},
                                  {"is_whole", journal_.is_whole ? 1 : 0}});
  const std::string draft = work(std::string(journal_draft));
  if (files_.exists(draft)) files_.remove_file(draft);
  write_new_file(files_, draft, json.dump() + "\n");
  files_.rename(draft, work(std::string(journal_name)));
  files_.sync_directory(folder_);
}

void TokenSetWriter::add(std::span<const std::byte> tokens, std::span<const Piece> pieces) {
  bin_->write(tokens);
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
