#include "data/megatron_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace fourfold::data {
namespace {

constexpr std::string_view again =
    "make the set again with `fourfold data tokenize`, or copy it again";

[[noreturn]] void fail_index(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, what, again));
}

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

constexpr std::pair<std::uint8_t, TokenDtype> codes[] = {
    {1, TokenDtype::u8},  {2, TokenDtype::i8},  {3, TokenDtype::i16},
    {4, TokenDtype::i32}, {5, TokenDtype::i64}, {8, TokenDtype::u16},
};

TokenDtype dtype_of(std::uint8_t code, const std::string& path) {
  for (const auto& [number, dtype] : codes)
    if (number == code) return dtype;
  const bool is_float = code == 6 || code == 7;
  fail_index(path, format("its type code is {}{}, expected whole numbers (1 to 5, or 8)", code,
                          is_float ? ", floating-point numbers" : ""));
}

struct IndexHeader {
  TokenDtype dtype;
  std::int64_t sequences, bounds;
};

/// Nothing where it does not fit 64 bits.
std::optional<std::int64_t> bytes_described(const IndexHeader& header) {
  const auto of_sequences = checked_multiply(header.sequences, 4 + 8);
  const auto of_bounds = checked_multiply(header.bounds, 8);
  if (!of_sequences || !of_bounds) return std::nullopt;
  const auto arrays = checked_add(*of_sequences, *of_bounds);
  return arrays ? checked_add(*arrays, MegatronIndex::header_bytes) : std::nullopt;
}

IndexHeader read_index_header(const DataFile& file) {
  const std::string& path = file.path();
  std::array<std::byte, MegatronIndex::header_bytes> bytes{};
  constexpr std::string_view magic("MMIDIDX\0\0", 9);
  const std::size_t got = file.read_some(0, bytes);
  if (got < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    fail_index(path, "does not begin with MMIDIDX, expected the index of a Megatron set");
  if (got < bytes.size())
    fail_index(path,
               format("has {} bytes, expected at least the {} of a header", got, bytes.size()));
  if (const auto version = number_at<std::uint64_t>(bytes, 9); version != 1)
    fail_index(path, format("is of version {}, expected 1", version));
  const IndexHeader header{dtype_of(number_at<std::uint8_t>(bytes, 17), path),
                           number_at<std::int64_t>(bytes, 18), number_at<std::int64_t>(bytes, 26)};
  if (header.sequences < 0 || header.bounds < 1)
    fail_index(path, format("claims {} sequences and {} document bounds, expected at least 0 and 1",
                            header.sequences, header.bounds));
  const auto described = bytes_described(header);
  if (described != file.size())
    fail_index(path, format("has {} bytes, but {} sequences and {} document bounds take {}",
                            file.size(), header.sequences, header.bounds,
                            described ? format("{}", *described) : "more than any file holds"));
  return header;
}

}  // namespace

std::uint8_t megatron_code(TokenDtype dtype) {
  for (const auto& [code, known] : codes)
    if (known == dtype) return code;
  fail_internal("a Megatron set can hold tokens of this type");
}

/// The one pass over all arrays.
class MegatronIndex::Scan {
 public:
  Scan(MegatronIndex& index, std::int64_t bin_bytes, const std::string& bin_path)
      : index_(index), bin_bytes_(bin_bytes), bin_path_(bin_path) {}

  void sequences() {
    const std::int64_t count = index_.num_sequences_;
    const std::int64_t lengths = header_bytes, offsets = lengths + 4 * count;
    IndexColumn<std::int32_t> length(index_.file_, lengths, count);
    IndexColumn<std::int64_t> offset(index_.file_, offsets, count);
    IndexColumn<std::int64_t> bound(index_.file_, offsets + 8 * count, index_.num_documents_ + 1);
    next_bound_ = checked_bound(bound.next());
    for (sequence_ = 0; sequence_ < count; ++sequence_) {
      begin_documents(bound);
      add(length.next(), offset.next());
    }
    begin_documents(bound);
    if (next_bound_ != count)
      fail_index(path(),
                 format("its documents end behind sequence {}, expected {}", next_bound_, count));
    if (bytes_ != bin_bytes_)
      fail_index(bin_path_,
                 format("has {} bytes, but {} describes {}", bin_bytes_, path(), bytes_));
    check_cover();
  }

 private:
  /// Every byte belongs to one sequence: as there are as many bytes as sequences take, it is enough
  /// that runs do not overlap.
  void check_cover() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // begin, end
    const auto& runs = index_.runs_;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::int64_t end = i + 1 < runs.size() ? runs[i + 1].token : index_.num_tokens_;
      const std::int64_t size = (end - runs[i].token) * facts_of(index_.dtype_).size_bytes;
      pieces.emplace_back(runs[i].byte, runs[i].byte + size);
    }
    std::sort(pieces.begin(), pieces.end());
    for (std::size_t i = 1; i < pieces.size(); ++i)
      if (pieces[i].first < pieces[i - 1].second)
        fail_index(path(), format("two of its sequences hold the same tokens, at byte {} of {}",
                                  pieces[i].first, bin_path_));
  }

  const std::string& path() const { return index_.file_.path(); }

  std::int64_t checked_bound(std::int64_t bound) const {
    const std::int64_t least = documents_begun_ == 0 ? 0 : next_bound_;
    const std::int64_t most = documents_begun_ == 0 ? 0 : index_.num_sequences_;
    if (bound < least || bound > most)
      fail_index(path(), format("document {} begins at sequence {}, expected {} to {}",
                                documents_begun_, bound, least, most));
    return bound;
  }

  /// Those that begin at this sequence; the last bound is the end of all.
  void begin_documents(IndexColumn<std::int64_t>& bound) {
    while (documents_begun_ <= index_.num_documents_ && next_bound_ == sequence_) {
      if (documents_begun_ % stride == 0) index_.marks_.push_back({index_.num_tokens_, sequence_});
      ++documents_begun_;
      if (documents_begun_ <= index_.num_documents_) next_bound_ = checked_bound(bound.next());
    }
  }

  void add(std::int32_t length, std::int64_t offset) {
    if (length < 0) fail_index(path(), format("sequence {} has length {}", sequence_, length));
    const std::int64_t size = length * facts_of(index_.dtype_).size_bytes;
    const auto end = checked_add(offset, size);
    if (offset < 0 || !end || *end > bin_bytes_)
      fail_index(path(), format("sequence {} lies at byte {} and has {}, but {} has {} bytes",
                                sequence_, offset, size, bin_path_, bin_bytes_));
    if (length == 0) return;
    if (index_.runs_.empty() || offset != next_offset_)
      index_.runs_.push_back({index_.num_tokens_, offset});
    next_offset_ = *end;
    index_.num_tokens_ += length;
    // At most as many bytes as sequences times the file's size: checked, because holes are free.
    const auto sum = checked_add(bytes_, size);
    if (!sum || *sum > bin_bytes_)
      fail_index(path(), format("its first {} sequences take more than the {} bytes of {}",
                                sequence_ + 1, bin_bytes_, bin_path_));
    bytes_ = *sum;
  }

  MegatronIndex& index_;
  const std::int64_t bin_bytes_;
  const std::string& bin_path_;
  std::int64_t sequence_ = 0, bytes_ = 0, next_offset_ = -1;
  std::int64_t documents_begun_ = 0, next_bound_ = 0;
};

MegatronIndex::MegatronIndex(std::string path, std::int64_t bin_bytes, const std::string& bin_path)
    : file_(std::move(path)) {
  const IndexHeader header = read_index_header(file_);
  dtype_ = header.dtype;
  num_sequences_ = header.sequences;
  num_documents_ = header.bounds - 1;
  Scan(*this, bin_bytes, bin_path).sequences();
}

MegatronIndex::Documents::Documents(const MegatronIndex& index, const Mark& mark,
                                    std::int64_t number)
    : length_(index.file_, header_bytes + 4 * mark.sequence, index.num_sequences_ - mark.sequence),
      bound_(index.file_, header_bytes + 12 * index.num_sequences_ + 8 * (number + 1),
             index.num_documents_ - number),
      sequence_(mark.sequence),
      left_(index.num_documents_ - number) {
  next_.first = mark.token;
}

std::optional<MegatronIndex::Document> MegatronIndex::Documents::next() {
  if (left_ == 0) return std::nullopt;
  --left_;
  Document document = next_;
  for (const std::int64_t end = bound_.next(); sequence_ < end; ++sequence_)
    document.tokens += length_.next();
  next_.first += document.tokens;
  return document;
}

MegatronIndex::Documents MegatronIndex::documents_before(std::int64_t token) const {
  const auto behind = std::upper_bound(marks_.begin(), marks_.end(), token,
                                       [](std::int64_t t, const Mark& m) { return t < m.token; });
  const auto mark = behind == marks_.begin() ? behind : behind - 1;
  return {*this, *mark, (mark - marks_.begin()) * stride};
}

}  // namespace fourfold::data
