#include "checkpoint/save_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "checkpoint/box.h"
#include "checkpoint/model_files.h"
#include "checkpoint/safetensors.h"

namespace fourfold::checkpoint {
namespace {

/// What a rank has of a tensor: the buffer of its program and the bytes there.
struct LocalTensor {
  const Mesh& mesh;
  const program::Buffer& buffer;
  std::span<const std::byte> bytes;
};

/// Fills `into` on rank `root`, dense and row-major, with the elements of `box` of the logical
/// tensor; nothing on the other ranks. All ranks of the mesh and the root call together; a job of
/// one rank has no world. Of ranks that hold the same elements, the first one sends them. `tag`
/// (0 ... 32767) tells messages of different tensors apart. Memory: what one rank holds of the box.
/// Requires cuts in whole blocks.
void gather_box(const LocalTensor& local, const Box& box, Rank own, Rank root, int tag,
                comm::World* world, std::span<std::byte> into) {
  const std::int64_t element = size_bytes(local.buffer.dtype);
  std::vector<std::byte> message;
  for (std::size_t position = 0; position < local.mesh.ranks.size(); ++position) {
    const Rank owner = local.mesh.ranks[position];
    if ((own != root && owner != own) || !is_owner(local.mesh, local.buffer, position)) continue;
    const Box part = intersection(held_box(local.mesh, local.buffer, position), box);
    if (part.is_empty()) continue;
    const bool is_own = owner == own;
    if (is_own && own == root) {
      copy_box(part, memory_box(local.mesh, local.buffer, position), local.bytes, box, into,
               element);
      continue;
    }
    require(world != nullptr, "a job of one rank holds whole tensors");
    message.resize(static_cast<std::size_t>(part.elements() * element));
    if (is_own) {
      copy_box(part, memory_box(local.mesh, local.buffer, position), local.bytes, part, message,
               element);
      world->send(root, tag, message);
    } else {
      world->recv(owner, tag, message);
      copy_box(part, part, message, box, into, element);
    }
  }
}

/// A part of a file's data, in its order.
struct Piece {
  std::size_t file = 0, parameter = 0;
  Box box;
  bool is_first = false, is_last = false;  // of the file
};

/// A tensor of the model, and where it is.
struct Parameter {
  std::string name;
  const program::Buffer* buffer;
};

/// The files of a model, and who writes what, which every rank works out alike.
struct Division {
  std::vector<Parameter> parameters;
  std::vector<ListedFile> files;
  std::vector<std::string> headers;         // by file
  std::vector<std::vector<Piece>> writers;  // by the number of the writing rank
};

/// The buffers of parameters, by their names; of those that are averaged, their averages.
std::vector<Parameter> parameters_of(const JobState& state) {
  std::map<std::string_view, const program::Buffer*> averages;
  for (const program::Buffer& buffer : state.tensors)
    if (buffer.role == program::BufferRole::average)
      averages[program::averaged_name(buffer.name)] = &buffer;
  std::vector<Parameter> parameters;
  for (const program::Buffer& buffer : state.tensors) {
    if (buffer.role != program::BufferRole::parameter) continue;
    const auto average = averages.find(buffer.name);
    parameters.push_back({buffer.name, average == averages.end() ? &buffer : average->second});
  }
  return parameters;
}

std::vector<ListedFile> list_files(const std::vector<Parameter>& parameters,
                                   std::int64_t max_file_bytes) {
  std::vector<std::int64_t> sizes;
  for (const Parameter& p : parameters)
    sizes.push_back(p.buffer->global.elements() * size_bytes(p.buffer->dtype));
  const std::vector<std::size_t> ends = ends_of_files(sizes, max_file_bytes);
  std::vector<ListedFile> files;
  std::size_t next = 0;
  for (const std::size_t end : ends) {
    files.push_back({model_file_name(files.size(), ends.size()), {}});
    for (; next < end; ++next)
      files.back().tensors.push_back(
          {parameters[next].name, parameters[next].buffer->dtype, parameters[next].buffer->global});
  }
  return files;
}

Division divide(const JobState& state, const ModelFileSpec& spec, std::size_t ranks) {
  Metadata metadata = default_metadata();
  for (const auto& [key, value] : spec.metadata) metadata[key] = value;
  Division division;
  division.parameters = parameters_of(state);
  division.files = list_files(division.parameters, spec.max_file_bytes);
  division.writers.resize(ranks);
  for (std::size_t file = 0; file < division.files.size(); ++file) {
    ListedFile& listed = division.files[file];
    const auto header = SafetensorsHeader::lay_out(listed.tensors, metadata);
    division.headers.push_back(safetensors_header_bytes(header, listed.name));
    std::vector<Piece>& pieces = division.writers[file * ranks / division.files.size()];
    const std::size_t begin = pieces.size();
    for (const TensorInfo& tensor : header.tensors()) {
      const auto parameter = std::ranges::find(division.parameters, tensor.name, &Parameter::name) -
                             division.parameters.begin();
      const std::int64_t most =
          std::max<std::int64_t>(1, spec.piece_bytes / size_bytes(tensor.dtype));
      for_chunks(tensor.shape, most, [&](const Box& box) {
        pieces.push_back({file, static_cast<std::size_t>(parameter), box});
      });
    }
    if (pieces.size() == begin) continue;
    pieces[begin].is_first = true;
    pieces.back().is_last = true;
  }
  return division;
}

/// One rank's share of the work: it sends what it holds, and writes the files that are its own.
class ModelSaver {
 public:
  ModelSaver(const std::string& folder, const JobState& state, const BufferReads& bytes_of,
             comm::World* world, const ModelFileSpec& spec)
      : folder_(folder),
        state_(state),
        bytes_of_(bytes_of),
        world_(world),
        spec_(spec),
        own_(world == nullptr ? Rank(0) : world->rank()),
        own_writer_(world == nullptr ? 0 : own_.index()),
        division_(divide(state, spec, world == nullptr ? 1 : world->size())),
        views_(division_.writers.size()) {}

  void run() {
    const bool is_split = division_.files.size() > 1;
    // A reader prefers a single file, and an index promises the files that it names.
    if (is_split) {
      remove_others("");
      meet();
    }
    std::size_t rounds = 0;
    for (const auto& pieces : division_.writers) rounds = std::max(rounds, pieces.size());
    // Each writer gets a piece in every round, so that all write side by side. All ranks exchange
    // in one order, so that no circle of them waits.
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t writer = 0; writer < division_.writers.size(); ++writer)
        if (round < division_.writers[writer].size())
          exchange(division_.writers[writer][round], writer);
      const std::vector<Piece>& own = division_.writers[own_writer_];
      if (round < own.size()) write(own[round]);
    }
    meet();
    if (!is_split) remove_others(division_.files[0].name);
    if (is_split && is_first()) write_model_index(folder_, division_.files, spec_.metadata);
  }

 private:
  /// The bytes of the tensor that a writer is at.
  struct View {
    const program::Buffer* parameter = nullptr;
    HostView<const std::byte> bytes;
  };

  bool is_first() const { return own_writer_ == 0; }
  void meet() {
    if (world_ != nullptr) world_->barrier();
  }

  /// Removes the files of other models from the folder, on the first rank.
  void remove_others(const std::string& kept) {
    if (!is_first()) return;
    for (const std::string& name : list_model_files(folder_))
      if (name != kept) real_files().remove_file(join_path(folder_, name));
  }

  void exchange(const Piece& piece, std::size_t writer) {
    constexpr std::size_t tags = 32768;
    const program::Buffer& parameter = *division_.parameters[piece.parameter].buffer;
    const Mesh& mesh = state_.meshes[parameter.sharding.mesh.index()];
    View& view = views_[writer];
    if (view.parameter != &parameter) {
      view.bytes = {};  // the memory of the last copy goes before the next one is made
      view.parameter = &parameter;
    }
    if (view.bytes.size() == 0 && mesh.ranks.position(own_)) {
      view.bytes = bytes_of_(parameter);
      require(static_cast<std::int64_t>(view.bytes.size()) == parameter.size_bytes,
              "a rank that saves a model has the bytes of its parameters");
    }
    const bool is_own = writer == own_writer_;
    if (is_own)
      piece_.resize(static_cast<std::size_t>(piece.box.elements() * size_bytes(parameter.dtype)));
    gather_box({mesh, parameter, std::span(view.bytes.data(), view.bytes.size())}, piece.box, own_,
               world_ == nullptr ? own_ : Rank(writer), static_cast<int>(piece.parameter % tags),
               world_, is_own ? std::span(piece_) : std::span<std::byte>());
  }

  void write(const Piece& piece) {
    if (piece.is_first) {
      file_ = std::make_unique<AtomicFile>(join_path(folder_, division_.files[piece.file].name));
      file_->write(std::as_bytes(std::span(division_.headers[piece.file])));
    }
    file_->write(piece_);
    if (!piece.is_last) return;
    file_->commit();
    file_.reset();
  }

  const std::string& folder_;
  const JobState& state_;
  const BufferReads& bytes_of_;
  comm::World* world_;
  const ModelFileSpec& spec_;
  Rank own_;
  std::size_t own_writer_;
  Division division_;
  std::vector<View> views_;       // by writer
  std::vector<std::byte> piece_;  // that this rank is to write
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace

void save_model(const std::string& folder, const JobState& state, const BufferReads& bytes_of,
                comm::World* world, const ModelFileSpec& spec) {
  ModelSaver(folder, state, bytes_of, world, spec).run();
}

}  // namespace fourfold::checkpoint
