// Writes a Megatron set, document by document, so that a kill at any instant loses at most what
// came after the last note, and nothing appears under the set's name before it is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/hash.h"
#include "base/json.h"
#include "data/sidecar.h"
#include "data/text_source.h"
#include "data/token_dtype.h"

namespace fourfold::data {

/// Works in the folder PREFIX.partial: tokens.bin and lengths.bin grow, journal.json says up to
/// where they hold, for which recipe, and what they hash to: only what proves to be what was noted
/// is gone on from. Errors: UserError(storage) where the disk fails, a file of the work is not what
/// was noted, or one of the set's names is that of something else than a file;
/// UserError(output_in_use) where the set exists or the folder belongs to another recipe.
class TokenSetWriter {
 public:
  /// `recipe` names inputs, tokenizer and options: only a call with the same one goes on.
  struct Options {
    std::string prefix;  // absolute
    std::string recipe;
    TokenDtype dtype = TokenDtype::u16;
    bool overwrite = false;  // an existing set; it stays until the new one is whole
  };

  TokenSetWriter(FileSystem& files, Options options);
  ~TokenSetWriter();

  /// Where the text goes on of which nothing is written yet; the beginning for a new set.
  TextPosition position() const { return journal_.position; }
  /// True if only the end was missing: nothing is to be added.
  bool is_whole() const { return journal_.is_whole; }
  std::int64_t documents() const { return journal_.documents; }
  std::int64_t tokens() const { return journal_.bin_bytes / facts_of(options_.dtype).size_bytes; }

  /// A document, or a part of one.
  struct Piece {
    std::int64_t tokens = 0;
    bool ends_document = true;
  };
  /// `tokens` are those of the pieces, one after the other, as they lie in the file. Errors:
  /// UserError(bad_data) for a document of 2^31 tokens or more, which the format cannot hold.
  void add(std::span<const std::byte> tokens, std::span<const Piece> pieces);
  /// What was added comes from the text before `position`: a later call goes on from there.
  void note(const TextPosition& position);

  /// Removes the work if nothing was noted yet: a failure at the beginning leaves nothing behind.
  void drop_unless_noted();

  /// Writes index and sidecar (of which `facts` says what this does not know) and gives the set its
  /// name.
  void finish(Sidecar facts);

 private:
  struct Journal {
    TextPosition position;
    std::int64_t bin_bytes = 0, documents = 0, open_tokens = 0;  // open: of the present document
    bool is_whole = false;
    std::string bin_hash, lengths_hash;  // of what is noted

    /// The numbers and hashes, in one order.
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit("file", self.position.file);
      visit("byte", self.position.byte);
      visit("line", self.position.line);
      visit("bin_bytes", self.bin_bytes);
      visit("documents", self.documents);
      visit("open_tokens", self.open_tokens);
      visit("is_whole", self.is_whole);
      visit("bin_hash", self.bin_hash);
      visit("lengths_hash", self.lengths_hash);
    }
  };

  std::string work(const std::string& name) const;
  void check_ours() const;
  void begin();
  void go_on();
  void finish_publishing();
  RunningHash proved(const std::string& path, std::int64_t bytes, const std::string& hash) const;
  [[noreturn]] void fail_damaged(const std::string& path, std::string_view what) const;
  Journal read_journal() const;
  /// What the journal says, without its own hash; and that hash.
  std::pair<Json, std::string> text_of(const Journal& journal) const;
  void write_journal();
  void end_document();
  void flush_lengths();
  void write_index();
  void publish();

  FileSystem& files_;
  Options options_;
  std::string folder_;  // of the work
  Journal journal_;
  std::vector<std::int32_t> lengths_;  // not yet written
  std::unique_ptr<FileSystem::Writer> bin_, lengths_file_;
  RunningHash bin_hash_, lengths_hash_;  // of all that was written
};

}  // namespace fourfold::data
