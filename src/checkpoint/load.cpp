#include "checkpoint/load.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/shard.h"

namespace fourfold::checkpoint {
namespace {

std::string describe(DType dtype, const Shape& shape) {
  return format("{} {}", to_string(dtype), to_string(shape));
}

/// True if a checkpoint may lack it. Those written before the update counted what is not finite
/// have no such counter, and none to count: it begins at 0.
bool may_lack(const program::Buffer& tensor) {
  return tensor.role == program::BufferRole::counter && tensor.name == "non_finite";
}

/// One line for each tensor that the checkpoint lacks, has too many, or has otherwise: the first
/// ones, and how many there are besides.
std::string list_differences(const Manifest& manifest, const JobState& state) {
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : manifest.tensors) stored[tensor.name] = &tensor;
  constexpr std::size_t most_lines = 8;
  std::size_t differences = 0;
  std::string lines;
  const auto add = [&](const std::string& line) {
    if (++differences <= most_lines) lines += "\n  " + line;
  };
  for (const program::Buffer& tensor : state.tensors) {
    const std::string expected = describe(tensor.dtype, tensor.global);
    const auto found = stored.extract(tensor.name);
    if (found.empty()) {
      if (!may_lack(tensor)) add(format("{}: missing, the model has {}", tensor.name, expected));
    } else if (const auto got = describe(found.mapped()->dtype, found.mapped()->shape);
               got != expected) {
      add(format("{}: {}, the model has {}", tensor.name, got, expected));
    }
  }
  if (!state.is_whole) stored.clear();
  for (const auto& [name, tensor] : stored)
    add(format("{}: {}, the model has none of this name", name,
               describe(tensor->dtype, tensor->shape)));
  if (differences > most_lines)
    lines += format("\n  and {} tensors more", differences - most_lines);
  return lines;
}

/// The tensor of a shard that a slice speaks of.
const TensorInfo& tensor_in(const ShardReader& shard, const StoredTensor& tensor,
                            const Slice& slice) {
  const TensorInfo* info = shard.header().find(tensor.name);
  if (info == nullptr || info->dtype != tensor.dtype || info->shape != slice.box.extent)
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: has not the part of {} that its manifest promises", shard.path(), tensor.name));
  return *info;
}

/// What is wanted from one file, in the order in which it stands there.
struct Wanted {
  const StoredTensor* stored;
  const Slice* slice;
  const StateTensor* into;
  std::int64_t begin;
};

/// The digest of a part of a tensor that is filled row by row, taken of the memory while the cache
/// still has it. The places of its elements in the tensor are those of the memory, not of the file.
class RunningDigest {
 public:
  RunningDigest(const StateTensor& tensor, const Box& part, std::span<const std::byte> memory)
      : tensor_(tensor), part_(part), memory_(memory) {
    if (part.extent.rank() > 0) row_elements_ = part.extent.elements(1, part.extent.rank());
  }

  /// So many more elements of the part are there, in their order.
  void fill(std::int64_t elements) {
    filled_ += elements;
    // Runs may be as short as a row of a cut tensor.
    constexpr std::int64_t batch = 65536;
    if (filled_ - rows_ * row_elements_ >= batch || filled_ == part_.elements()) take_rows();
  }
  std::uint64_t value() const { return value_; }

 private:
  void take_rows() {
    Box rows = part_;
    if (rows.extent.rank() > 0) {
      rows.origin[0] += rows_;
      rows.extent[0] = filled_ / row_elements_ - rows_;
      rows_ += rows.extent[0];
    }
    const program::Buffer& buffer = *tensor_.buffer;
    value_ += digest_of(buffer.name, buffer.dtype, buffer.global, rows, tensor_.memory, memory_);
  }

  const StateTensor& tensor_;
  const Box& part_;
  std::span<const std::byte> memory_;
  std::int64_t row_elements_ = 1, filled_ = 0, rows_ = 0;  // rows_: that are in the value
  std::uint64_t value_ = 0;
};

class Loader {
 public:
  Loader(FileSystem& files, const Found& found, const std::vector<StateTensor>& state,
         const BufferBytes& bytes_of, double patience_s)
      : files_(files), found_(found), state_(state), bytes_of_(bytes_of), patience_s_(patience_s) {}

  /// The digests of what was loaded, where this rank owns it.
  const Digests& digests() const { return digests_; }

  void load_file(std::size_t file) {
    std::vector<Wanted> wanted = wanted_from(file);
    if (wanted.empty()) return;
    ShardReader shard(files_, found_.path, found_.manifest.files[file], patience_s_);
    for (Wanted& part : wanted) part.begin = tensor_in(shard, *part.stored, *part.slice).begin;
    std::sort(wanted.begin(), wanted.end(),
              [](const Wanted& a, const Wanted& b) { return a.begin < b.begin; });
    for (const Wanted& part : wanted) load_part(shard, part);
  }

 private:
  std::vector<Wanted> wanted_from(std::size_t file) const {
    std::vector<Wanted> wanted;
    for (const StateTensor& tensor : state_) {
      const StoredTensor* stored = found_.manifest.find(tensor.buffer->name);
      if (stored == nullptr) continue;
      for (const Slice& slice : stored->slices)
        if (slice.file == file && !intersection(slice.box, tensor.held).is_empty())
          wanted.push_back({stored, &slice, &tensor, 0});
    }
    return wanted;
  }

  void load_part(ShardReader& shard, const Wanted& part) {
    const StateTensor& into = *part.into;
    const std::int64_t element = size_bytes(part.stored->dtype);
    const HostView<std::byte> view = bytes_of_(*into.buffer);
    const std::span<std::byte> memory = view.span();
    const Box box = intersection(part.slice->box, into.held);
    RunningDigest digest(into, box, memory);
    for_runs(box, part.slice->box, into.memory,
             [&](std::int64_t in_file, std::int64_t in_memory, std::int64_t count) {
               for (std::int64_t done = 0, piece = 0; done < count; done += piece) {
                 const std::int64_t begin = part.begin + (in_file + done) * element;
                 const std::int64_t left_of_chunk = shard.left_of_chunk(begin) / element;
                 piece = std::min(count - done, std::max<std::int64_t>(left_of_chunk, 1));
                 shard.read(begin,
                            memory.subspan(static_cast<std::size_t>((in_memory + done) * element),
                                           static_cast<std::size_t>(piece * element)));
                 if (into.is_owner) digest.fill(piece);
               }
             });
    if (into.is_owner) digests_[into.buffer->name] += digest.value();
  }

  FileSystem& files_;
  const Found& found_;
  const std::vector<StateTensor>& state_;
  const BufferBytes& bytes_of_;
  double patience_s_;
  Digests digests_;
};

}  // namespace

void check_fits(const Found& found, const JobState& state) {
  const std::string differences = list_differences(found.manifest, state);
  if (!differences.empty())
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: does not fit the model; use the configuration it was trained "
                           "with:{}",
                           found.path, differences));
}

Digests load_state(FileSystem& files, const Found& found, const program::Program& program,
                   const BufferBytes& bytes_of, double patience_s) {
  check_fits(found, program);
  const std::vector<StateTensor> state = state_of(program);
  for (const StateTensor& tensor : state)
    if (tensor.held != tensor.memory || may_lack(*tensor.buffer)) {
      const auto memory = bytes_of(*tensor.buffer);
      std::fill_n(memory.data(), memory.size(), std::byte{0});
    }
  Loader loader(files, found, state, bytes_of, patience_s);
  for (std::size_t file = 0; file < found.manifest.files.size(); ++file) loader.load_file(file);
  return loader.digests();
}

void verify(FileSystem& files, const Found& found) {
  std::map<std::string_view, std::uint64_t> digests;
  std::vector<std::byte> bytes;
  for (std::size_t file = 0; file < found.manifest.files.size(); ++file) {
    ShardReader shard(files, found.path, found.manifest.files[file]);
    for (const StoredTensor& tensor : found.manifest.tensors)
      for (const Slice& slice : tensor.slices) {
        if (slice.file != file) continue;
        const TensorInfo& info = tensor_in(shard, tensor, slice);
        bytes.resize(static_cast<std::size_t>(info.size_bytes()));
        shard.read(info.begin, bytes);
        digests[tensor.name] +=
            digest_of(tensor.name, tensor.dtype, tensor.shape, slice.box, slice.box, bytes);
      }
  }
  for (const StoredTensor& tensor : found.manifest.tensors)
    if (digests[tensor.name] != tensor.digest)
      throw UserError(ExitCode::no_checkpoint,
                      format("{}: {} has the digest {:016x}, its manifest says {:016x}; the "
                             "checkpoint is damaged",
                             found.path, tensor.name, digests[tensor.name], tensor.digest));
}

}  // namespace fourfold::checkpoint
